"""Renderers: a Report in, text or bytes out."""
