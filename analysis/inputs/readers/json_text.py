"""Trace files as they come off real machines: JSON that is cut, or not quite JSON.

Profilers print C++ names and floats as they are, so a file may hold control characters, broken escapes, NaN, or
bytes that are not UTF-8; a full disk cuts it. None of that loses the records that are whole.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final, NamedTuple, TypeVar

import msgspec

T = TypeVar("T")

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


def repair_usual(data: bytes) -> bytes:
    """The usual faults mended at the speed of a search: bytes that are not UTF-8, control characters, NaN values."""
    text = data.decode("utf-8", errors="replace").encode()
    return _CONTROL.sub(_repair_character, _NAN_VALUE.sub(rb"\1null", text))


def repair(data: bytes) -> bytes:
    """Every fault mended, string by string: NaN and infinities become null, bad characters in strings are escaped."""
    text = data.decode("utf-8", errors="replace").encode()
    return _NOT_JSON.sub(_repair_token, text)


def cut_off(data: bytes, decoder: msgspec.json.Decoder[T]) -> tuple[T, bool] | None:
    """Decode a file that only lacks its end, up to its last whole record, and whether its list was closed.

    None where the fault is another one: ``recover`` then takes longer and finds more.
    """
    ends = [data.rfind(b"}") + 1]
    tail = max(0, len(data) - _TAIL_BYTES)
    ends += [tail + match.start() + 1 for match in _BETWEEN_RECORDS.finditer(data[tail:])][: -_CUT_ATTEMPTS - 1 : -1]
    for end in ends:
        try:
            return decoder.decode(data[:end] + b"]}"), data[end:].lstrip(_BETWEEN).startswith(b"]")
        except (msgspec.DecodeError, RecursionError):
            continue
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
