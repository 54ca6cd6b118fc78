"""Proton, Triton's profiler: its chrome trace (``proton.start(…, data="trace")``), told to the Kineto reader.

Defined by the writer: https://github.com/triton-lang/triton/tree/main/third_party/proton/csrc/lib/Data (TraceData.cpp).
It holds kernels by stream, scopes of the host, and arrows between them; no API calls, no devices, no copies. Older
writers put one document per stream on lines of their own, and ns where µs belong: as whole numbers, which newer ones,
whose µs have a fraction, never write.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final, NamedTuple

import msgspec

from ...model.errors import UnreadableInput
from ...model.trace import Source, Trace
from .json_text import mendings, recover, repair

FORMAT: Final = "proton-json"
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
_RECORD: Final = msgspec.json.Decoder(_Record)


def is_proton(head: bytes) -> bool:
    """Whether a text begins as Proton's do."""
    return head.lstrip().startswith(b"{") and _UNIT in head[:_SMALLEST_HEAD].replace(b" ", b"")


def read_proton(blocks: Iterable[bytes], source: Source) -> Trace:
    """Read a chrome trace of Proton, of a cut one what is whole. UnreadableInput: no kernel, or it measures inside."""
    from .kineto import cut_notice, read_kineto

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
    trace = read_kineto(iter([events]), replace(source, format=FORMAT))
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
    for mended in mendings(document):
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            return _Decoded(_DOCUMENT.decode(mended).events, True, True)
    found = recover(repair(document))
    records: list[_Record] = []
    for text in found.records if found is not None else ():
        with contextlib.suppress(msgspec.DecodeError, RecursionError):
            records.append(_RECORD.decode(text))
    return _Decoded(records, False, found is not None and found.whole and len(records) == len(found.records))


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
