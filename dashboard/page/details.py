"""What a click on a GPU op tells: its launch, operator, place in a graph, the gap before it, and its counterparts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...analysis.facts.launches import stack_of_launch
from ...analysis.figures.analyses import TraceAnalysis
from ...analysis.model.columns import follow, outermost_first
from ...analysis.model.document import CAUSES
from ...analysis.model.kernel_names import short_names
from ...analysis.model.trace import NONE, HostKind, HostOps, Ints, Trace
from ...analysis.model.units import byte_size, duration, number, plural, printable
from ..band import Band
from ..opened_report import OpenedReport
from ..timeline.counterparts import Counterpart, counterparts, short_name

OF_THE_HOST: Final = ("host", "launch", "sync")
"""Causes of idle time that what the launching thread did meanwhile explains."""


Pair = tuple[str, str | tuple[str, ...]]
"""What is told, and it in words; several lines as a tuple."""


@dataclass(frozen=True)
class Details:
    """Everything about one GPU op, in words; what the file does not say is left out."""

    name: str
    short_name: str
    op: tuple[Pair, ...]
    launch: tuple[Pair, ...]
    gap: tuple[Pair, ...]  # before it
    counterparts: tuple[Counterpart, ...]
    without_counterpart: tuple[tuple[str, str], ...]  # label of a band, and why


def details(opened: OpenedReport, band_key: str, row: int, others: Sequence[str] | None = None) -> Details | None:
    """Of one GPU op; None for a band or row that is not there. ``others``: keys of bands to find counterparts in."""
    band = opened.band(band_key)
    if band is None or not 0 <= row < len(band.analysis.context.trace.gpu_ops):
        return None
    name = band.analysis.context.trace.name(int(band.analysis.context.trace.gpu_ops.name[row]))
    other_bands = [opened.band(key) for key in (opened.first if others is None else others) if key != band_key]
    found, without = counterparts(band, row, [other for other in other_bands if other is not None])
    return Details(
        name=name,
        short_name=short_name(band, name),
        op=tuple(_op(band, row, name)),
        launch=tuple(_launch(band.analysis, row)),
        gap=tuple(_gap(band.analysis, row)),
        counterparts=found,
        without_counterpart=without,
    )


def _op(band: Band, row: int, name: str) -> Iterator[Pair]:
    analysis, ops = band.analysis, band.analysis.context.trace.gpu_ops
    alike = np.flatnonzero((ops.name == ops.name[row]) & (ops.kind == ops.kind[row]) & (ops.device == ops.device[row]))
    in_step = analysis.context.steps.op_step[alike] == analysis.context.steps.op_step[row]
    median_ns, p90_ns = np.percentile(ops.dur_ns[alike], (50, 90)).tolist()
    yield "full name", name
    yield "duration", duration(int(ops.dur_ns[row]))
    yield "all of this name", f"median {duration(median_ns)}, p90 {duration(p90_ns)}"
    yield "how many", f"{number(int(in_step.sum()))} in the step, {number(len(alike))} in all"
    where = ""
    if (step := _step(band, row)) is not None:
        where = f"{duration(int(ops.start_ns[row]) - step[1])} into step {step[0] + 1} · "
    yield "where", f"{where}device {ops.device[row]}, stream {ops.stream[row]}"
    if ops.bytes[row] != NONE:
        yield "bytes", byte_size(int(ops.bytes[row]))
    operator, inferred = _operator(analysis, row)
    if operator is not None:
        yield "operator", operator + (" (inferred)" if inferred else "")
    if stack := _stack(analysis, row):
        yield "stack", stack
    graphs = analysis.context.replays
    replay = int(graphs.op_replay[row])
    if replay != NONE:
        of_graph = np.flatnonzero(graphs.graph == graphs.graph[replay])
        nodes, graph = number(int(graphs.op_count[replay])), graphs.graph_names[int(graphs.graph[replay])]
        yield "in a graph", f"node {graphs.ordinal[row] + 1} of {nodes}, {graph}"
        yield "replay", f"{np.searchsorted(of_graph, replay) + 1} of {number(len(of_graph))}"


def _step(band: Band, row: int) -> tuple[int, int] | None:
    """The op's step among those that the page shows, and its start; null outside of them."""
    ops, steps = band.analysis.context.trace.gpu_ops, band.analysis.context.steps
    step = int(steps.op_step[row])
    in_step = np.flatnonzero((ops.device == band.device) & (steps.op_step == step))
    if step == NONE or not steps.kept[step] or not len(in_step):
        return None
    since_ns = int(ops.start_ns[in_step[0]])
    place = next((at for at, (start_ns, _) in enumerate(band.step_windows) if start_ns == since_ns), None)
    return None if place is None else (place, since_ns)


def _launch(analysis: TraceAnalysis, row: int) -> Iterator[Pair]:
    """Latency and queue time are those of the launch's earliest op, as everywhere."""
    trace, times = analysis.context.trace, analysis.context.launch_times
    launch = int(trace.gpu_ops.launch_row[row])
    if launch == NONE:
        yield "none", _why_no_launch(analysis, row)
        return
    yield "API", trace.name(int(trace.launches.api[launch]))
    yield "overhead", duration(int(times.overhead_ns[launch]))
    yield "latency", duration(int(times.latency_ns[launch]))
    yield "queue time", duration(int(times.queue_ns[launch]))
    yield "thread", str(trace.launches.thread[launch])
    ops = int((trace.gpu_ops.launch_row == launch).sum())
    if ops > 1:
        yield "launched", plural(ops, "GPU op")


def _why_no_launch(analysis: TraceAnalysis, row: int) -> str:
    trace = analysis.context.trace
    if not len(trace.launches):
        return "the file holds no launches"
    if trace.gpu_ops.correlation[row] == NONE:
        return "the file gives this op no correlation id"
    what = "the launch of its replay" if analysis.context.replays.op_replay[row] != NONE else "its launch"
    early = trace.gpu_ops.start_ns[row] <= trace.launches.start_ns[0]
    return f"{what} is not in the file" + (": it came before the recording began" if early else "")


def _operator(analysis: TraceAnalysis, row: int) -> tuple[str | None, bool]:
    """The operator that launched the op, and whether it is inferred from an aligned trace."""
    trace = analysis.context.trace
    recorded = int(follow(trace.host_ops.name, follow(trace.launches.operator_row, trace.gpu_ops.launch_row[[row]]))[0])
    if recorded != NONE:
        return trace.name(recorded), False
    name = trace.name(int(trace.gpu_ops.name[row]))
    inferred = next((doc.operator for doc in analysis.document.kernels if doc.name == name), None)
    return inferred, inferred is not None


def _launching(trace: Trace, row: int) -> tuple[int, int, int] | None:
    """Process, thread and start of the launch of an op."""
    launch = int(trace.gpu_ops.launch_row[row])
    if launch == NONE:
        return None
    calls = trace.launches
    return int(calls.process[launch]), int(calls.thread[launch]), int(calls.start_ns[launch])


def _stack(analysis: TraceAnalysis, row: int) -> tuple[str, ...]:
    """Around the launch, outermost first."""
    launch = int(analysis.context.trace.gpu_ops.launch_row[row])
    return () if launch == NONE else tuple(stack_of_launch(analysis.context.trace, launch))


def _gap(analysis: TraceAnalysis, row: int) -> Iterator[Pair]:
    """The gap that the op ended, by cause, the longest first; and what the launching thread did meanwhile."""
    trace = analysis.context.trace
    gaps = analysis.context.gaps[int(trace.gpu_ops.device[row])]
    found = np.flatnonzero(gaps.next_op == row)
    if not len(found):
        yield "no gap", "it started while another op ran, or first"
        return
    gap = int(found[0])
    parts = {cause: int(gaps.parts_ns[cause][gap]) for cause in CAUSES}
    start_ns, end_ns = int(gaps.start_ns[gap]), int(gaps.end_ns[gap])
    yield "idle", duration(end_ns - start_ns)
    yield from ((cause, duration(ns)) for cause, ns in sorted(parts.items(), key=lambda part: -part[1]) if ns)
    if gaps.boundary[gap]:
        yield "where", "between two steps"
    if gaps.stall_ns[gap]:
        yield "of it a stall", duration(int(gaps.stall_ns[gap]))
    previous = trace.name(int(trace.gpu_ops.name[gaps.prev_op[gap]]))
    yield "after", short_names([previous])[previous]
    host: list[str] = []
    launching = _launching(trace, row)
    if launching is not None and any(parts[cause] for cause in OF_THE_HOST):
        process, thread, _ = launching
        host += host_activity(trace, process, thread, start_ns, end_ns)
    if waiting := gaps.waiting_words(trace, gap):
        host.append(waiting)
    if host:
        yield "the host", tuple(host)


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
