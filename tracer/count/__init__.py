"""A step counted without a GPU."""
