"""The lanes of a band: what its host threads called, what its GPU streams ran, and why the GPU was idle."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np

from ...analysis.model.columns import threads
from ...analysis.model.document import CAUSES
from ...analysis.model.kernel_names import short_names
from ...analysis.model.names import kind_of_kernel
from ...analysis.model.trace import NONE, Bools, HostKind, Ints, OpKind, Trace
from ...analysis.model.units import plural
from ...analysis.render.perfetto.lanes import flat_lanes, nested_lanes
from ...analysis.render.perfetto.slices import gap_slices, queue_depth_series
from ..band import Band
from .heat_strip import Lane, Rects

HOST_PX: Final = 18
LEVEL_PX: Final = 13  # of operators inside one another
STREAM_PX: Final = 22
OVERLAP_PX: Final = 12  # of ops that overlap others of their stream
GAPS_PX: Final = 16

MOST_THREADS: Final = 6
MOST_LEVELS: Final = 4
MOST_STREAMS: Final = 12
MOST_SUB_LANES: Final = 4
"""More than a screen can hold; a note in the band says what is left out."""


@dataclass(frozen=True, eq=False)
class BandLanes:
    """A band ready to be drawn. Made once by ``prepare`` and never changed."""

    band: Band
    host: tuple[Lane, ...]
    streams: tuple[Lane, ...]
    gaps: Lane | None  # null: no gap, or no GPU op
    notes: tuple[str, ...]  # what is missing, and why; what is left out

    @property
    def lanes(self) -> tuple[Lane, ...]:
        """From top to bottom."""
        return (*self.host, *self.streams, *((self.gaps,) if self.gaps is not None else ()))

    @cached_property
    def extent_ns(self) -> tuple[int, int] | None:
        """First start and last end of all that can be drawn; null where that is nothing."""
        layers = [layer for lane in self.lanes for layer in lane.layers]
        if not layers:
            return None
        return min(int(each.start_ns[0]) for each in layers), max(int(each.end_ns.max()) for each in layers)

    def window(self, step: int) -> tuple[int, int]:
        """Start and end of this kept step in ns, or of the nearest there is; without steps of everything."""
        windows = self.band.step_windows
        if windows:
            return windows[min(step, len(windows) - 1)]
        return self.extent_ns or (0, 0)

    @cached_property
    def gap_before(self) -> Ints:
        """[gpu_ops] row of the headline device's gap that ends where the op starts, or NONE."""
        found = np.full(len(self.band.analysis.context.trace.gpu_ops), NONE, np.int64)
        if self.band.device is not None:
            gaps = self.band.analysis.context.gaps[self.band.device]
            found[gaps.next_op] = np.arange(len(gaps))
        return found

    @cached_property
    def short_names(self) -> dict[str, str]:
        """Of every GPU op's name."""
        trace = self.band.analysis.context.trace
        return short_names(trace.name(name) for name in np.unique(trace.gpu_ops.name).tolist())

    @cached_property
    def inferred_operators(self) -> dict[str, str]:
        """Kernel name → operator, where only another recording that was aligned with this one tells it."""
        kernels = self.band.analysis.document.kernels
        return {row.name: row.operator for row in kernels if row.operator_inferred and row.operator}

    @cached_property
    def folded_names(self) -> tuple[str, ...]:
        """Names of the trace as a search compares them."""
        return tuple(name.casefold() for name in self.band.analysis.context.trace.names)

    @cached_property
    def queue_depth(self) -> tuple[Ints, Ints]:
        """(times in ns, GPU ops launched and not started from then on)."""
        none = np.zeros(0, np.int64)
        return (
            (none, none)
            if self.band.device is None
            else queue_depth_series(self.band.analysis.context.trace, self.band.device)
        )


def prepare(band: Band) -> BandLanes:
    """The band's lanes, made at the first call."""
    return band.kept("lanes", lambda: _prepared(band))


def _prepared(band: Band) -> BandLanes:
    host, host_notes = _host_lanes(band)
    streams, stream_notes = _stream_lanes(band)
    gaps = _gap_lane(band)
    return BandLanes(band, tuple(host), tuple(streams), gaps, (*_missing(band), *host_notes, *stream_notes))


def _missing(band: Band) -> Iterator[str]:
    """What the recording lacks that a lane would show."""
    document = band.analysis.document
    if document.headline_device is None:
        yield f"No GPU lane: {document.withheld.get('headline_device', 'no GPU op in the file')}."
    elif not document.coverage.launches:
        yield "No host lane and no causes of gaps: no launches in the file; filtered, or left out by its writer."
    elif not document.coverage.reliable:
        yield f"Not reliable: {'; '.join(band.analysis.document.coverage.unreliable)}."
    if band.device is not None and "steps" in document.withheld:
        yield f"The whole recording is shown: {document.withheld['steps']}."


def _host_lanes(band: Band) -> tuple[list[Lane], list[str]]:
    """Per thread that launches or waits, those with the most launches first: its calls, then its operators."""
    trace = band.analysis.context.trace
    launches = threads(trace.launches.process, trace.launches.thread)
    waits = threads(trace.blocking_calls.process, trace.blocking_calls.thread)
    host_ops = threads(trace.host_ops.process, trace.host_ops.thread)
    none = np.zeros(0, np.int64)
    keys = sorted({*launches, *waits}, key=lambda key: (-len(launches.get(key, none)), key))
    lanes: list[Lane] = []
    for key in keys[:MOST_THREADS]:
        process, thread = key
        several = len({process for process, _ in keys}) > 1
        name = "host" if len(keys) == 1 else f"thread {thread}" if not several else f"{process} · {thread}"
        calls, blocking = launches.get(key, none), waits.get(key, none)
        # a synchronous copy is both a launch and a blocking call: drawn once, as what it does to the host
        launched = calls[~np.isin(trace.launches.start_ns[calls], trace.blocking_calls.start_ns[blocking])]
        layers = [_rects("blocking call", "blocking", trace.blocking_calls, blocking)]
        layers.append(_rects("launch call", "launch", trace.launches, launched))
        lanes.append(_lane(name, HOST_PX, layers, are_apart=False))
        lanes += _operator_lanes(band, host_ops.get(key, none))
    left_out = len(keys) - MOST_THREADS
    return lanes, [f"{plural(left_out, 'more host thread')} not drawn."] if left_out > 0 else []


def _operator_lanes(band: Band, rows: Ints) -> list[Lane]:
    """Operators of one thread by depth; Python frames where it has none."""
    table = band.analysis.context.trace.host_ops
    for kind, style, label in ((HostKind.OPERATOR, "operator", "operators"), (HostKind.PYTHON, "python", "Python")):
        chosen = rows[table.kind[rows] == kind]
        if not len(chosen):
            continue
        levels = _levels(table.start_ns, table.end_ns, chosen)
        names = [label, *[""] * MOST_LEVELS]
        if len(levels) > MOST_LEVELS:
            names[MOST_LEVELS - 1] = f"+ {len(levels) - MOST_LEVELS} deeper"
        return [
            _lane(name, LEVEL_PX, [_rects(style, "host_op", table, level)])
            for name, level in zip(names, levels[:MOST_LEVELS], strict=False)
        ]
    return []


def _levels(start_ns: Ints, end_ns: Ints, rows: Ints) -> list[Ints]:
    """The rows by how many of the others lie around them."""
    levels: list[Ints] = []
    for lane in nested_lanes(start_ns, end_ns, rows):
        depth = np.cumsum(np.where(lane.opens, 1, -1))[lane.opens]
        opened = lane.row[lane.opens]
        order = np.argsort(depth, kind="stable")
        levels += np.split(opened[order], np.flatnonzero(np.diff(depth[order])) + 1)
    return levels


def _stream_lanes(band: Band) -> tuple[list[Lane], list[str]]:
    """Per stream of the headline device, those with the most ops first; ops that overlap are in lanes of their own."""
    ops = band.analysis.context.trace.gpu_ops
    streams = {
        stream: rows for (device, stream), rows in threads(ops.device, ops.stream).items() if device == band.device
    }
    order = sorted(streams, key=lambda stream: (-len(streams[stream]), stream))
    collective = _collectives(band.analysis.context.trace)
    lanes, left_out = [], sum(len(streams[stream]) for stream in order[MOST_STREAMS:])
    for stream in order[:MOST_STREAMS]:
        sub_lanes = [lane.row[lane.opens] for lane in flat_lanes(ops.start_ns, ops.end_ns, streams[stream])]
        left_out += sum(map(len, sub_lanes[MOST_SUB_LANES:]))
        for number, rows in enumerate(sub_lanes[:MOST_SUB_LANES]):
            is_kernel = np.isin(ops.kind[rows], (OpKind.KERNEL, OpKind.GRAPH))
            is_collective = collective[rows]
            chosen = (is_kernel & ~is_collective, is_kernel & is_collective, ~is_kernel)
            styles = zip(("kernel", "collective", "copy"), chosen, strict=True)
            layers = [_rects(style, "gpu_op", ops, rows[each]) for style, each in styles]
            lanes.append(_lane("", OVERLAP_PX, layers) if number else _lane(f"stream {stream}", STREAM_PX, layers))
    return lanes, [f"{plural(left_out, 'GPU op')} of further streams or overlaps not drawn."] if left_out else []


def _collectives(trace: Trace) -> Bools:
    """[gpu_ops] Those that communicate with other GPUs, by what the file tells, else by their names."""
    ops = trace.gpu_ops
    named = [name for name in np.unique(ops.name).tolist() if kind_of_kernel(trace.name(name)) is not None]
    communicates: Bools = np.isin(ops.name, named) | (ops.collective != NONE)
    return communicates


def _gap_lane(band: Band) -> Lane | None:
    """The headline device's gaps, each as its consecutive parts."""
    if band.device is None:
        return None
    analysis = band.analysis
    slices = gap_slices(analysis.context.trace, analysis.context.steps, analysis.context.gaps[band.device])
    gap, place = slices.numbers["gap"], slices.name.place
    layers = []
    for number, cause in enumerate(CAUSES):
        rows = np.flatnonzero(place == number)
        layers.append(Rects(cause, "gap", slices.start_ns[rows], slices.end_ns[rows], gap[rows]))
    lane = _lane("gaps", GAPS_PX, layers)
    return lane if lane.layers else None


def _lane(label: str, height: int, layers: Sequence[Rects], *, are_apart: bool = True) -> Lane:
    there = tuple(layer for layer in layers if len(layer))
    return Lane(label, height, there, are_apart or len(there) < 2)


def _rects(style: str, kind: str, table: object, rows: Ints) -> Rects:
    start_ns, end_ns = (getattr(table, name)[rows] for name in ("start_ns", "end_ns"))
    order = np.argsort(start_ns, kind="stable")
    # a record that ends before it starts is drawn as a point
    return Rects(style, kind, start_ns[order], np.maximum(end_ns, start_ns)[order], rows[order])
