"""Formats that hold what Kineto's does in other words, and are converted for its reader.

- Proton, Triton's profiler: its chrome trace (``proton.start(…, data="trace")``). Defined by the writer:
  https://github.com/triton-lang/triton/tree/main/third_party/proton/csrc/lib/Data (TraceData.cpp). It holds kernels by
  stream, scopes of the host, and arrows between them; no API calls, no devices, no copies. Older writers put one
  document per stream on lines of their own, and ns where µs belong: as whole numbers, which newer ones, whose µs have a
  fraction, never write.
- Kineto's records that went through Perfetto (``traceconv json``, "Convert to .json" in its UI). Defined by the writer:
  https://github.com/google/perfetto/blob/main/src/trace_processor/export_json.cc. A record stands on a line of its own,
  keys in order, its args one level deeper than before, and its times cut to whole µs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from ...model.errors import UnreadableInput
from ...model.trace import Notice, Source, Trace
from .json_text import FAULTS, LONGEST_TEXT, STRING, mended, object_pattern, recover, repair, whole_records
from .kineto import cut_notice, read_kineto

PROTON: Final = "proton-json"
PERFETTO: Final = "perfetto-json"
_UNIT: Final = b'"displayTimeUnit":"us"'  # in Chrome's own format ms or ns
_GRAPH_LANES: Final = 100_000  # lanes below are of host threads, from here on of graphs,
_GPU_LANES: Final = 200_000  # and from here on of streams
_HOST_PROCESS: Final = 1
_SMALLEST_HEAD: Final = 256
_LONGEST: Final = 1 << 30  # bytes that are taken at once
_LEAST_BYTES: Final = 16  # of an object with content; a record has some 150, and two objects
_SMALL: Final = 1 << 20
_BETWEEN_DOCUMENTS: Final = re.compile(rb"(?<!\s)\s++(?=\{\s*+\"displayTimeUnit\")")


class _Record(msgspec.Struct):
    ph: str = ""
    cat: str = ""
    name: str = ""
    tid: int = 0
    ts: msgspec.Raw = msgspec.Raw(b"")
    dur: msgspec.Raw = msgspec.Raw(b"")


class _Document(msgspec.Struct):
    events: list[_Record] = msgspec.field(name="traceEvents")


_DOCUMENT: Final = msgspec.json.Decoder(_Document)
_RECORDS: Final = msgspec.json.Decoder(list[_Record])


def is_proton(head: bytes) -> bool:
    """Whether a text begins as Proton's do."""
    return head.lstrip().startswith(b"{") and _UNIT in head[:_SMALLEST_HEAD].replace(b" ", b"")


def read_proton(blocks: Iterable[bytes], source: Source) -> Trace:
    """Read a chrome trace of Proton, of a cut one what is whole. UnreadableInput: no kernel, or it measures inside."""
    documents = [_decode(text) for text in _BETWEEN_DOCUMENTS.split(_whole(blocks, source))]
    records = [record for document in documents for record in document.records]
    is_json, has_all = (all(each) for each in zip(*((d.is_json, d.has_all) for d in documents), strict=True))
    if not any(record.cat == "kernel" for record in records):
        if not has_all:
            raise UnreadableInput(f"{source.path}: a Proton trace cut before its first whole kernel; copy it again")
        raise UnreadableInput(
            f"{source.path}: a Proton trace without kernels: it measures inside of them, or the host alone; record GPU "
            'work with proton.start(NAME, data="trace")'
        )
    events = msgspec.json.encode({"traceEvents": list(_kineto(records))})
    trace = read_kineto(iter([events]), replace(source, format=PROTON))
    if is_json:
        return trace
    return replace(trace, complete=False, notices=(cut_notice(len(records), has_all), *trace.notices))


def _whole(blocks: Iterable[bytes], source: Source) -> bytes:
    """The text in one. UnreadableInput for one that would fill the memory."""
    parts, size, braces = list[bytes](), 0, 0
    for block in blocks:
        parts.append(block)
        size, braces = size + len(block), braces + block.count(b"{")
        if size > _LONGEST or braces * _LEAST_BYTES > max(size, _SMALL):
            raise UnreadableInput(
                f"{source.path}: a Proton trace over {_LONGEST >> 20:,} MiB long, or of records without content: "
                "record fewer steps"
            )
    return b"".join(parts)


class _Decoded(NamedTuple):
    records: list[_Record]
    is_json: bool
    has_all: bool  # no record is known to be lost


def _decode(document: bytes) -> _Decoded:
    """The records of one document, mended; of a cut or damaged one those that are whole."""
    whole = mended(document, _DOCUMENT)
    if whole is not None:
        return _Decoded(whole.events, True, True)
    found = recover(repair(document))
    if found is None:
        return _Decoded([], False, False)
    records = whole_records(found.records, _RECORDS)
    return _Decoded(records, False, found.whole and len(records) == len(found.records))


def _kineto(records: list[_Record]) -> Iterator[dict[str, Any]]:
    """Kernels and host scopes as Kineto would write them."""
    for record in records:
        times = {"ts": _microseconds(record.ts), "dur": _microseconds(record.dur)}
        if record.ph != "X":
            continue
        if record.cat == "kernel":
            stream = record.tid - _GPU_LANES if record.tid >= _GPU_LANES else record.tid
            args = {"device": 0, "stream": stream}
            yield {"ph": "X", "cat": "kernel", "name": record.name, "pid": 0, "tid": stream, **times, "args": args}
        elif record.cat == "scope" and record.tid < _GRAPH_LANES:
            what = {"cat": "user_annotation", "name": record.name, "pid": _HOST_PROCESS, "tid": record.tid}
            yield {"ph": "X", **what, **times}


def _microseconds(time: msgspec.Raw) -> msgspec.Raw | str | None:
    text = bytes(time)
    return f"{text.decode()}e-3" if text.isdigit() else time if text else None


_OPENING: Final = b'{"traceEvents":['
_ARGS: Final = b'{"args":'
_NESTED: Final = b'{"args":{"args":{'
_SCALAR: Final = rb"(?:-?[0-9]++(?:\.[0-9]++)?(?:[eE][+-]?[0-9]++)?|true|false|null|" + STRING + rb")"
_MEMBER: Final = rb"\s*+,\s*+" + STRING + rb"\s*+:\s*+" + _SCALAR
_NESTED_RECORD: Final = re.compile(
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
    trace = read_kineto(_flat(blocks), replace(source, format=PERFETTO), expected_bytes=expected_bytes)
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
    flat, count = _NESTED_RECORD.subn(rb'{"args":\1', line)
    if count or not line.startswith(_NESTED):
        return flat
    try:  # it nests deeper than the pattern, or holds more
        outer = bytes(_OUTER.decode(line.rstrip(b",]\r")).args)
        inner = bytes(_OUTER.decode(outer).args)
    except FAULTS:  # cut: left to the reader, which says so
        return line
    return _ARGS + inner + line[len(_ARGS) + len(outer) :]
