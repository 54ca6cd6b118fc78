"""The fusion advisor: what could be fused, by the patterns of each kind, and what it is worth (docs/fusion.md)."""
