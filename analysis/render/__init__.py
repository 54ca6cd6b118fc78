"""Blocks and documents as text or bytes."""
