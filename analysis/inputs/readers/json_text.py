"""JSON as it comes off real machines: lists of records that are long, cut, or not quite JSON.

Profilers print C++ names and floats as they are, so a file may hold control characters, broken escapes, NaN, or
bytes that are not UTF-8; a full disk cuts it. None of that loses the records that are whole.

A long list is cut into pieces of whole records as its text comes in, by two cutters. The quick one searches for the
text that stands between the first two records (line breaks, indentation, first key), or for anything like it; where
such text stands inside a record, the piece is no JSON, and whoever decodes it puts it back. The exact one knows strings
and nesting, and takes some ten times as long.
"""

from __future__ import annotations

import contextlib
import json
import re
from collections import deque
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

import msgspec

from .unpacking import BLOCK_BYTES

T = TypeVar("T")

FAULTS: Final = (msgspec.DecodeError, RecursionError)
"""What a decoder raises for a text that it can't take."""

STRING: Final = rb'"(?:[^"\\]++|\\.)*+"'


def object_pattern(string: bytes, depth: int = 4) -> bytes:
    """A pattern for an object that holds objects down to this depth: an event, its args, and what they hold.

    A backslash outside of strings ends it: were it passed over, every escaped quote of a string without an end would
    be a beginning to search from, again and again up to the end of the text.
    """
    inner = rb"|" + object_pattern(string, depth - 1) if depth else b""
    return rb"\{(?:[^{}\"\\]++|" + string + inner + rb")*+\}"


_RECORD: Final = re.compile(object_pattern(STRING), re.DOTALL)
_NOT_JSON: Final = re.compile(STRING + rb"?|-?\b(?:NaN|nan|Infinity|inf)\b", re.DOTALL)
_SURROGATE: Final = rb"\\u[dD][89a-fA-F][0-9a-fA-F]{2}"
_BAD_IN_STRING: Final = re.compile(
    rb"[\x00-\x1f]++|" + _SURROGATE + rb"|(?:(?!" + _SURROGATE + rb')\\u[0-9a-fA-F]{4}|\\["\\/bfnrt])++|\\'
)
_NAN_VALUE: Final = re.compile(rb'((?<!\\)":\s*)-?(?:NaN|nan|Infinity|inf)(?=\s*[,}\]])')
_CONTROL: Final = re.compile(rb"[\x00-\x08\x0b\x0c\x0e-\x1f]++")
_ESCAPES: Final = {code: f"\\u{code:04x}" for code in range(32)}
_BETWEEN_RECORDS: Final = re.compile(rb"\}\s*,\s*\{")
_TAIL_BYTES: Final = 1 << 20
_CUT_ATTEMPTS: Final = 3
_EVENTS: Final = re.compile(rb'"traceEvents"\s*:\s*\[')
_BETWEEN: Final = b" \t\r\n,"


class Recovered(NamedTuple):
    """The whole records of a broken file."""

    head: bytes  # what stood before the records, closed into an object
    records: list[bytes]
    whole: bool  # the list of records was closed: nothing is known to be lost


def mendings(data: bytes) -> Iterator[bytes]:
    """The text as it is, then ever more thoroughly repaired; each one costs more than the one before."""
    yield data
    yield repair_usual(data)
    yield repair(data)


def mended(data: bytes, decoder: msgspec.json.Decoder[T]) -> T | None:
    """The text decoded, repaired as far as that takes; None where that does not help."""
    for text in mendings(data):
        with contextlib.suppress(*FAULTS):
            return decoder.decode(text)
    return None


def whole_records(texts: list[bytes], decoder: msgspec.json.Decoder[list[T]]) -> list[T]:
    """The records that are JSON; ``decoder`` is of a list of them."""
    with contextlib.suppress(*FAULTS):
        return decoder.decode(b"[" + b",".join(texts) + b"]")
    records: list[T] = []
    for text in texts:
        with contextlib.suppress(*FAULTS):
            records += decoder.decode(b"[" + text + b"]")
    return records


def repair_usual(data: bytes) -> bytes:
    """The usual faults mended at the speed of a search: bytes that are not UTF-8, control characters, NaN values."""
    text = data.decode("utf-8", errors="replace").encode()
    return _CONTROL.sub(_repair_character, _NAN_VALUE.sub(rb"\1null", text))


def repair(data: bytes) -> bytes:
    """Every fault mended, string by string: NaN and infinities become null, bad characters in strings are escaped."""
    text = data.decode("utf-8", errors="replace").encode()
    return _NOT_JSON.sub(_repair_token, text)


_NAME_ENDS: Final = rb'"(?=\s*+(?:,\s*+"(?:ph|cat|pid|tid|ts|dur|args|id|bp|s)"\s*+:|\}\s*+(?:,\s*+\{|[\]}]|\Z)))'
_RAW_QUOTES: Final = re.compile(
    rb'("name"\s*+:\s*+")((?:[^"\\]++|\\.)*+"(?!\s*+[,}\]])'
    rb'(?:[^"\\]++|\\.|(?!' + _NAME_ENDS + rb'|"(?:name|ph|cat|ts|dur)"\s*+:)")*+)(?=' + _NAME_ENDS + rb")",
    re.DOTALL,
)
_QUOTE_OR_ESCAPE: Final = re.compile(rb'\\.|"', re.DOTALL)


def requoted(data: bytes) -> tuple[bytes, int]:
    """Names of records with the quotes in them escaped, and how many those are.

    torch writes the names of compiled code as they are: https://github.com/pytorch/kineto/issues/1459. Such a name goes
    on behind a quote, and ends in front of the record's next key, or its end.
    """
    return _RAW_QUOTES.subn(lambda found: found[1] + _QUOTE_OR_ESCAPE.sub(_escaped_quote, found[2]), data)


def place_before(data: bytes, place: int) -> int:
    """Where in the data that stands which ``requoted`` moved to this place, between two names."""
    added = 0
    for found in _RAW_QUOTES.finditer(data):
        more = len(_QUOTE_OR_ESCAPE.sub(_escaped_quote, found[2])) - len(found[2])
        if found.end() + added + more > place:
            break
        added += more
    return place - added


def _escaped_quote(match: re.Match[bytes]) -> bytes:
    return b'\\"' if match.group() == b'"' else match.group()


def cut_off(data: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[T, bool] | None:
    """Decode a file that only lacks its end, up to its last whole record, and whether its list was closed.

    None where the fault is another one: ``recover`` then takes longer and finds more.
    """
    ends = [data.rfind(b"}") + 1]
    tail = max(0, len(data) - _TAIL_BYTES)
    ends += [tail + match.start() + 1 for match in _BETWEEN_RECORDS.finditer(data[tail:])][: -_CUT_ATTEMPTS - 1 : -1]
    for end in ends:
        with contextlib.suppress(*FAULTS):
            return decoder.decode(data[:end] + b"]}"), data[end:].lstrip(_BETWEEN).startswith(b"]")
    return None


def recover(data: bytes) -> Recovered | None:
    """The whole records of a file that is cut or broken, or None where no list of records begins."""
    begin = _EVENTS.search(data)
    if begin is None:
        return None
    head, position = data[: begin.start()].rstrip(_BETWEEN) + b"}", begin.end()
    records: list[bytes] = []
    lost = False
    while (record := _RECORD.search(data, position)) is not None:
        between = data[position : record.start()].strip(_BETWEEN)
        if between.startswith(b"]"):
            break
        lost = lost or between != b""
        if not between or b'"ph"' in record.group():  # else a piece of a broken record
            records.append(record.group())
        position = record.end()
    return Recovered(head, records, not lost and data[position:].lstrip(_BETWEEN).startswith(b"]"))


def _repair_token(match: re.Match[bytes]) -> bytes:
    token = match.group()
    return _BAD_IN_STRING.sub(_repair_character, token) if token.startswith(b'"') else b"null"


def _repair_character(match: re.Match[bytes]) -> bytes:
    found = match.group()
    if found == b"\\":
        return b"\\\\"
    if found[0] in _ESCAPES:
        if found.count(found[:1]) == len(found):  # where a disk lost a block there are MBs of zeros
            return _ESCAPES[found[0]].encode() * len(found)
        return found.decode("ascii").translate(_ESCAPES).encode()
    if found[:2] == b"\\u" and found[2:3] in b"dD" and found[3:4] in b"89abcdefABCDEF":
        return b"\\ufffd"  # half of a surrogate pair; the other half, if there is one, goes the same way
    return found


_LINE_STRING: Final = rb'"(?:[^"\\\n]++|\\.)*+"'  # JSON's end in the line that they begin in; else a quote was lost
_OBJECT: Final = object_pattern(_LINE_STRING)
_FIRST_TWO: Final = re.compile(rb"\s*+" + _OBJECT + rb'(\s*+,\s*+\{\s*+"(?:[^"\\]{1,40}")?)', re.DOTALL)
_ANY_SEPARATOR: Final = re.compile(rb'\}\s*+,\s*+(?=\{\s*+")')
_FLAT: Final = _LINE_STRING + rb'|[^\s{}\[\]",\\]++|\[(?:[^{}\[\]"\\]++|' + _LINE_STRING + rb")*+\]"
_ENTRIES: Final = re.compile(rb"(?:\s*+(?:" + _OBJECT + rb"|" + _FLAT + rb")?+\s*+,)*+", re.DOTALL)
_WHOLE_RECORD: Final = re.compile(_OBJECT, re.DOTALL)
_TOKEN: Final = re.compile(_LINE_STRING + rb"?|[{}\[\],]", re.DOTALL)
_BEHIND_LIST: Final = re.compile(rb'\s*+(?:\}|,\s*+"|\[\s*+\{|\Z)')
_SEARCHED_BYTES: Final = 1 << 16
_MOST_UNCUT_PIECES: Final = 4

LONGEST_TEXT: Final = 16 << 20
"""The most that is held of what can't be cut: a record, what stands beside the list. A name of 10 MB fits."""


_LAST: Final = -1
_CUT: Final = -2
"""Where no whole entry stands at the start of a text: the list ends behind it; or the text does, or a quote or a brace
was lost.
"""


class EventText:
    """The records of a list, from behind its ``[``, and whatever comes behind the list."""

    def __init__(self, begin: bytes, blocks: Iterator[bytes], piece_bytes: int = BLOCK_BYTES) -> None:
        self._parts = deque([begin])
        self._blocks = blocks
        self._piece_bytes = piece_bytes
        self.is_stopped = False  # True: there are to be no more quick pieces
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
            self.is_cuttable = size < _MOST_UNCUT_PIECES * self._piece_bytes and not self.is_stopped
            block = next(self._blocks, None) if self.is_cuttable else None
        self._parts.extendleft(reversed(parts))

    def exact_pieces(self) -> Iterator[bytes]:
        """Lists of whole entries, up to the last one of the list or of the text; a damaged entry is a list of its own.

        What can't be told apart from damage, an entry longer than the text so far, waits for more text.
        """
        text, at, wanted, has_more, resumed = b"", 0, self._piece_bytes, True, 0
        while True:
            if has_more and len(text) - at < wanted:
                self._parts.appendleft(text[at:])
                (text, has_more), at, resumed = self._taken(wanted), 0, 0
            end, reason = _plain_entries(text, at), _CUT
            if end == at:
                resumed = resumed if resumed > at else _resume(text, at)
                end, reason = _nested_entries(text, at, resumed)
            if end > at:
                yield b"[" + text[at:end].removesuffix(b",") + b"]"
                at, wanted = end, self._piece_bytes
            elif reason == _LAST or not has_more or len(text) - at >= LONGEST_TEXT:
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

    def bytes_left(self) -> int:
        """How many bytes stand behind that, which nobody reads."""
        return sum(map(len, self._parts)) + sum(map(len, self._blocks))

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


def _nested_entries(text: bytes, at: int, resumed: int) -> tuple[int, int]:
    """The same of entries that are not plain, which are damaged where a record begins at ``resumed``, and what ends
    them.
    """
    end = at
    while (following := _nested_entry(text, end, resumed)) >= 0:
        end = following
        if _plain_entries(text, end) > end:
            return end, _CUT
    if end == at and following == _CUT and resumed < len(text):
        return resumed, _CUT
    return end, following


def _nested_entry(text: bytes, at: int, until: int) -> int:
    """Where the comma behind an entry ends that is no plain object: it nests too deep, or is a list."""
    depth = 0
    for token in _TOKEN.finditer(text, at, until):
        match token.group():
            case b"{" | b"[":
                depth += 1
            case b"}" | b"]" if depth:
                depth -= 1
            case b"]" if _BEHIND_LIST.match(text, token.end()):
                return _LAST
            case b"}" | b"]":
                return _CUT
            case b"," if not depth:
                return token.end()
    return _CUT


def _resume(text: bytes, at: int) -> int:
    """Where the first record behind a damaged entry begins, the text's end where none is seen."""
    for separator in _ANY_SEPARATOR.finditer(text, at):
        record = _WHOLE_RECORD.match(text, separator.end())
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
