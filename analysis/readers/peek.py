"""Whether a file is a trace, told from its first bytes: which files of a folder are to be read."""

from __future__ import annotations

from typing import BinaryIO, Final, NamedTuple

from ..errors import UnreadableInput
from .foreign import profile_of_others
from .sqlite_file import MAGIC
from .unpacking import Unpacked

_SUFFIXES: Final = (".json", ".gz", ".sqlite")
_LONGEST: Final = 1 << 62  # no bound: the first block is all that is unpacked


class Peek(NamedTuple):
    """What the first bytes of a file tell."""

    is_trace: bool  # a reader here takes it, or has to say what is wrong with it
    foreign: str | None = None  # a recording of a profiler that no reader here takes: what it is, and what to run


def peek(file: BinaryIO, path: str) -> Peek:
    """Look at the beginning of a file; ``path`` names it."""
    try:
        head = next(iter(Unpacked(file, path, most_bytes=_LONGEST)), b"")
    except UnreadableInput:  # a compressed file that was cut at once
        return Peek(True)
    if not head:
        return Peek(path.lower().endswith(_SUFFIXES))
    if head.startswith(MAGIC):
        return Peek(True)
    begin = head.lstrip()[:1]
    is_trace = (begin == b"{" and b'"traceEvents"' in head) or (begin == b"[" and b'"ph"' in head)
    return Peek(is_trace, None if is_trace else profile_of_others(head, path))
