"""The figures of one trace, and the verdict on it."""
