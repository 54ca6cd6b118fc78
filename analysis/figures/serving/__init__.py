"""The steps of a serving engine by phase, on the host and on the GPU (docs/serving.md)."""
