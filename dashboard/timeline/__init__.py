"""Timelines: lanes, rectangles and what stands around them."""
