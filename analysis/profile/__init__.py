"""The modes of a capture side by side, and its ranks."""
