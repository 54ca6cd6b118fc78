"""What a rectangle of the timeline says when pointed at: lines of text in the little HTML that plotly knows."""

from __future__ import annotations

import html
from collections.abc import Callable, Iterator, Mapping
from typing import Final

from ..analysis.document import CAUSES
from ..analysis.trace import NONE, Ints, OpKind
from ..analysis.units import byte_size, duration, printable
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


def escaped(text: str, most: int = MOST_NAME) -> str:
    """Foreign text as plotly shows it, on one line and not longer than this: plotly takes ``<…>`` for markup."""
    plain = printable(text)
    return html.escape(plain if len(plain) <= most else f"{plain[: most - 1]}…", quote=False)


def hover_texts(lanes: BandLanes, kind: str, rows: Ints, style: str) -> list[str]:
    """A text for each of the rows of the table that ``kind`` names."""
    return ["<br>".join(_WRITERS[kind](lanes, row, style)) for row in rows.tolist()]


def _gpu_op(lanes: BandLanes, row: int, _: str) -> Iterator[str]:
    analysis = lanes.band.analysis
    trace, ops = analysis.trace, analysis.trace.gpu_ops
    name = trace.name(int(ops.name[row]))
    kind = OpKind(int(ops.kind[row]))
    yield f"<b>{escaped(lanes.short_names[name])}</b>"
    size = "" if ops.bytes[row] == NONE else f", {byte_size(int(ops.bytes[row]))}"
    yield f"{kind.word} {_lasts(ops.start_ns, ops.end_ns, row)} on stream {ops.stream[row]}{size}"
    launch = int(ops.launch_row[row])
    if launch == NONE:
        yield "its launch is not in the file"
    else:
        yield from _launch_of(lanes, row, launch)
    yield from _operator_of(lanes, name, launch)
    gap = int(lanes.gap_before[row])
    if gap != NONE:
        yield f"gap before it: {', '.join(_gap_parts(lanes, gap))}"


def _launch_of(lanes: BandLanes, row: int, launch: int) -> Iterator[str]:
    """Latency and queue time are the launch's earliest op's."""
    analysis = lanes.band.analysis
    times, launches, graphs = analysis.launch_times, analysis.trace.launches, analysis.graphs
    api = escaped(analysis.trace.name(int(launches.api[launch])))
    yield f"{api}: launch overhead {duration(int(times.overhead_ns[launch]))}"
    if graphs.op_replay[row] != NONE:
        count = int(graphs.op_count[graphs.op_replay[row]])
        yield f"op {int(graphs.ordinal[row]) + 1:,} of {count:,} of a replay of {_graph_name(lanes, row)}"
    if times.first_op[launch] == row:
        latency, queue = duration(int(times.latency_ns[launch])), duration(int(times.queue_ns[launch]))
        yield f"launch latency {latency}, queue time {queue}"


def _graph_name(lanes: BandLanes, row: int) -> str:
    graphs = lanes.band.analysis.graphs
    return escaped(graphs.graph_names[int(graphs.graph[graphs.op_replay[row]])])


def _operator_of(lanes: BandLanes, name: str, launch: int) -> Iterator[str]:
    trace = lanes.band.analysis.trace
    operator = NONE if launch == NONE else int(trace.launches.operator_row[launch])
    if operator != NONE:
        yield f"operator {escaped(trace.name(int(trace.host_ops.name[operator])))}"
    elif name in lanes.inferred_operators:
        yield f"operator {escaped(lanes.inferred_operators[name])} (inferred from the eager run)"


def _launch(lanes: BandLanes, row: int, _: str) -> Iterator[str]:
    analysis = lanes.band.analysis
    trace, launches, times = analysis.trace, analysis.trace.launches, analysis.launch_times
    yield f"<b>{escaped(trace.name(int(launches.api[row])))}</b>"
    word = "graph launch" if launches.is_graph[row] else "launch"
    yield f"{word}, overhead {duration(int(times.overhead_ns[row]))}"
    yield f"launch latency {duration(int(times.latency_ns[row]))}, queue time {duration(int(times.queue_ns[row]))}"
    first = trace.name(int(trace.gpu_ops.name[times.first_op[row]]))
    yield f"{'first runs' if launches.is_graph[row] else 'runs'} {escaped(lanes.short_names[first])}"
    operator = int(launches.operator_row[row])
    if operator != NONE:
        yield f"operator {escaped(trace.name(int(trace.host_ops.name[operator])))}"


def _blocking(lanes: BandLanes, row: int, _: str) -> Iterator[str]:
    trace, calls = lanes.band.analysis.trace, lanes.band.analysis.trace.blocking_calls
    yield f"<b>{escaped(trace.name(int(calls.api[row])))}</b>"
    yield f"blocking call {_lasts(calls.start_ns, calls.end_ns, row)}"
    operator = int(calls.operator_row[row])
    if operator != NONE:
        yield f"operator {escaped(trace.name(int(trace.host_ops.name[operator])))}"


def _host_op(lanes: BandLanes, row: int, style: str) -> Iterator[str]:
    trace, ops = lanes.band.analysis.trace, lanes.band.analysis.trace.host_ops
    yield f"<b>{escaped(trace.name(int(ops.name[row])))}</b>"
    yield f"{'Python frame' if style == 'python' else style} {_lasts(ops.start_ns, ops.end_ns, row)}"


def _gap(lanes: BandLanes, row: int, cause: str) -> Iterator[str]:
    analysis = lanes.band.analysis
    assert lanes.band.device is not None, "only a device has gaps"
    gaps, trace = analysis.gaps[lanes.band.device], analysis.trace
    yield f"<b>idle: {cause}</b> {duration(int(gaps.parts_ns[cause][row]))}, {CAUSE_WORDS[cause]}"
    yield f"gap {', '.join(_gap_parts(lanes, row))}"
    if gaps.stall_ns[row]:
        yield f"a stall: the host did something else for {duration(int(gaps.stall_ns[row]))}"
    if gaps.after_sync_ns[row]:
        yield "the queue is filled again after a blocking call"
    if gaps.observer[row] and cause == "launch":
        yield "before a graph replay: mostly the profiler's own cost"
    if gaps.waiting_call[row] != NONE:
        yield f"another thread sat in {escaped(trace.name(int(trace.blocking_calls.api[gaps.waiting_call[row]])))}"
    for word, op in (("after", gaps.prev_op[row]), ("before", gaps.next_op[row])):
        yield f"{word} {escaped(lanes.short_names[trace.name(int(trace.gpu_ops.name[op]))])}"


def _gap_parts(lanes: BandLanes, gap: int) -> Iterator[str]:
    """'14.5 µs: host 10.0 µs', 'launch 4.5 µs', 'between steps'."""
    assert lanes.band.device is not None, "only a device has gaps"
    gaps = lanes.band.analysis.gaps[lanes.band.device]
    whole = duration(int(gaps.end_ns[gap] - gaps.start_ns[gap]))
    parts = {cause: int(gaps.parts_ns[cause][gap]) for cause in CAUSES}
    told = [f"{cause} {duration(ns)}" for cause, ns in parts.items() if ns]
    if len(told) == 1:
        told = [next(cause for cause, ns in parts.items() if ns)]
    yield f"{whole}: {', '.join(told)}"
    if gaps.boundary[gap]:
        yield "between steps"


def _lasts(start_ns: Ints, end_ns: Ints, row: int) -> str:
    return duration(int(end_ns[row] - start_ns[row]))


_WRITERS: Final[Mapping[str, Callable[[BandLanes, int, str], Iterator[str]]]] = {
    "gpu_op": _gpu_op,
    "launch": _launch,
    "blocking": _blocking,
    "host_op": _host_op,
    "gap": _gap,
}
