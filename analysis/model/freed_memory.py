"""Memory that was freed, but that the allocator keeps; and no search for what refers to itself."""

from __future__ import annotations

import contextlib
import ctypes
import gc
from collections.abc import Iterator
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


@contextlib.contextmanager
def no_collection() -> Iterator[None]:
    """Python searches for no cycles meanwhile. Millions of records make none; looking takes a tenth of the time."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()
