"""Reads traces and captures and works out every figure; imports neither torch nor plotly nor dash."""
