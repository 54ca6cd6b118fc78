"""Whether a file is a trace, told from its beginning: which files of a folder are to be read.

A file that is named like a trace is one unless it plainly is something else: a rank whose file was lost, cut or never
written is a row with its reason, not a row less.
"""

from __future__ import annotations

from typing import BinaryIO, Final, NamedTuple

import msgspec

from ...model.errors import UnreadableInput
from .event_chunks import LONGEST_TEXT
from .foreign import profile_of_others
from .sqlite_file import MAGIC
from .unpacking import Unpacked

NO_EVENTS: Final = "JSON without a list traceEvents"
OTHER_PROGRAM: Final = "a file of another program, or another file of launchscope"
NEITHER: Final = "no trace by name and content"

_SUFFIXES: Final = (".json", ".gz", ".sqlite", ".sqlite3", ".db", ".trace")
_PACKED_OTHERS: Final = (".txt.gz", ".log.gz", ".csv.gz", ".tar.gz")
_WITHIN: Final = ".json."  # rank3.json.gz.part
_LONGEST: Final = 1 << 62  # no bound: no more is unpacked than is looked at
_JSON: Final = msgspec.json.Decoder(msgspec.Raw)


class Peek(NamedTuple):
    """What the beginning of a file tells."""

    skipped: str | None = None  # why it is not read; None: a reader here takes it, or has to say what is wrong with it
    foreign: str | None = None  # of a recording of a profiler that no reader here takes: what it is, and what to run


def is_named_like_a_trace(path: str) -> bool:
    """By its suffix."""
    name = path.rpartition("/")[2].lower()
    return (name.endswith(_SUFFIXES) or _WITHIN in name) and not name.endswith(_PACKED_OTHERS)


def peek(file: BinaryIO, path: str) -> Peek:
    """Look at the beginning of a file, up to where a trace's records would begin; ``path`` names it."""
    text, is_whole = b"", True
    try:
        for block in Unpacked(file, path, most_bytes=_LONGEST):
            text += block
            if _is_trace(text):
                return Peek()
            if not _may_be_json(text) or len(text) > LONGEST_TEXT:
                is_whole = False
                break
    except UnreadableInput:  # a compressed file that was cut at once
        return Peek()
    foreign = profile_of_others(text, path)
    if foreign is not None and (_may_be_json(text) or not is_named_like_a_trace(path)):
        return Peek(OTHER_PROGRAM, foreign)
    if is_whole and _is_json(text):
        return Peek(NO_EVENTS)
    return Peek() if is_named_like_a_trace(path) else Peek(NEITHER)


def _is_trace(text: bytes) -> bool:
    begin = text.lstrip()[:1]
    is_json = (begin == b"{" and b'"traceEvents"' in text) or (begin == b"[" and b'"ph"' in text)
    return is_json or text.startswith(MAGIC)


def _may_be_json(text: bytes) -> bool:
    return text.lstrip()[:1] in (b"{", b"[", b"")


def _is_json(text: bytes) -> bool:
    try:
        _JSON.decode(text)
    except (msgspec.DecodeError, RecursionError):
        return False
    return True
