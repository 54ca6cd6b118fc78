"""Regression checks: limits on the figures of a target, alone or against a baseline (docs/guard.md)."""
