"""Proton, Triton's profiler: its chrome trace (``proton.start(…, data="trace")``), told to the Kineto reader.

Defined by the writer: https://github.com/triton-lang/triton/tree/main/third_party/proton/csrc/lib/Data (TraceData.cpp).
It holds kernels by stream, scopes of the host, and arrows between them; no API calls, no devices, no copies. Older
writers put one document per stream on lines of their own, and ns where µs belong: as whole numbers, which newer ones,
whose µs have a fraction, never write.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any, Final

import msgspec

from ..errors import UnreadableInput
from ..trace import Source, Trace

FORMAT: Final = "proton-json"
_UNIT: Final = b'"displayTimeUnit":"us"'  # in Chrome's own format ms or ns
_GRAPH_LANES: Final = 100_000  # lanes below are of host threads, from here on of graphs,
_GPU_LANES: Final = 200_000  # and from here on of streams
_HOST_PROCESS: Final = 1
_SMALLEST_HEAD: Final = 256


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


def is_proton(head: bytes) -> bool:
    """Whether a text begins as Proton's do."""
    return head.lstrip().startswith(b"{") and _UNIT in head[:_SMALLEST_HEAD].replace(b" ", b"")


def read_proton(blocks: Iterable[bytes], source: Source) -> Trace:
    """Read a chrome trace of Proton. UnreadableInput for one that is cut, or that measures inside of kernels."""
    from .kineto import read_kineto

    records = [record for line in b"".join(blocks).splitlines() if line.strip() for record in _decode(line, source)]
    if not any(record.cat == "kernel" for record in records):
        raise UnreadableInput(
            f"{source.path}: a Proton trace without kernels: it measures inside of them, or the host alone; record GPU "
            'work with proton.start(NAME, data="trace")'
        )
    events = msgspec.json.encode({"traceEvents": list(_kineto(records))})
    return read_kineto(iter([events]), replace(source, format=FORMAT))


def _decode(line: bytes, source: Source) -> list[_Record]:
    try:
        return _DOCUMENT.decode(line).events
    except (msgspec.DecodeError, RecursionError) as error:
        raise UnreadableInput(
            f"{source.path}: a Proton trace that is cut or damaged ({error}); copy it again"
        ) from error


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


def _microseconds(time: msgspec.Raw) -> msgspec.Raw | str:
    text = bytes(time)
    return f"{text.decode()}e-3" if text.isdigit() else time
