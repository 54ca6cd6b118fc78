"""The GPU's side of serving steps: whose phase its work belongs to, and what it waited for when it was idle."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...facts.context import Context
from ...model.columns import follow
from ...model.document import PHASES
from ...model.trace import NONE, Bools, Ints, Trace
from .host_phases import COPY_BACK, OTHER, PREPARE, SAMPLE, HostPhases
from .launches import COPY_IN, COPY_OUT, ServingLaunches

_ASKED_FOR: Final = ("host", "sync", "launch")
"""Parts of a gap, at its start, in which the host had not asked for the next op yet, or was asking."""


@dataclass(frozen=True, eq=False)
class GpuPhases:
    """Step and phase of every GPU op."""

    op_step: Ints  # NONE outside of every step
    op_phase: Ints
    in_replay: Bools  # of a graph launch in the file


def gpu_phases(
    trace: Trace, launches: ServingLaunches, phases: HostPhases, starts_ns: Ints, ends_ns: Ints, sampling: Bools
) -> GpuPhases:
    """An op has the phase of its launch; what samples inside a replay is sampling; copies of other threads are copies.

    An op without a launch in the file is in the step that it starts in, of no phase that could be told.
    """
    ops = trace.gpu_ops
    at_ns = follow(trace.launches.start_ns, ops.launch_row, absent=0)
    linked = ops.launch_row != NONE
    at_ns = np.where(linked, at_ns, ops.start_ns)
    step = np.searchsorted(starts_ns, at_ns, side="right") - 1
    inside = (step >= 0) & (at_ns < ends_ns[step])
    phase = np.where(linked, phases.phases_at(at_ns), OTHER)
    own = np.zeros(len(trace.launches), np.bool_)
    own[launches.row] = True
    elsewhere = linked & ~follow(own, ops.launch_row, absent=0)
    for pattern, its_phase in ((COPY_IN, PREPARE), (COPY_OUT, COPY_BACK)):
        names = np.unique(ops.name[elsewhere])
        named = [n for n in names.tolist() if pattern.search(trace.name(n))]
        phase[elsewhere & np.isin(ops.name, named)] = its_phase
    phase[sampling & linked] = SAMPLE
    in_replay = follow(trace.launches.is_graph, ops.launch_row, absent=0)
    return GpuPhases(np.where(inside, step, NONE), phase, in_replay)


def busy_ns(trace: Trace, gpu: GpuPhases, device: int, steps: int) -> tuple[Ints, Ints]:
    """[step, phase] GPU work, and the part of it inside replays: an instant counts once, for the op that came first.

    The phases of a step add up to the union of its ops.
    """
    ops = trace.gpu_ops
    rows = np.flatnonzero((ops.device == device) & (gpu.op_step != NONE))
    rows = rows[np.argsort(gpu.op_step[rows], kind="stable")]
    work, replayed = np.zeros((steps, len(PHASES)), np.int64), np.zeros((steps, len(PHASES)), np.int64)
    for own in np.split(rows, np.flatnonzero(np.diff(gpu.op_step[rows])) + 1):
        if len(own):
            end = ops.end_ns[own]
            reached = np.maximum.accumulate(np.append(ops.start_ns[own[:1]], end[:-1]))
            new = np.maximum(end - np.maximum(ops.start_ns[own], reached), 0)
            np.add.at(work[gpu.op_step[own[0]]], gpu.op_phase[own], new)
            np.add.at(replayed[gpu.op_step[own[0]]], gpu.op_phase[own], np.where(gpu.in_replay[own], new, 0))
    return work, replayed


def idle_ns(
    context: Context,
    launches: ServingLaunches,
    phases: HostPhases,
    gpu: GpuPhases,
    ranges: tuple[Ints, Ints],
    counts: Bools,
) -> Ints:
    """[step, phase] idle time of the headline device's gaps, by what the host did before it asked for the next op.

    It adds up to that of the gaps. What is left of a gap when the op was launched (dispatch, dependencies, node to
    node) is of the op's own phase, as is a gap before an op that another thread launched. Each part is of the step
    that the host was in, or the op is of; where that one does not count, of the step whose first op came last before
    the gap. ``ranges`` are the steps' host ranges.
    """
    gaps, (starts_ns, ends_ns) = context.headline_gaps, ranges
    asked = sum((gaps.parts_ns[cause].astype(np.int64) for cause in _ASKED_FOR), np.zeros(len(gaps), np.int64))
    asked = np.where(np.isin(context.trace.gpu_ops.launch_row[gaps.next_op], launches.row), asked, 0)
    until = gaps.start_ns + asked
    before = np.searchsorted(starts_ns, gaps.start_ns, side="right") - 1
    cut = np.clip(ends_ns[before], gaps.start_ns, until)
    rest = np.zeros((len(gaps), len(PHASES)), np.int64)
    rest[np.arange(len(gaps)), gpu.op_phase[gaps.next_op]] = gaps.dur_ns - asked
    parts = (phases.within(gaps.start_ns, cut), phases.within(cut, until), rest)
    assert np.array_equal(sum(part.sum(axis=1) for part in parts), gaps.dur_ns), "phases add up to the gap"
    in_step = (before, np.searchsorted(starts_ns, until, side="right") - 1, gpu.op_step[gaps.next_op])
    otherwise = _last_begun(context.first_op_ns[gaps.device], gaps.start_ns)
    found = np.zeros((len(starts_ns), len(PHASES)), np.int64)
    for part, step in zip(parts, in_step, strict=True):
        own = np.where((step >= 0) & counts[step], step, otherwise)
        np.add.at(found, own[own >= 0], part[own >= 0])
    return found


def _last_begun(first_op_ns: Ints, times_ns: Ints) -> Ints:
    """The step whose first op came last before each time; NONE where none did."""
    step_of = np.flatnonzero(first_op_ns != NONE)
    order = step_of[np.argsort(first_op_ns[step_of], kind="stable")]
    place = np.searchsorted(first_op_ns[order], times_ns, side="right") - 1
    return np.where(place >= 0, np.append(order, NONE)[place], NONE)
