"""A native Perfetto trace of a report: every timeline, with what launchscope worked out. See docs/perfetto.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from ..trace import HostKind, Trace
from . import perfetto_slices as rows_of
from .lanes import flat_lanes, nested_lanes
from .perfetto_packets import PacketSequence

if TYPE_CHECKING:
    from ..analyses import TraceAnalysis
    from ..report import Report


def render(report: Report) -> bytes:
    """Every trace of the report in one Perfetto file."""
    return perfetto_trace(report.analyses)


def perfetto_trace(analyses: Sequence[TraceAnalysis]) -> bytes:
    """The traces in one Perfetto file, each a group of tracks; docs/perfetto.md tells the tracks.

    The first trace keeps its times. The others are moved so that their first kept step (without one: their first
    record) starts when its does. Durations and distances within a trace are exact to the nanosecond.
    """
    shifts_ns, zero_ns = _placement(analyses)
    uuids = count(1)
    first_flow = 1
    files = []
    for number, (analysis, title, shift_ns) in enumerate(zip(analyses, _titles(analyses), shifts_ns, strict=True)):
        sequence = PacketSequence(number + 1, uuids, zero_ns=zero_ns, shift_ns=shift_ns)
        _draw(sequence, analysis, title, shift_ns, first_flow)
        first_flow += len(analysis.trace.gpu_ops)
        files.append(sequence.serialize())
    return b"".join(files)


def _placement(analyses: Sequence[TraceAnalysis]) -> tuple[list[int], int]:
    """By how much each trace is moved, and the earliest time after that; never negative, which Perfetto can't hold."""
    starts = [_first_ns(analysis) for analysis in analyses]
    anchors = []
    for analysis, start in zip(analyses, starts, strict=True):
        kept = np.flatnonzero(analysis.steps.kept)
        anchors.append(int(analysis.steps.start_ns[kept[0]]) if len(kept) else start)
    shifts = [anchors[0] - anchor for anchor in anchors]
    earliest = min((start + shift for start, shift in zip(starts, shifts, strict=True)), default=0)
    lift = max(0, -earliest)
    return [shift + lift for shift in shifts], earliest + lift


def _first_ns(analysis: TraceAnalysis) -> int:
    """The earliest time that is drawn; an end, where a record ends before it starts."""
    trace = analysis.trace
    tables = (trace.gpu_ops, trace.launches, trace.blocking_calls, trace.host_ops, analysis.steps)
    columns = [column for table in tables for column in (table.start_ns, table.end_ns) if len(column)]
    return min((int(column.min()) for column in columns), default=0)


def _titles(analyses: Sequence[TraceAnalysis]) -> Iterator[str]:
    """'eager · cpu_cuda · repeat 1' for a trace of a capture, else the trace's name; never twice the same."""
    seen: Counter[str] = Counter()
    for analysis in analyses:
        title = analysis.name
        if analysis.mode is not None:
            repeat = None if analysis.repeat is None else f"repeat {analysis.repeat}"
            title = " · ".join(part for part in (analysis.mode, analysis.trace_pass, repeat) if part is not None)
        seen[title] += 1
        yield title if seen[title] == 1 else f"{title} ({seen[title]})"


def _draw(sequence: PacketSequence, analysis: TraceAnalysis, title: str, shift_ns: int, first_flow: int) -> None:
    trace, steps = analysis.trace, analysis.steps
    moved = f"; its times are moved by {shift_ns:+} ns" if shift_ns else ""
    group = sequence.group(title, description=f"{trace.source.path}{moved}")
    slices = rows_of.step_slices(steps)
    lanes = flat_lanes(slices.start_ns, slices.end_ns, np.arange(len(slices.name)))
    sequence.slices("steps", group, slices, lanes, description=f"host ranges, found by: {steps.source}")
    _draw_threads(sequence, analysis, group, first_flow)
    gpu_ops = rows_of.gpu_op_slices(analysis, first_flow)
    for device in trace.devices:
        name = trace.device_names.get(device)
        parent = sequence.group(f"GPU {device}" + (f" · {name}" if name else ""), group)
        _draw_derived(sequence, analysis, device, parent)
        on_device = trace.gpu_ops.device == device
        for stream in np.unique(trace.gpu_ops.stream[on_device]).tolist():
            rows = np.flatnonzero(on_device & (trace.gpu_ops.stream == stream))
            sequence.slices(f"stream {stream}", parent, gpu_ops, flat_lanes(gpu_ops.start_ns, gpu_ops.end_ns, rows))


def _draw_derived(sequence: PacketSequence, analysis: TraceAnalysis, device: int, parent: int) -> None:
    """What launchscope worked out about a device: its steps, gaps, idle and queue depth."""
    trace, steps, gaps = analysis.trace, analysis.steps, analysis.gaps[device]
    slices = rows_of.gpu_step_slices(trace, steps, device)
    lanes = flat_lanes(slices.start_ns, slices.end_ns, np.arange(len(slices.name)))
    sequence.slices("steps", parent, slices, lanes, description="first to last GPU op of each step")
    slices = rows_of.gap_slices(trace, steps, gaps)
    lanes = flat_lanes(slices.start_ns, slices.end_ns, np.arange(len(slices.name)))
    sequence.slices("gaps", parent, slices, lanes, description="why no GPU op was running")
    sequence.counter("idle", parent, *rows_of.idle_series(trace, gaps), description="1 while no GPU op runs")
    series = rows_of.queue_depth_series(trace, device)
    sequence.counter("queue depth", parent, *series, description="GPU ops launched and not started")


def _draw_threads(sequence: PacketSequence, analysis: TraceAnalysis, group: int, first_flow: int) -> None:
    """Per host thread: its API calls, and below them operators with annotations, and Python frames."""
    trace = analysis.trace
    calls = rows_of.api_call_slices(analysis, first_flow)
    call_process, call_thread = rows_of.api_call_threads(trace)
    host_ops = rows_of.host_op_slices(trace)
    kind = trace.host_ops.kind
    for process, thread, name in _threads(trace):
        parent = sequence.group(name, group)
        rows = np.flatnonzero((call_process == process) & (call_thread == thread))
        sequence.slices("API calls", parent, calls, nested_lanes(calls.start_ns, calls.end_ns, rows))
        here = (trace.host_ops.process == process) & (trace.host_ops.thread == thread)
        named = (kind == HostKind.OPERATOR) | (kind == HostKind.ANNOTATION)
        for track, shown in (("operators", named), ("Python", kind == HostKind.PYTHON)):
            rows = np.flatnonzero(here & shown)
            sequence.slices(track, parent, host_ops, nested_lanes(host_ops.start_ns, host_ops.end_ns, rows))


def _threads(trace: Trace) -> list[tuple[int, int, str]]:
    """(process, thread, name) of every host thread that did anything, those with the most launches first."""
    launches: Counter[tuple[int, int]] = Counter()
    for table in (trace.launches, trace.blocking_calls, trace.host_ops):
        weight = int(table is trace.launches)
        for process, thread in zip(table.process.tolist(), table.thread.tolist(), strict=True):
            launches[process, thread] += weight
    several = len({process for process, _ in launches}) > 1
    order = sorted(launches, key=lambda key: (-launches[key], key))
    return [(p, t, f"process {p} · thread {t}" if several else f"thread {t}") for p, t in order]
