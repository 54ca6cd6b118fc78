"""A recorded step simulated with a knob turned (docs/validation.md tells how far from measured)."""
