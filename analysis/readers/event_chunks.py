"""Cutting a long list of JSON records into pieces of whole records, as its text comes in.

Two cutters. The quick one searches for the text that stands between the first two records (line breaks, indentation,
first key), or for anything like it; where such text stands inside a record, the piece is no JSON, and whoever decodes
it puts it back. The exact one knows strings and nesting, and takes some ten times as long.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from enum import Enum, auto
from typing import Final

from .json_text import object_pattern
from .unpacking import BLOCK_BYTES

_STRING: Final = rb'"(?:[^"\\\n]++|\\.)*+"'  # JSON's end in the line that they begin in; else a quote was lost
_OBJECT: Final = object_pattern(_STRING)
_FIRST_TWO: Final = re.compile(rb"\s*+" + _OBJECT + rb'(\s*+,\s*+\{\s*+"(?:[^"\\]{1,40}")?)', re.DOTALL)
_CLOSING: Final = re.compile(rb"\s*\}\Z")
_ANY_SEPARATOR: Final = re.compile(rb'\}\s*+,\s*+(?=\{\s*+")')
_ENTRIES: Final = re.compile(rb"(?:\s*+" + _OBJECT + rb"\s*+,)*+", re.DOTALL)
_RECORD: Final = re.compile(_OBJECT, re.DOTALL)
_TOKEN: Final = re.compile(_STRING + rb"|[{}\[\],]", re.DOTALL)
_BEHIND_LIST: Final = re.compile(rb'\s*+(?:\}|,\s*+"|\Z)')
_SEARCHED_BYTES: Final = 1 << 16


class Entry(Enum):
    """Why no whole entry stands at the start of a text."""

    LAST = auto()  # the list ends behind it
    CUT = auto()  # the text ends, or a quote or a brace was lost


class EventText:
    """The records of a list, from behind its ``[``, and whatever comes behind the list."""

    def __init__(self, begin: bytes, blocks: Iterator[bytes], piece_bytes: int = BLOCK_BYTES) -> None:
        self._parts = [begin]
        self._blocks = blocks
        self._piece_bytes = piece_bytes

    def quick_pieces(self) -> Iterator[bytes]:
        """Lists of records, complete with ``[`` and ``]``, as long as there is text for one more."""
        self._fill(min(self._piece_bytes, _SEARCHED_BYTES))
        separator = _separator(self._parts[0])
        block: bytes | None = self._parts.pop()
        size = 0
        while block is not None:
            size += len(block)
            end, following = _last_cut(block, separator) if size >= self._piece_bytes else (0, 0)
            if end:
                piece = b"".join((b"[", *self._parts, memoryview(block)[:end], b"]"))
                block = block[following:]
                self._parts, size = [block], len(block)
                yield piece
            else:
                self._parts.append(block)
            block = next(self._blocks, None)

    def exact_pieces(self) -> Iterator[bytes]:
        """Lists of whole entries, up to the last one of the list or of the text; a damaged entry is a list of its own.

        What can't be told apart from damage, an entry longer than the text so far, waits for more text.
        """
        wanted = self._piece_bytes
        while True:
            has_more = self._fill(wanted)
            text = self._parts[0]
            end = whole_entries(text)
            if end is Entry.CUT:
                end = _resume(text) or end
            if not isinstance(end, Entry):
                wanted = self._piece_bytes
                self._parts = [text[end:]]
                yield b"[" + text[:end].removesuffix(b",") + b"]"
            elif end is Entry.LAST or not has_more:
                return
            else:
                wanted = 2 * len(text)

    def put_back(self, pieces: list[bytes]) -> None:
        """Undo the last of the quick pieces."""
        self._parts = [b",".join([piece[1:-1] for piece in pieces] + [b"".join(self._parts)])]

    def rest(self) -> bytes:
        """Everything that was not given out as a piece."""
        rest = b"".join((*self._parts, *self._blocks))
        self._parts = [b""]
        return rest

    def _fill(self, wanted: int) -> bool:
        """Join so many bytes into the first part, or all there are: then False."""
        size = sum(map(len, self._parts))
        while size < wanted and (block := next(self._blocks, None)) is not None:
            self._parts.append(block)
            size += len(block)
        self._parts = [b"".join(self._parts)]
        return size >= wanted


def _separator(text: bytes) -> bytes | None:
    """What stands between the first two records, from the white space in front of a brace to the first key."""
    found = _FIRST_TWO.match(text)
    if found is None:
        return None
    closing = _CLOSING.search(text, 0, found.start(1))
    assert closing is not None, "a record ends in a brace"
    return closing.group() + found.group(1)


def _last_cut(block: bytes, separator: bytes | None) -> tuple[int, int]:
    """Where in the block its last whole record ends and where the next one begins; 0, 0 where none seems to end."""
    if separator is not None and (at := block.rfind(separator)) >= 0:
        end = block.index(b"}", at) + 1
        return end, block.index(b",", end) + 1
    found = list(_ANY_SEPARATOR.finditer(block, max(0, len(block) - _SEARCHED_BYTES)))
    return (found[-1].start() + 1, found[-1].end()) if found else (0, 0)


def whole_entries(text: bytes) -> int | Entry:
    """Where the comma behind the last of the whole entries at the start of a text ends, or why there is none."""
    found = _ENTRIES.match(text)
    if found is not None and found.end():
        return found.end()
    depth = 0  # it is no object, or nests deeper than the pattern
    for token in _TOKEN.finditer(text):
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


def _resume(text: bytes) -> int:
    """Where the first record behind a damaged entry begins, 0 where none is seen."""
    for separator in _ANY_SEPARATOR.finditer(text):
        record = _RECORD.match(text, separator.end())
        if record is not None and b'"ph"' in record.group():
            return separator.end()
    return 0
