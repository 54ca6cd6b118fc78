"""Kineto records that went through Perfetto (``traceconv json``, "Convert to .json" in its UI), for the Kineto reader.

Defined by the writer: https://github.com/google/perfetto/blob/main/src/trace_processor/export_json.cc. A record stands
on a line of its own, keys in order, its args one level deeper than before, and its times cut to whole µs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Final

import msgspec

from ...model.trace import Notice, Source, Trace
from .event_chunks import LONGEST_TEXT
from .json_text import STRING, object_pattern

FORMAT: Final = "perfetto-json"
_OPENING: Final = b'{"traceEvents":['
_ARGS: Final = b'{"args":'
_NESTED: Final = b'{"args":{"args":{'
_SCALAR: Final = rb"(?:-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|" + STRING + rb")"
_MEMBER: Final = rb"\s*+,\s*+" + STRING + rb"\s*+:\s*+" + _SCALAR
_RECORD: Final = re.compile(
    re.escape(_NESTED[:-1]) + rb"(" + object_pattern(STRING) + rb")(?:" + _MEMBER + rb")*+\s*+\}", re.DOTALL
)
"""Nothing but members of the outer args may be left out: all else is a reader's to judge."""
_NOTICE: Final = Notice(
    "perfetto_json",
    "Perfetto's JSON export cuts times to whole µs, which makes every GPU op up to 1 µs shorter than it was: analyze "
    "the trace that was opened in Perfetto",
)


class _Outer(msgspec.Struct):
    args: msgspec.Raw


_OUTER: Final = msgspec.json.Decoder(_Outer)


def is_perfetto_json(head: bytes) -> bool:
    """Whether a text begins as Perfetto's export of Kineto records does."""
    return head.startswith((_OPENING + b"\n" + _ARGS, _OPENING + b"\r\n" + _ARGS)) and b"\n" + _NESTED in head


def read_perfetto_json(blocks: Iterable[bytes], source: Source, *, expected_bytes: int = 0) -> Trace:
    """Read the text of a JSON export of Perfetto. UnreadableInput as for a Kineto file."""
    from .kineto import read_kineto

    trace = read_kineto(_flat(blocks), replace(source, format=FORMAT), expected_bytes=expected_bytes)
    return replace(trace, notices=(*trace.notices, _NOTICE))


def _flat(blocks: Iterable[bytes]) -> Iterator[bytes]:
    """The same text with every record's args where Kineto has them."""
    rest = b""
    for block in blocks:
        *lines, rest = (rest + block).split(b"\n")
        if lines:
            yield b"\n".join(map(_flat_line, lines)) + b"\n"
        if len(rest) > LONGEST_TEXT:  # no line of Perfetto's
            yield rest
            rest = b""
    yield _flat_line(rest)


def _flat_line(line: bytes) -> bytes:
    flat, count = _RECORD.subn(rb'{"args":\1', line)
    if count or not line.startswith(_NESTED):
        return flat
    try:  # it nests deeper than the pattern, or holds more
        outer = bytes(_OUTER.decode(line.rstrip(b",]\r")).args)
        inner = bytes(_OUTER.decode(outer).args)
    except (msgspec.DecodeError, RecursionError):  # cut: left to the reader, which says so
        return line
    return _ARGS + inner + line[len(_ARGS) + len(outer) :]
