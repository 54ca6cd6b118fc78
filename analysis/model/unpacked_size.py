"""How much a compressed file may unpack to. A file that unpacks to more was made to fill a disk or a memory."""

from __future__ import annotations

from typing import Final

MAX_UNPACKED_BYTES: Final = 8 << 30
_ANY_RATIO_BYTES: Final = 64 << 20
_MOST_RATIO: Final = 200
"""Deflate can reach 1,032. Kineto files pack 8 to 35 times, the same indented by four up to 52 times."""


def most_unpacked(packed_bytes: int) -> int:
    """The most bytes that a file of this size may unpack to."""
    return min(max(_MOST_RATIO * packed_bytes, _ANY_RATIO_BYTES), MAX_UNPACKED_BYTES)
