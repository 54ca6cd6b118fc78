"""What a rectangle of the timeline says when pointed at: lines of text in the little HTML that plotly knows.

Thousands are written for every zoom, so rows are looked up in columns, all at once.
"""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from typing import Final

import numpy as np

from ...analysis.model.columns import follow
from ...analysis.model.document import CAUSES
from ...analysis.model.trace import NONE, Ints, OpKind, Table
from ...analysis.model.units import byte_size, printable
from ...analysis.model.units import duration as written_duration
from .lanes import BandLanes

MOST_NAME: Final = 90  # characters of a name

CAUSE_WORDS: Final[Mapping[str, str]] = {
    "host": "the host had not asked yet",
    "launch": "inside the launch call",
    "dispatch": "the call had returned, the GPU had not started",
    "sync": "the host waited for the GPU",
    "graph": "from node to node of a replay",
    "device": "launched in time: a dependency or the GPU's front end",
    "unlinked": "the launch is not in the file",
    "skewed": "the clocks disagree",
}
assert set(CAUSE_WORDS) == set(CAUSES)

_duration: Final = lru_cache(1 << 15)(written_duration)


@lru_cache(1 << 13)
def escaped(text: str, most: int = MOST_NAME) -> str:
    """Foreign text as plotly shows it, on one line and not longer than this: plotly takes ``<…>`` for markup."""
    plain = printable(text[: most + 1])
    return html.escape(plain if len(plain) <= most else f"{plain[: most - 1]}…", quote=False)


def hover_texts(lanes: BandLanes, kind: str, rows: Ints, style: str) -> list[str]:
    """A text for each of these rows of the table that ``kind`` names."""
    return list(_WRITERS[kind](lanes, rows, style)) if len(rows) else []


def _gpu_ops(lanes: BandLanes, rows: Ints, _: str) -> Iterator[str]:
    trace, ops = lanes.band.analysis.context.trace, lanes.band.analysis.context.trace.gpu_ops
    columns = zip(
        ops.name[rows].tolist(),
        ops.kind[rows].tolist(),
        _durations(ops, rows),
        ops.stream[rows].tolist(),
        ops.bytes[rows].tolist(),
        _launches_of(lanes, rows),
        _operators(lanes, follow(trace.launches.operator_row, ops.launch_row[rows])),
        _gaps_before(lanes, rows),
        strict=True,
    )
    for name, kind, lasts, stream, size, launch, operator, gap in columns:
        text = f"<b>{_short(lanes, name)}</b><br>{_KINDS[kind]} {lasts} on stream {stream}"
        if size != NONE:
            text += f", {byte_size(size)}"
        if not operator and (inferred := lanes.inferred_operators.get(trace.names[name])):
            operator = f"<br>operator {escaped(inferred)} (inferred from a recording with operators)"
        yield f"{text}<br>{launch}{operator}{gap}"


def _launches_of(lanes: BandLanes, rows: Ints) -> Iterator[str]:
    """Of each GPU op what its launch cost; latency and queue time are those of the launch's earliest op."""
    analysis = lanes.band.analysis
    times, graphs = analysis.context.launch_times, analysis.context.replays
    launch = analysis.context.trace.gpu_ops.launch_row[rows]
    replay = graphs.op_replay[rows]
    columns = zip(
        follow(analysis.context.trace.launches.api, launch).tolist(),
        follow(times.overhead_ns, launch).tolist(),
        follow(times.latency_ns, launch).tolist(),
        follow(times.queue_ns, launch).tolist(),
        (follow(times.first_op, launch) == rows).tolist(),
        follow(graphs.graph, replay).tolist(),
        graphs.ordinal[rows].tolist(),
        follow(graphs.op_count, replay).tolist(),
        strict=True,
    )
    for api, overhead, latency, queue, is_first, graph, ordinal, count in columns:
        text = "its launch is not in the file"
        if api != NONE:
            text = f"{_name(lanes, api)}: overhead {_duration(overhead)}"
            text += f", latency {_duration(latency)}, queue time {_duration(queue)}" if is_first else ""
        if graph != NONE:
            text += f"<br>op {ordinal + 1:,} of {count:,} of a replay of {escaped(graphs.graph_names[graph])}"
        yield text


def _gaps_before(lanes: BandLanes, rows: Ints) -> Iterator[str]:
    gap = lanes.gap_before[rows]
    told = iter(_gap_parts(lanes, gap[gap != NONE]))
    for row in gap.tolist():
        yield "" if row == NONE else f"<br>gap before it: {next(told)}"


def _launches(lanes: BandLanes, rows: Ints, _: str) -> Iterator[str]:
    trace, times = lanes.band.analysis.context.trace, lanes.band.analysis.context.launch_times
    columns = zip(
        trace.launches.api[rows].tolist(),
        trace.launches.is_graph[rows].tolist(),
        times.overhead_ns[rows].tolist(),
        times.latency_ns[rows].tolist(),
        times.queue_ns[rows].tolist(),
        trace.gpu_ops.name[times.first_op[rows]].tolist(),
        _operators(lanes, trace.launches.operator_row[rows]),
        strict=True,
    )
    for api, is_graph, overhead, latency, queue, first, operator in columns:
        yield (
            f"<b>{_name(lanes, api)}</b><br>launch overhead {_duration(overhead)}, latency {_duration(latency)}, "
            f"queue time {_duration(queue)}<br>{'replays a graph from' if is_graph else 'runs'} "
            f"{_short(lanes, first)}{operator}"
        )


def _blocking_calls(lanes: BandLanes, rows: Ints, _: str) -> Iterator[str]:
    calls = lanes.band.analysis.context.trace.blocking_calls
    operators = _operators(lanes, calls.operator_row[rows])
    for api, lasts, operator in zip(calls.api[rows].tolist(), _durations(calls, rows), operators, strict=True):
        yield f"<b>{_name(lanes, api)}</b><br>blocking call {lasts}{operator}"


def _host_ops(lanes: BandLanes, rows: Ints, style: str) -> Iterator[str]:
    ops = lanes.band.analysis.context.trace.host_ops
    word = "Python frame" if style == "python" else style
    for name, lasts in zip(ops.name[rows].tolist(), _durations(ops, rows), strict=True):
        yield f"<b>{_name(lanes, name)}</b><br>{word} {lasts}"


def _gaps(lanes: BandLanes, rows: Ints, cause: str) -> Iterator[str]:
    analysis = lanes.band.analysis
    assert lanes.band.device is not None, "only a device has gaps"
    gaps, trace = analysis.context.gaps[lanes.band.device], analysis.context.trace
    waiting = follow(trace.blocking_calls.api, gaps.waiting_call[rows])
    columns = zip(
        gaps.parts_ns[cause][rows].tolist(),
        _gap_parts(lanes, rows),
        gaps.stall_ns[rows].tolist(),
        gaps.after_sync_ns[rows].tolist(),
        gaps.observer[rows].tolist(),
        waiting.tolist(),
        trace.gpu_ops.name[gaps.next_op[rows]].tolist(),
        strict=True,
    )
    for part, whole, stall, after_sync, observer, call, following in columns:
        text = f"<b>idle {_duration(part)}: {cause}</b>, {CAUSE_WORDS[cause]}<br>gap of {whole}"
        if stall:
            text += f"<br>a stall: the host did something else for {_duration(stall)}"
        if after_sync:
            text += "<br>the queue is filled again after a blocking call"
        if observer and cause == "launch":
            text += "<br>before a graph replay: mostly the profiler's own cost"
        if call != NONE:
            text += f"<br>another thread sat in {_name(lanes, call)}"
        yield f"{text}<br>before {_short(lanes, following)}"


def _gap_parts(lanes: BandLanes, gaps_rows: Ints) -> Iterator[str]:
    """'14.5 µs: host 10.0 µs, launch 4.5 µs, between steps'."""
    if lanes.band.device is None:
        return
    gaps = lanes.band.analysis.context.gaps[lanes.band.device]
    parts = {cause: gaps.parts_ns[cause][gaps_rows] for cause in CAUSES}
    causes = [cause for cause, ns in parts.items() if ns.any()]
    whole = (gaps.end_ns[gaps_rows] - gaps.start_ns[gaps_rows]).tolist()
    columns = np.stack([parts[cause] for cause in causes], axis=1).tolist() if causes else []
    for ns, its_parts, boundary in zip(whole, columns, gaps.boundary[gaps_rows].tolist(), strict=True):
        there = [(cause, part) for cause, part in zip(causes, its_parts, strict=True) if part]
        told = [cause if part == ns else f"{cause} {_duration(part)}" for cause, part in there]
        yield f"{_duration(ns)}: {', '.join(told)}{', between steps' if boundary else ''}"


def _operators(lanes: BandLanes, rows: Ints) -> Iterator[str]:
    """A line with the operator in each row of the host's ops; nothing where the row is NONE."""
    for name in follow(lanes.band.analysis.context.trace.host_ops.name, rows).tolist():
        yield "" if name == NONE else f"<br>operator {_name(lanes, name)}"


def _durations(table: Table, rows: Ints) -> Iterator[str]:
    return map(_duration, (table.end_ns[rows] - table.start_ns[rows]).tolist())


def _name(lanes: BandLanes, name: int) -> str:
    return escaped(lanes.band.analysis.context.trace.names[name])


def _short(lanes: BandLanes, name: int) -> str:
    return escaped(lanes.short_names[lanes.band.analysis.context.trace.names[name]])


_KINDS: Final = tuple(kind.word for kind in OpKind)
_WRITERS: Final[Mapping[str, Callable[[BandLanes, Ints, str], Iterator[str]]]] = {
    "gpu_op": _gpu_ops,
    "launch": _launches,
    "blocking": _blocking_calls,
    "host_op": _host_ops,
    "gap": _gaps,
}
