"""One trace, told: the verdict first, then what it rests on. Everything is as profiled."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, Protocol

from ..model import units
from ..model.document import CoverageDoc, DeviceDoc, SteadyDoc, TraceDoc
from ..model.units import MISSING, duration, number, plural, ratio, share
from ..story.blocks import Block, Fact, Heading, Listing
from ..story.tables import Column, Row, Table
from . import launch_tables, parts
from .fusion.fusion_story import fusion_story
from .graphs.graph_story import graph_story
from .serving.serving_story import serving_story, withheld_elsewhere

KERNELS: Final = 8  # names told without --verbose
_OF_COLLECTIVES: Final = ("collectives", "exposed_ns", "hidden_ns", "transfer_ns", "waiting_ns")
OVERLAP: Final = 0.01  # of busy, from which op_sum is shown beside it (docs/metrics.md)


def trace_story(trace: TraceDoc, *, verbose: bool, divides: bool = False) -> list[Block]:
    """Everything there is to say about one trace."""
    step_ns = None if trace.bound is None else trace.bound.step_ns
    return [
        _heading(trace, divides),
        parts.headline(trace.verdict),
        *parts.actions(trace.verdict.actions, step_ns),
        *parts.warnings(trace.warnings, verbose=verbose),
        *parts.withheld(_withheld(trace), verbose=verbose),
        *coverage(trace.coverage, verbose=verbose),
        *_bound(trace),
        *_communication(trace),
        *_graphs_and_queue(trace),
        *_graph_doctor(trace, verbose=verbose),
        *parts.short_kernels(trace),
        *parts.idle(trace, "idle", verbose=verbose),
        *serving_story(trace),
        *_devices(trace),
        *_steps(trace),
        *parts.kernels(trace.kernels, "longest kernels", limit=None if verbose else KERNELS),
        *(fusion_story(trace.fusion, verbose=verbose) if trace.trace_pass is None else ()),  # a profile tells its own
        *launch_tables.launches(trace, verbose=verbose),
        *launch_tables.blocking_calls(trace, verbose=verbose),
        *launch_tables.replays(trace, verbose=verbose),
    ]


def _withheld(trace: TraceDoc) -> dict[str, str]:
    """What is withheld, but for what stands elsewhere: beside the phases, in a warning."""
    told = withheld_elsewhere(trace.withheld)
    return {path: reason for path, reason in told.items() if not path.startswith("communication.")}


def _communication(trace: TraceDoc) -> Iterator[Fact]:
    """What collectives take of a step: means, as they add up."""
    doc = trace.communication
    if doc is None:
        return
    mean = {name: None if (s := getattr(doc, name)) is None else s.total / s.count for name in _OF_COLLECTIVES}
    per = "per step" if doc.scope == "steps" else "in the file"
    kinds = ", ".join(kind.replace("_", "-") for kind in doc.kinds)
    line = f"{number(mean['collectives'])} {per} ({kinds}) · exposed {duration(mean['exposed_ns'])}"
    line += f" · hidden {duration(mean['hidden_ns'])}" if mean["hidden_ns"] else ""
    if mean["transfer_ns"] is not None:
        line += f" · transfer {duration(mean['transfer_ns'])} · waiting {duration(mean['waiting_ns'])}"
    yield Fact("collectives", [line])


def _graph_doctor(trace: TraceDoc, *, verbose: bool) -> Iterator[Fact | Listing]:
    if trace.graph_doctor is not None:
        yield from graph_story({"": trace.graph_doctor}, trace.graph_doctor.findings, verbose=verbose)


def traces_overview(traces: Sequence[TraceDoc], notes: Sequence[str] = ()) -> Listing:
    """Several traces side by side."""
    rows = []
    for trace in traces:
        device = next((d for d in trace.devices if d.device == trace.headline_device), None)
        scope: DeviceDoc | SteadyDoc | None = device if device is None or device.steady is None else device.steady
        steps = trace.steps
        period = None if steps is None or steps.period_ns is None else steps.period_ns.median
        rows.append(
            Row(
                [
                    label(trace),
                    trace.verdict.verdict_class,
                    duration(period),
                    MISSING if steps is None else duration(steps.busy_ns.median),
                    MISSING if scope is None else share(scope.idle_fraction),
                    MISSING if steps is None else number(steps.launches.median),
                    MISSING if steps is None else number(steps.kernels.median),
                    MISSING if steps is None else number(steps.count),
                    number(trace.coverage.gpu_ops),
                    str(len(trace.warnings)),
                ]
            )
        )
    columns = [
        Column("trace", right=False, least=36, foreign=True),
        Column("verdict", right=False),
        Column("step"),
        Column("GPU work"),
        Column("idle"),
        Column("launches\nper step", rank=1),
        Column("kernels\nper step", optional=True),
        Column("steps", optional=True),
        Column("GPU ops", optional=True),
        Column("warnings"),
    ]
    return Listing(Table(columns, rows), notes)


def label(trace: Recording) -> str:
    """A trace's name with what tells it from its siblings."""
    told = [trace.name, trace.mode, trace.trace_pass and f"{trace.trace_pass} pass"]
    told.append(None if trace.repeat is None else f"repeat {trace.repeat}")
    told.append(None if trace.rank is None else f"rank {trace.rank}")
    return " · ".join(part for part in told if part)


class Recording(Protocol):
    """What a trace is called by; null where a bare trace has none."""

    @property
    def name(self) -> str: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def trace_pass(self) -> str | None: ...
    @property
    def repeat(self) -> int | None: ...
    @property
    def rank(self) -> int | None: ...


def _heading(trace: TraceDoc, divides: bool) -> Heading:
    named = sorted({device.name for device in trace.devices if device.name})
    right = [*named, trace.source.format, units.byte_size(trace.source.bytes)]
    return Heading(label(trace), " · ".join(right), divides)


def coverage(c: CoverageDoc, *, verbose: bool) -> Iterator[Fact]:
    """What the file holds, and how much of it can be used."""
    counts = [f"{number(c.events)} events", plural(c.gpu_ops, "GPU op"), plural(c.kernels, "kernel")]
    counts += [plural(c.launches, "launch", "launches"), f"{number(c.graph_launches)} of them graph launches"]
    linked = f"launch in the file for {number(c.linked)} of {number(c.gpu_ops)} GPU ops ({ratio(c.linked, c.gpu_ops)})"
    oddities = [
        (c.negative_latency, "start before their launch call does"),
        (c.same_stream_overlaps, "overlap an earlier one of their stream"),
        (c.zero_duration, "take no time"),
    ]
    odd = [f"{number(count)} {text}" for count, text in oddities if count or verbose]
    if c.negative_queue and verbose:
        odd.append(f"{plural(c.negative_queue, 'launch', 'launches')} return after their GPU op started (normal)")
    lines = [" · ".join(counts), " · ".join([linked, "reliable" if c.reliable else "NOT RELIABLE", *odd])]
    kept = f"{number(c.steps_found - c.steps_dropped)} of {number(c.steps_found)} kept"
    lines.append(f"steps: {kept}, found by {c.step_source.replace('_', ' ')}" if c.steps_found else "steps: none found")
    yield Fact("coverage", lines)


def _devices(trace: TraceDoc) -> Iterator[Listing]:
    several = len(trace.devices) > 1
    rows = []
    for device in trace.devices:
        chosen = several and device.device == trace.headline_device
        overlap = device.op_sum_ns - device.busy_ns > OVERLAP * device.busy_ns
        op_sum = duration(device.op_sum_ns) if overlap else MISSING
        rows.append(_scope_row(f"device {device.device}{' *' if chosen else ''}", "whole", device, op_sum))
        if device.steady is not None:
            rows.append(_scope_row("", "steady", device.steady, MISSING))
    if rows:
        columns = [Column("GPU", right=False), Column("scope", right=False), Column("window"), Column("busy")]
        columns += [Column("idle"), Column("of window"), Column("gaps"), Column("sum of ops", rank=1)]
        notes = ["* what the verdict, the steps and the idle time speak of"] if several else []
        yield Listing(Table(columns, rows).without_empty_columns(MISSING), notes)


def _scope_row(name: str, scope: str, figures: DeviceDoc | SteadyDoc, op_sum: str) -> Row:
    times = [duration(ns) for ns in (figures.window_ns, figures.busy_ns, figures.idle_ns)]
    return Row([name, scope, *times, share(figures.idle_fraction), number(figures.gaps.count), op_sum])


def _steps(trace: TraceDoc) -> Iterator[Listing]:
    steps = trace.steps
    if steps is None:
        return
    counts = ("kernels", "launches", "graph_launches", "blocking_calls", "memcpys")
    rows = [launch_tables.summary_row("step time (first op to first op)", steps.period_ns, time=True)]
    rows.append(launch_tables.summary_row("GPU work", steps.busy_ns, time=True))
    words = {name: name.replace("_", " ").replace("memcpys", "copies") for name in counts}
    told = {words[name]: getattr(steps, name) for name in counts}
    rows += [launch_tables.summary_row(name, summary) for name, summary in told.items() if summary.total]
    yield Listing(Table(launch_tables.summary_columns(f"per step, {plural(steps.count, 'step')}"), rows))


def _bound(trace: TraceDoc) -> Iterator[Fact]:
    bound = trace.bound
    if bound is None:
        return
    span = "window" if trace.steps is None else "step"
    lines = [parts.bound_line(bound, span)]
    if bound.host_submit_ns is not None:
        lines.append(f"host submits the {span} in {duration(bound.host_submit_ns)} ({bound.host_submit_source})")
    yield Fact("as profiled", [*lines, *([bound.note] if bound.note else [])])


def _graphs_and_queue(trace: TraceDoc) -> Iterator[Fact]:
    graphs, queue, memory = trace.graphs, trace.queue_depth, trace.memory_ops
    if graphs.coverage_by_count is not None:
        known = f"{number(graphs.kernels_in_graphs)} of {number(graphs.kernels_with_launch)} kernels with a launch"
        by_time = f"{share(graphs.coverage_by_time)} by time"
        yield Fact("in graphs", [f"{known} ({share(graphs.coverage_by_count)}, {by_time})"])
    if queue.median is not None:
        most = plural(queue.max or 0, "GPU op")
        yield Fact("queue depth", [f"median {number(queue.median)}, at most {most} waiting"])
    if memory.ns:
        yield Fact("copies, sets", [f"{duration(memory.ns)} · {units.byte_size(memory.bytes)}"])
