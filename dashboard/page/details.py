"""What a click on a GPU op tells: its launch, operator, place in a graph, the gap before it, and its counterparts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...analysis.facts.stacks import stack_around
from ...analysis.figures.analyses import TraceAnalysis
from ...analysis.model.columns import follow
from ...analysis.model.document import CAUSES
from ...analysis.model.intervals import outermost_first
from ...analysis.model.trace import NONE, HostKind, HostOps, Ints, Trace
from ...analysis.model.units import duration, plural, printable
from ..band import Band
from ..opened_report import OpenedReport
from ..timeline.counterparts import Counterpart, counterparts, short_name

OF_THE_HOST: Final = ("host", "launch", "sync")
"""Causes of idle time that what the launching thread did meanwhile explains."""


@dataclass(frozen=True)
class LaunchOf:
    """The launch of a GPU op. Latency and queue time are those of the launch's earliest op, as everywhere."""

    api: str
    process: int
    thread: int
    start_ns: int
    overhead_ns: int
    latency_ns: int
    queue_ns: int
    ops: int  # GPU ops that it launched


@dataclass(frozen=True)
class NodeOf:
    """The place of a GPU op in a graph."""

    graph: str
    replay: int  # of this graph, from 0
    replays: int  # of this graph in the file
    ordinal: int  # of the op in the replay, from 0
    nodes: int  # ops of the replay


@dataclass(frozen=True)
class GapBefore:
    """The gap that the op ended."""

    dur_ns: int
    parts_ns: tuple[tuple[str, int], ...]  # by cause, the longest first
    boundary: bool  # between two steps
    stall_ns: int
    previous: str  # name of the op before it
    host: tuple[str, ...]  # what the launching thread did meanwhile, in words


@dataclass(frozen=True)
class Details:
    """Everything about one GPU op. Times are ns; null where the file does not say."""

    name: str
    short_name: str
    bytes: int | None  # of copies and sets
    device: int
    stream: int
    step: int | None  # number among the kept ones; null outside of them
    start_in_step_ns: int  # since the first op of its step, or of the trace outside of steps
    dur_ns: int
    median_ns: float  # of all its occurrences on the device
    p90_ns: float
    launch: LaunchOf | None
    why_no_launch: str | None
    operator: str | None
    operator_inferred: bool
    stack: tuple[str, ...]  # around the launch, outermost first
    node: NodeOf | None
    gap: GapBefore | None  # null where it started while another op ran, or is the device's first
    occurrences_in_step: int
    occurrences_in_all: int
    counterparts: tuple[Counterpart, ...]
    without_counterpart: tuple[tuple[str, str], ...]  # label of a band, and why


def details(opened: OpenedReport, band_key: str, row: int, others: Sequence[str] | None = None) -> Details | None:
    """Of one GPU op; None for a band or row that is not there. ``others``: keys of bands to find counterparts in."""
    band = opened.band(band_key)
    if band is None or not 0 <= row < len(band.analysis.trace.gpu_ops):
        return None
    analysis, ops = band.analysis, band.analysis.trace.gpu_ops
    name = analysis.trace.name(int(ops.name[row]))
    step, since_ns = _step(band, row)
    alike = np.flatnonzero((ops.name == ops.name[row]) & (ops.kind == ops.kind[row]) & (ops.device == ops.device[row]))
    in_step = analysis.steps.op_step[alike] == analysis.steps.op_step[row]
    median_ns, p90_ns = np.percentile(ops.dur_ns[alike], (50, 90))
    launch = _launch(analysis, row)
    operator, inferred = _operator(analysis, row)
    other_bands = [opened.band(key) for key in (opened.first if others is None else others) if key != band_key]
    found, without = counterparts(band, row, [other for other in other_bands if other is not None])
    return Details(
        name=name,
        short_name=short_name(band, name),
        bytes=int(ops.bytes[row]) if ops.bytes[row] != NONE else None,
        device=int(ops.device[row]),
        stream=int(ops.stream[row]),
        step=step,
        start_in_step_ns=int(ops.start_ns[row]) - since_ns,
        dur_ns=int(ops.dur_ns[row]),
        median_ns=float(median_ns),
        p90_ns=float(p90_ns),
        launch=launch,
        why_no_launch=_why_no_launch(analysis, row) if launch is None else None,
        operator=operator,
        operator_inferred=inferred,
        stack=_stack(analysis, launch),
        node=_node(analysis, row),
        gap=_gap(analysis, row, launch),
        occurrences_in_step=int(in_step.sum()),
        occurrences_in_all=len(alike),
        counterparts=found,
        without_counterpart=without,
    )


def _step(band: Band, row: int) -> tuple[int | None, int]:
    """Number of the op's step among those that the page shows, and where its window starts."""
    analysis, windows = band.analysis, band.step_windows
    ops, steps = analysis.trace.gpu_ops, analysis.steps
    on_device = ops.device == band.device
    step = int(steps.op_step[row])
    first_ns = int(ops.start_ns[on_device].min()) if on_device.any() else int(ops.start_ns[0])
    if step == NONE:
        return None, first_ns
    own = np.flatnonzero(on_device & (steps.op_step == step))
    if not steps.kept[step] or not len(own):
        return None, int(ops.start_ns[own[0]]) if len(own) else first_ns
    since_ns = int(ops.start_ns[own[0]])
    number = next((index for index, (start_ns, _) in enumerate(windows) if start_ns == since_ns), None)
    return number, since_ns


def _launch(analysis: TraceAnalysis, row: int) -> LaunchOf | None:
    trace, times = analysis.trace, analysis.launch_times
    launch = int(trace.gpu_ops.launch_row[row])
    if launch == NONE:
        return None
    return LaunchOf(
        api=trace.name(int(trace.launches.api[launch])),
        process=int(trace.launches.process[launch]),
        thread=int(trace.launches.thread[launch]),
        start_ns=int(trace.launches.start_ns[launch]),
        overhead_ns=int(times.overhead_ns[launch]),
        latency_ns=int(times.latency_ns[launch]),
        queue_ns=int(times.queue_ns[launch]),
        ops=int((trace.gpu_ops.launch_row == launch).sum()),
    )


def _why_no_launch(analysis: TraceAnalysis, row: int) -> str:
    trace = analysis.trace
    if not len(trace.launches):
        return "the file holds no launches"
    if trace.gpu_ops.correlation[row] == NONE:
        return "the file gives this op no correlation id"
    what = "the launch of its replay" if analysis.graphs.op_replay[row] != NONE else "its launch"
    early = trace.gpu_ops.start_ns[row] <= trace.launches.start_ns[0]
    return f"{what} is not in the file" + (": it came before the recording began" if early else "")


def _operator(analysis: TraceAnalysis, row: int) -> tuple[str | None, bool]:
    """The operator that launched the op, and whether it is inferred from an aligned trace."""
    trace = analysis.trace
    recorded = int(follow(trace.host_ops.name, follow(trace.launches.operator_row, trace.gpu_ops.launch_row[[row]]))[0])
    if recorded != NONE:
        return trace.name(recorded), False
    name = trace.name(int(trace.gpu_ops.name[row]))
    inferred = next((doc.operator for doc in analysis.document.kernels if doc.name == name), None)
    return inferred, inferred is not None


def _stack(analysis: TraceAnalysis, launch: LaunchOf | None) -> tuple[str, ...]:
    if launch is None:
        return ()
    stack = stack_around(analysis.trace, launch.process, launch.thread, launch.start_ns)
    return tuple(analysis.trace.name(frame) for frame in stack)


def _node(analysis: TraceAnalysis, row: int) -> NodeOf | None:
    graphs = analysis.graphs
    replay = int(graphs.op_replay[row])
    if replay == NONE:
        return None
    of_graph = np.flatnonzero(graphs.graph == graphs.graph[replay])
    return NodeOf(
        graph=graphs.graph_names[int(graphs.graph[replay])],
        replay=int(np.searchsorted(of_graph, replay)),
        replays=len(of_graph),
        ordinal=int(graphs.ordinal[row]),
        nodes=int(graphs.op_count[replay]),
    )


def _gap(analysis: TraceAnalysis, row: int, launch: LaunchOf | None) -> GapBefore | None:
    trace = analysis.trace
    gaps = analysis.gaps[int(trace.gpu_ops.device[row])]
    found = np.flatnonzero(gaps.next_op == row)
    if not len(found):
        return None
    gap = int(found[0])
    parts = {cause: int(gaps.parts_ns[cause][gap]) for cause in CAUSES}
    start_ns, end_ns = int(gaps.start_ns[gap]), int(gaps.end_ns[gap])
    host: Iterable[str] = ()
    if launch is not None and any(parts[cause] for cause in OF_THE_HOST):
        host = host_activity(trace, launch.process, launch.thread, start_ns, end_ns)
    return GapBefore(
        dur_ns=end_ns - start_ns,
        parts_ns=tuple(sorted(((c, ns) for c, ns in parts.items() if ns), key=lambda part: -part[1])),
        boundary=bool(gaps.boundary[gap]),
        stall_ns=int(gaps.stall_ns[gap]),
        previous=trace.name(int(trace.gpu_ops.name[gaps.prev_op[gap]])),
        host=(*host, *filter(None, [gaps.waiting_words(trace, gap)])),
    )


_MOST_CALLS: Final = 3  # by name


def host_activity(trace: Trace, process: int, thread: int, start_ns: int, end_ns: int) -> Iterator[str]:
    """The outermost calls inside the span by name, the longest in total first, and what was around all of it."""
    start, end, name = _calls(trace, process, thread, start_ns, end_ns)
    around = (start <= start_ns) & (end >= end_ns)
    inner = np.flatnonzero(~around)
    inner = inner[outermost_first(start[inner], end[inner])]
    reached = np.maximum.accumulate(end[inner]) if len(inner) else end[inner]
    outermost = inner[np.append(True, start[inner][1:] >= reached[:-1])] if len(inner) else inner
    spent: Counter[int] = Counter()
    calls: Counter[int] = Counter()
    lasts = np.minimum(end[outermost], end_ns) - np.maximum(start[outermost], start_ns)
    for its, ns in zip(name[outermost].tolist(), lasts.tolist(), strict=True):
        spent[its] += ns
        calls[its] += 1
    for its, ns in spent.most_common(_MOST_CALLS):
        times = "" if calls[its] == 1 else f" in {plural(calls[its], 'call')}"
        yield f"{printable(trace.name(its))} {duration(ns)}{times}"
    if around.any():
        innermost = np.flatnonzero(around)[np.lexsort((-end[around], start[around]))[-1]]
        yield f"inside {printable(trace.name(int(name[innermost])))}"
    elif not len(outermost):
        yield "nothing that was recorded"


def _calls(trace: Trace, process: int, thread: int, start_ns: int, end_ns: int) -> tuple[Ints, Ints, Ints]:
    """Starts, ends and names of the thread's calls that have a part in the span. Annotations are no calls."""
    found = []
    tables = (
        (trace.launches, trace.launches.api),
        (trace.blocking_calls, trace.blocking_calls.api),
        (trace.host_ops, trace.host_ops.name),
    )
    for table, names in tables:
        in_span = (table.start_ns < end_ns) & (table.end_ns > start_ns)
        its = in_span & (table.process == process) & (table.thread == thread)
        if isinstance(table, HostOps):
            its &= table.kind != HostKind.ANNOTATION
        found.append((table.start_ns[its], table.end_ns[its], names[its]))
    start, end, name = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return start, end, name
