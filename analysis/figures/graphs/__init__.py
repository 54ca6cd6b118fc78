"""CUDA graphs: replays in a trace, and why a step has none or has too many (docs/graphs.md)."""
