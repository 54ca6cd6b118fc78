"""A native Perfetto trace of a report: every timeline, with what launchscope worked out. See docs/perfetto.md."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from ...model.errors import UnreadableInput
from ...model.intervals import threads
from ...model.trace import HostKind, Trace
from . import slices as rows_of
from .lanes import flat_lanes, nested_lanes
from .packets import PacketSequence
from .placement import Clocks, clocks_of, placement

if TYPE_CHECKING:
    from ...figures.analyses import TraceAnalysis
    from ...report import Report


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
        first_flow += len(analysis.trace.gpu_ops)


def _titles(analyses: Sequence[TraceAnalysis]) -> Iterator[str]:
    """'eager · cpu_cuda · repeat 1 · rank 0' for a trace of a capture, else its name; never twice the same."""
    seen: Counter[str] = Counter()
    several = len({analysis.document.rank for analysis in analyses} - {None}) > 1
    for analysis in analyses:
        title = analysis.name
        if analysis.mode is not None:
            repeat = None if analysis.repeat is None else f"repeat {analysis.repeat}"
            rank = f"rank {analysis.document.rank}" if several and analysis.document.rank is not None else None
            title = " · ".join(part for part in (analysis.mode, analysis.trace_pass, repeat, rank) if part is not None)
        seen[title] += 1
        yield title if seen[title] == 1 else f"{title} ({seen[title]})"


def _draw(
    sequence: PacketSequence, analysis: TraceAnalysis, title: str, shift_ns: int, first_flow: int
) -> Iterator[bytes]:
    trace, steps = analysis.trace, analysis.steps
    moved = f"; its times are moved by {shift_ns:+} ns" if shift_ns else ""
    group = sequence.group(title, description=f"{trace.source.path}{moved}")
    slices = rows_of.step_slices(steps)
    lanes = flat_lanes(slices.start_ns, slices.end_ns, np.arange(len(slices)))
    yield from sequence.slices("steps", group, slices, lanes, description=f"host ranges, found by: {steps.source}")
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


def _draw_derived(sequence: PacketSequence, analysis: TraceAnalysis, device: int, parent: int) -> Iterator[bytes]:
    """What launchscope worked out about a device: its steps, gaps, idle and queue depth."""
    trace, steps, gaps = analysis.trace, analysis.steps, analysis.gaps[device]
    slices = rows_of.gpu_step_slices(trace, steps, device)
    lanes = flat_lanes(slices.start_ns, slices.end_ns, np.arange(len(slices)))
    yield from sequence.slices("steps", parent, slices, lanes, description="first to last GPU op of each step")
    slices = rows_of.gap_slices(trace, steps, gaps)
    lanes = flat_lanes(slices.start_ns, slices.end_ns, np.arange(len(slices)))
    yield from sequence.slices("gaps", parent, slices, lanes, description="why no GPU op was running")
    yield from sequence.counter("idle", parent, *rows_of.idle_series(trace, gaps), description="1 while no GPU op runs")
    series = rows_of.queue_depth_series(trace, device)
    yield from sequence.counter("queue depth", parent, *series, description="GPU ops launched and not started")


def _draw_threads(sequence: PacketSequence, analysis: TraceAnalysis, group: int, first_flow: int) -> Iterator[bytes]:
    """Per host thread: its API calls, and below them operators with annotations, and Python frames."""
    trace = analysis.trace
    calls = rows_of.api_call_slices(analysis, first_flow)
    calls_of = threads(*rows_of.api_call_threads(trace))
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
