"""A native Perfetto trace of a report: every timeline, with what launchscope worked out. See docs/perfetto.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from ...model.columns import threads
from ...model.document import RanksOfStepDoc, ReportDocument
from ...model.errors import UnreadableInput
from ...model.trace import HostKind, Trace
from ...profile.rank_documents import BY_COLLECTIVES, SAME_HOST
from ...profile.select import mode_of
from . import slices as rows_of
from .lanes import flat_lanes, nested_lanes
from .packets import PacketSequence, Slices

if TYPE_CHECKING:
    from ...figures.analyses import TraceAnalysis
    from ...report import Report


Clocks = Mapping[str, tuple[Hashable, float]]
"""By the name of a trace: what it ran together with, and by how many ns its clock is ahead of one of theirs."""


def render(report: Report) -> Iterator[bytes]:
    """Every trace of the report in one Perfetto file, piece by piece. UnreadableInput when it has none."""
    if not report.analyses:
        raise UnreadableInput(
            "no trace of this capture can be read, so there is no timeline to write; profile the target again"
        )
    return perfetto_trace(report.analyses, clocks_of(report.document, report.analyses))


def perfetto_trace(analyses: Sequence[TraceAnalysis], clocks: Clocks | None = None) -> Iterator[bytes]:
    """The traces in one Perfetto file, each a group of tracks; docs/perfetto.md tells the tracks.

    The first trace keeps its times. The others are moved so that their first kept step (without one: their first
    record) starts when its does; ranks that ran together, as ``clocks`` tells, are moved together. Durations and
    distances within a trace are exact to the nanosecond.
    """
    shifts_ns, zero_ns = placement(analyses, clocks or {})
    uuids = count(1)
    first_flow = 1
    for number, (analysis, title, shift_ns) in enumerate(zip(analyses, _titles(analyses), shifts_ns, strict=True)):
        sequence = PacketSequence(number + 1, uuids, zero_ns=zero_ns, shift_ns=shift_ns)
        yield from _draw(sequence, analysis, title, shift_ns, first_flow)
        yield from sequence.rest()
        first_flow += len(analysis.context.trace.gpu_ops)


def _titles(analyses: Sequence[TraceAnalysis]) -> Iterator[str]:
    """'eager · cpu_cuda · repeat 1 · rank 0' for a trace of a capture, else its name; never twice the same."""
    seen: Counter[str] = Counter()
    several = len({analysis.document.rank for analysis in analyses} - {None}) > 1
    for analysis in analyses:
        title = analysis.context.name
        if analysis.context.mode is not None:
            repeat = None if analysis.context.repeat is None else f"repeat {analysis.context.repeat}"
            rank = f"rank {analysis.document.rank}" if several and analysis.document.rank is not None else None
            title = " · ".join(
                part for part in (analysis.context.mode, analysis.context.trace_pass, repeat, rank) if part is not None
            )
        seen[title] += 1
        yield title if seen[title] == 1 else f"{title} ({seen[title]})"


def _draw(
    sequence: PacketSequence, analysis: TraceAnalysis, title: str, shift_ns: int, first_flow: int
) -> Iterator[bytes]:
    trace, steps = analysis.context.trace, analysis.context.steps
    moved = f"; its times are moved by {shift_ns:+} ns" if shift_ns else ""
    group = sequence.group(title, description=f"{trace.source.path}{moved}")
    yield from _draw_flat(
        sequence, "steps", group, rows_of.step_slices(steps), f"host ranges, found by: {steps.source}"
    )
    yield from _draw_threads(sequence, analysis, group, first_flow)
    gpu_ops = rows_of.gpu_op_slices(analysis, first_flow)
    streams = threads(trace.gpu_ops.device, trace.gpu_ops.stream)
    for device in trace.devices:
        name = trace.device_names.get(device)
        parent = sequence.group(f"GPU {device}" + (f" · {name}" if name else ""), group)
        yield from _draw_derived(sequence, analysis, device, parent)
        for (its_device, stream), rows in streams.items():
            if its_device == device:
                lanes = flat_lanes(gpu_ops.start_ns, gpu_ops.end_ns, rows)
                yield from sequence.slices(f"stream {stream}", parent, gpu_ops, lanes)


def _draw_flat(sequence: PacketSequence, name: str, parent: int, slices: Slices, description: str) -> Iterator[bytes]:
    lanes = flat_lanes(slices.start_ns, slices.end_ns, np.arange(len(slices)))
    return sequence.slices(name, parent, slices, lanes, description)


def _draw_derived(sequence: PacketSequence, analysis: TraceAnalysis, device: int, parent: int) -> Iterator[bytes]:
    """What launchscope worked out about a device: its steps, gaps, idle and queue depth."""
    trace, steps, gaps = analysis.context.trace, analysis.context.steps, analysis.context.gaps[device]
    gpu_steps = rows_of.gpu_step_slices(trace, steps, device)
    yield from _draw_flat(sequence, "steps", parent, gpu_steps, "first to last GPU op of each step")
    gap_slices = rows_of.gap_slices(trace, steps, gaps)
    yield from _draw_flat(sequence, "gaps", parent, gap_slices, "why no GPU op was running")
    yield from sequence.counter("idle", parent, *rows_of.idle_series(trace, gaps), description="1 while no GPU op runs")
    series = rows_of.queue_depth_series(trace, device)
    yield from sequence.counter("queue depth", parent, *series, description="GPU ops launched and not started")


def _draw_threads(sequence: PacketSequence, analysis: TraceAnalysis, group: int, first_flow: int) -> Iterator[bytes]:
    """Per host thread: its API calls, and below them operators with annotations, and Python frames."""
    trace = analysis.context.trace
    calls, process, thread = rows_of.api_call_slices(analysis, first_flow)
    calls_of = threads(process, thread)
    host_ops = rows_of.host_op_slices(trace)
    host_ops_of = threads(trace.host_ops.process, trace.host_ops.thread)
    none = np.zeros(0, np.int64)
    for key, name in _threads(trace, {*calls_of, *host_ops_of}):
        parent = sequence.group(name, group)
        lanes = nested_lanes(calls.start_ns, calls.end_ns, calls_of.get(key, none))
        yield from sequence.slices("API calls", parent, calls, lanes)
        rows = host_ops_of.get(key, none)
        kind = trace.host_ops.kind[rows]
        named = (kind == HostKind.OPERATOR) | (kind == HostKind.ANNOTATION)
        for track, shown in (("operators", named), ("Python", kind == HostKind.PYTHON)):
            lanes = nested_lanes(host_ops.start_ns, host_ops.end_ns, rows[shown])
            yield from sequence.slices(track, parent, host_ops, lanes)


def _threads(trace: Trace, keys: set[tuple[int, int]]) -> list[tuple[tuple[int, int], str]]:
    """(process, thread) and name of the host threads, those with the most launches first."""
    launches = {key: len(rows) for key, rows in threads(trace.launches.process, trace.launches.thread).items()}
    several = len({process for process, _ in keys}) > 1
    order = sorted(keys, key=lambda key: (-launches.get(key, 0), key))
    return [((p, t), f"process {p} · thread {t}" if several else f"thread {t}") for p, t in order]


def clocks_of(document: ReportDocument, analyses: Sequence[TraceAnalysis]) -> Clocks:
    """Of ranks that ran together, where their clocks are the same or collectives tell how far they are apart."""
    profile = None if document.profile is None else document.profile.ranks
    if profile is None:
        return {
            name: (place, ahead)
            for place, together in enumerate(document.ranks)
            for rank, ahead in _ahead(together).items()
            for name in next(each.traces for each in together.ranks if each.rank == rank)
        }
    ahead_of = {mode: _ahead(together) for mode, together in profile.modes.items()}
    found: dict[str, tuple[Hashable, float]] = {}
    for each in analyses:
        ahead, rank = ahead_of.get(mode_of(each) or "", {}), each.document.rank
        if rank is not None and rank in ahead:
            found[each.context.name] = ((each.context.mode, each.context.trace_pass, each.context.repeat), ahead[rank])
    return found


def _ahead(together: RanksOfStepDoc) -> dict[int, float]:
    """By rank; empty where nothing tells."""
    if together.alignment == SAME_HOST:
        return {each.rank: 0.0 for each in together.ranks}
    if together.alignment != BY_COLLECTIVES:
        return {}
    return {each.rank: each.clock_offset_ns for each in together.ranks if each.clock_offset_ns is not None}


def placement(analyses: Sequence[TraceAnalysis], clocks: Clocks) -> tuple[list[int], int]:
    """By how much each trace is moved, and the earliest time after that; never negative, which Perfetto can't hold.

    First kept steps start together, of ranks that ran together that of the first one: the others are moved with it.
    """
    starts = [_first_ns(analysis) for analysis in analyses]
    anchors = [_anchor_ns(analysis, start) for analysis, start in zip(analyses, starts, strict=True)]
    shifts: list[int] = []
    leads: dict[Hashable, int] = {}  # by how much all that ran together are moved, on a clock that is not ahead
    for analysis, anchor in zip(analyses, anchors, strict=True):
        together, ahead = clocks.get(analysis.context.name, (None, 0.0))
        shift = anchors[0] - anchor
        lead = shift if together is None else leads.setdefault(together, shift + round(ahead))
        shifts.append(lead - (0 if together is None else round(ahead)))
    earliest = min((start + shift for start, shift in zip(starts, shifts, strict=True)), default=0)
    lift = max(0, -earliest)
    return [shift + lift for shift in shifts], earliest + lift


def _anchor_ns(analysis: TraceAnalysis, start_ns: int) -> int:
    kept = np.flatnonzero(analysis.context.steps.kept)
    return int(analysis.context.steps.start_ns[kept[0]]) if len(kept) else start_ns


def _first_ns(analysis: TraceAnalysis) -> int:
    """The earliest time that is drawn; an end, where a record ends before it starts."""
    trace = analysis.context.trace
    tables = (trace.gpu_ops, trace.launches, trace.blocking_calls, trace.host_ops, analysis.context.steps)
    columns = [column for table in tables for column in (table.start_ns, table.end_ns) if len(column)]
    return min((int(column.min()) for column in columns), default=0)
