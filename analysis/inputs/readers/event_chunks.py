"""Cutting a long list of JSON records into pieces of whole records, as its text comes in.

Two cutters. The quick one searches for the text that stands between the first two records (line breaks, indentation,
first key), or for anything like it; where such text stands inside a record, the piece is no JSON, and whoever decodes
it puts it back. The exact one knows strings and nesting, and takes some ten times as long.
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from .json_text import object_pattern
from .unpacking import BLOCK_BYTES

_STRING: Final = rb'"(?:[^"\\\n]++|\\.)*+"'  # JSON's end in the line that they begin in; else a quote was lost
_OBJECT: Final = object_pattern(_STRING)
_FIRST_TWO: Final = re.compile(rb"\s*+" + _OBJECT + rb'(\s*+,\s*+\{\s*+"(?:[^"\\]{1,40}")?)', re.DOTALL)
_ANY_SEPARATOR: Final = re.compile(rb'\}\s*+,\s*+(?=\{\s*+")')
_FLAT: Final = _STRING + rb'|[^\s{}\[\]",\\]++|\[(?:[^{}\[\]"\\]++|' + _STRING + rb")*+\]"
_ENTRIES: Final = re.compile(rb"(?:\s*+(?:" + _OBJECT + rb"|" + _FLAT + rb")?+\s*+,)*+", re.DOTALL)
_RECORD: Final = re.compile(_OBJECT, re.DOTALL)
_TOKEN: Final = re.compile(_STRING + rb"?|[{}\[\],]", re.DOTALL)
_BEHIND_LIST: Final = re.compile(rb'\s*+(?:\}|,\s*+"|\Z)')
_SEARCHED_BYTES: Final = 1 << 16
_MOST_UNCUT_PIECES: Final = 4

LONGEST_TEXT: Final = 16 << 20
"""The most that is held of what can't be cut: a record, what stands beside the list. A name of 10 MB fits."""


class Entry(Enum):
    """Why no whole entry stands at the start of a text."""

    LAST = auto()  # the list ends behind it
    CUT = auto()  # the text ends, or a quote or a brace was lost


class EventText:
    """The records of a list, from behind its ``[``, and whatever comes behind the list."""

    def __init__(self, begin: bytes, blocks: Iterator[bytes], piece_bytes: int = BLOCK_BYTES) -> None:
        self._parts = deque([begin])
        self._blocks = blocks
        self._piece_bytes = piece_bytes
        self._is_stopped = False
        self.is_cuttable = True  # False: the quick cutter found no place to cut in what it held, or was stopped

    def quick_pieces(self) -> Iterator[bytes]:
        """Lists of records, complete with ``[`` and ``]``, as long as there is text for one more."""
        block: bytes | None = self._taken(min(self._piece_bytes, _SEARCHED_BYTES))[0]
        assert block is not None
        separator = _separator(block)
        parts: list[bytes] = []
        size = 0
        while block is not None:
            size += len(block)
            comma = _last_cut(block, separator) if size >= self._piece_bytes else 0
            if comma:
                piece = b"".join((b"[", *parts, memoryview(block)[:comma], b"]"))
                parts, size = [block[comma + 1 :]], len(block) - comma - 1
                yield piece
            else:
                parts.append(block)
            self.is_cuttable = size < _MOST_UNCUT_PIECES * self._piece_bytes and not self._is_stopped
            block = next(self._blocks, None) if self.is_cuttable else None
        self._parts.extendleft(reversed(parts))

    def stop(self) -> None:
        """No more quick pieces."""
        self._is_stopped = True

    def exact_pieces(self) -> Iterator[bytes]:
        """Lists of whole entries, up to the last one of the list or of the text; a damaged entry is a list of its own.

        What can't be told apart from damage, an entry longer than the text so far, waits for more text.
        """
        text, at, wanted, has_more, resumed = b"", 0, self._piece_bytes, True, 0
        while True:
            if has_more and len(text) - at < wanted:
                self._parts.appendleft(text[at:])
                (text, has_more), at, resumed = self._taken(wanted), 0, 0
            end, reason = _plain_entries(text, at), Entry.CUT
            if end == at:
                resumed = resumed if resumed > at else _resume(text, at)
                end, reason = _odd_entries(text, at, resumed)
            if end > at:
                yield b"[" + text[at:end].removesuffix(b",") + b"]"
                at, wanted = end, self._piece_bytes
            elif reason is Entry.LAST or not has_more or len(text) - at >= LONGEST_TEXT:
                self._parts.appendleft(text[at:])
                return
            else:
                wanted = min(2 * max(wanted, len(text) - at), LONGEST_TEXT)

    def put_back(self, pieces: list[bytes]) -> None:
        """Undo the last of the quick pieces."""
        for piece in reversed(pieces):
            self._parts.extendleft((b",", piece[1:-1]))

    def rest(self) -> bytes:
        """What was not given out as a piece; of what is longer than any such rest the beginning."""
        return self._taken(LONGEST_TEXT)[0]

    def _taken(self, wanted: int) -> tuple[bytes, bool]:
        """So many bytes or somewhat more, and whether there may be others; fewer where the text ends."""
        parts: list[bytes] = []
        size = 0
        while size < wanted:
            part = self._parts.popleft() if self._parts else next(self._blocks, None)
            if part is None:
                return b"".join(parts), False
            parts.append(part)
            size += len(part)
        return b"".join(parts), True


def _separator(text: bytes) -> bytes | None:
    """What stands between the first two records, from the white space in front of a brace to the first key."""
    found = _FIRST_TWO.match(text)
    if found is None:
        return None
    inside = text[: found.start(1) - 1]  # without the brace that the record ends in
    return inside[len(inside.rstrip()) :] + b"}" + found.group(1)


def _last_cut(block: bytes, separator: bytes | None) -> int:
    """Where the comma behind the last whole record of the block stands; 0 where none seems to stand.

    The white space around it stays: a cut inside a string is undone.
    """
    if separator is not None and (at := block.rfind(separator)) >= 0:
        return block.index(b",", block.index(b"}", at))
    found = list(_ANY_SEPARATOR.finditer(block, max(0, len(block) - _SEARCHED_BYTES)))
    return block.index(b",", found[-1].start()) if found else 0


def _plain_entries(text: bytes, at: int) -> int:
    """Where the comma behind the last of the whole entries from ``at`` on ends; objects, texts, numbers."""
    found = _ENTRIES.match(text, at)
    assert found is not None, "it matches nothing, too"
    return found.end()


def _odd_entries(text: bytes, at: int, resumed: int) -> tuple[int, Entry]:
    """The same of entries that are not plain, which are damaged where a record begins at ``resumed``, and what ends
    them."""
    end = at
    while isinstance(following := _odd_entry(text, end, resumed), int):
        end = following
        if _plain_entries(text, end) > end:
            return end, Entry.CUT
    if end == at and following is Entry.CUT and resumed < len(text):
        return resumed, Entry.CUT
    return end, following


def _odd_entry(text: bytes, at: int, until: int) -> int | Entry:
    """Where the comma behind an entry ends that is no plain object: it nests too deep, or is a list."""
    depth = 0
    for token in _TOKEN.finditer(text, at, until):
        match token.group():
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]" if depth:
                depth -= 1
            case b"]" if _BEHIND_LIST.match(text, token.end()):
                return Entry.LAST
            case b"}" | b"]":
                return Entry.CUT
            case b"," if not depth:
                return token.end()
    return Entry.CUT


def _resume(text: bytes, at: int) -> int:
    """Where the first record behind a damaged entry begins, the text's end where none is seen."""
    for separator in _ANY_SEPARATOR.finditer(text, at):
        record = _RECORD.match(text, separator.end())
        if record is not None and b'"ph"' in record.group() and _is_json(record.group()):
            return separator.end()
    return len(text)


def _is_json(text: bytes) -> bool:
    """Or as near to it as writers come; what begins inside a string of an entry is not."""
    try:
        json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return False
    return True
