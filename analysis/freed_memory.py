"""Memory that was freed, but that the allocator keeps: for a large trace that is more than the trace itself."""

from __future__ import annotations

import contextlib
import ctypes
from typing import Final

_MANY_ROWS: Final = 50_000


def return_freed_memory(rows: int) -> None:
    """Give it back to the system after work on so many rows, where that is worth it and the C library can.

    132 MB become 78 after reading a file of 250 MB. Keeping less from the start (M_MMAP_THRESHOLD) costs a second in
    page faults there.
    """
    if rows <= _MANY_ROWS:
        return
    with contextlib.suppress(OSError, AttributeError, TypeError):
        ctypes.CDLL(None).malloc_trim(0)
