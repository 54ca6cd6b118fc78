"""The figures of serving steps, phase by phase: host time, and on the GPU what it did and what it waited for."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...facts.context import Context
from ...model.columns import follow
from ...model.document import PHASES
from ...model.trace import NONE, Bools, Ints, Trace
from .host_phases import COPY_BACK, FORWARD, OTHER, PREPARE, SAMPLE, HostPhases
from .launches import COPY_IN, COPY_OUT, ServingLaunches, ServingSteps, matching

_NOT_LAUNCHED: Final = ("host", "sync", "launch")
"""Parts of a gap, at its start, in which the host had not launched the next op yet, or was launching it."""


@dataclass(frozen=True, eq=False)
class GpuPhases:
    """Step and phase of every GPU op."""

    step: Ints  # NONE outside of every step
    phase: Ints
    in_replay: Bools  # of a graph launch in the file

    @classmethod
    def of(
        cls, trace: Trace, launches: ServingLaunches, phases: HostPhases, steps: ServingSteps, sampling: Bools
    ) -> GpuPhases:
        """An op has the phase of its launch; what samples in a replay is sampling; copies of other threads are copies.

        An op without a launch in the file is in the step that it starts in, of no phase that could be told.
        """
        ops = trace.gpu_ops
        linked = ops.launch_row != NONE
        at_ns = np.where(linked, follow(trace.launches.start_ns, ops.launch_row), ops.start_ns)
        phase = np.where(linked, phases.phases_at(at_ns), OTHER)
        elsewhere = np.flatnonzero(linked & ~np.isin(ops.launch_row, launches.row))
        for pattern, its_phase in ((COPY_IN, PREPARE), (COPY_OUT, COPY_BACK)):
            phase[elsewhere[matching(trace, pattern, ops.name[elsewhere])]] = its_phase
        phase[sampling & linked] = SAMPLE
        return cls(steps.at(at_ns), phase, follow(trace.launches.is_graph, ops.launch_row, absent=False))


@dataclass(frozen=True, eq=False)
class ServingFigures:
    """[step, phase] of all steps, but where it says [step]."""

    host_ns: Ints
    blocked_ns: Ints
    busy_ns: Ints
    idle_ns: Ints
    launches: Ints
    kernels: Ints
    replays: Ints  # [step] graph launches
    in_replays: dict[str, Ints]  # [step] of the forward what its graph launches did, by field of a ServingPartDoc

    @classmethod
    def of(
        cls, context: Context, launches: ServingLaunches, phases: HostPhases, steps: ServingSteps, sampling: Bools
    ) -> ServingFigures:
        trace, ops, calls, count = context.trace, context.trace.gpu_ops, context.trace.launches, len(steps)
        gpu = GpuPhases.of(trace, launches, phases, steps, sampling)
        rows = np.flatnonzero((ops.device == context.device) & (gpu.step != NONE))
        rows = rows[np.argsort(gpu.step[rows], kind="stable")]
        new_ns = _uncovered_ns(ops.start_ns[rows], ops.end_ns[rows], gpu.step[rows])
        kernels = rows[ops.is_kernel[rows]]
        is_replayed = gpu.in_replay & (gpu.phase == FORWARD)
        call_step, call_phase = steps.at(calls.start_ns), phases.phases_at(calls.start_ns)
        inside = call_step != NONE
        graphs = inside & calls.is_graph
        forward = graphs & (call_phase == FORWARD) & np.isin(np.arange(len(calls)), launches.row)
        blocked = launches.waits.covered_ns(phases.start_ns, phases.end_ns)
        host = _added(count, phases.step, phases.phase, phases.end_ns - phases.start_ns)
        assert np.array_equal(host.sum(axis=1), steps.end_ns - steps.start_ns), "phases add up to the step"
        return cls(
            host_ns=host,
            blocked_ns=_added(count, phases.step, phases.phase, blocked),
            busy_ns=_added(count, gpu.step[rows], gpu.phase[rows], new_ns),
            idle_ns=_idle_ns(context, launches, phases, gpu, steps),
            launches=_added(count, call_step[inside], call_phase[inside], 1),
            kernels=_added(count, gpu.step[kernels], gpu.phase[kernels], 1),
            replays=np.bincount(call_step[graphs], minlength=count),
            in_replays={
                "host_ns": np.bincount(call_step[forward], calls.dur_ns[forward], count).astype(np.int64),
                "gpu_busy_ns": np.bincount(gpu.step[rows], new_ns * is_replayed[rows], count).astype(np.int64),
                "kernels": np.bincount(gpu.step[kernels[is_replayed[kernels]]], minlength=count),
                "launches": np.bincount(call_step[forward], minlength=count),
            },
        )


def _added(steps: int, step: Ints, phase: Ints, values: Ints | int) -> Ints:
    """[step, phase] sums of the values of these rows."""
    found = np.zeros((steps, len(PHASES)), np.int64)
    np.add.at(found, (step, phase), values)
    return found


def _uncovered_ns(start_ns: Ints, end_ns: Ints, step: Ints) -> Ints:
    """How much of each op none before it in its step covers: an instant counts once, for the op that came first."""
    found = np.zeros(len(step), np.int64)
    for rows in np.split(np.arange(len(step)), np.flatnonzero(np.diff(step)) + 1):
        reached = np.maximum.accumulate(np.append(start_ns[rows[:1]], end_ns[rows[:-1]]))
        found[rows] = np.maximum(end_ns[rows] - np.maximum(start_ns[rows], reached), 0)
    return found


def _idle_ns(
    context: Context, launches: ServingLaunches, phases: HostPhases, gpu: GpuPhases, steps: ServingSteps
) -> Ints:
    """[step, phase] idle time of the headline device's gaps, by what the host did before it launched the next op.

    It adds up to that of the gaps. What is left of a gap when the op was launched (dispatch, dependencies, node to
    node) is of the op's own phase, as is a gap before an op that another thread launched. Each part is of the step
    that the host was in, or the op is of; where that one does not count, of the step whose first op came last before
    the gap.
    """
    gaps = context.headline_gaps
    waited = sum((gaps.parts_ns[cause].astype(np.int64) for cause in _NOT_LAUNCHED), np.zeros(len(gaps), np.int64))
    waited = np.where(np.isin(context.trace.gpu_ops.launch_row[gaps.next_op], launches.row), waited, 0)
    until = gaps.start_ns + waited
    before, after = (np.searchsorted(steps.start_ns, times, side="right") - 1 for times in (gaps.start_ns, until))
    cut = np.clip(steps.end_ns[before], gaps.start_ns, until)
    rest = _added(len(gaps), np.arange(len(gaps)), gpu.phase[gaps.next_op], gaps.dur_ns - waited)
    parts = (phases.within(gaps.start_ns, cut), phases.within(cut, until), rest)
    assert np.array_equal(sum(part.sum(axis=1) for part in parts), gaps.dur_ns), "phases add up to the gap"
    otherwise = _last_begun(context.first_op_ns[gaps.device], gaps.start_ns)
    found = np.zeros((len(steps), len(PHASES)), np.int64)
    for part, step in zip(parts, (before, after, gpu.step[gaps.next_op]), strict=True):
        step = np.where(np.isin(step, steps.used), step, otherwise)
        np.add.at(found, step[step >= 0], part[step >= 0])
    return found


def _last_begun(first_op_ns: Ints, times_ns: Ints) -> Ints:
    """The step whose first op came last before each time; NONE where none did."""
    step_of = np.flatnonzero(first_op_ns != NONE)
    order = step_of[np.argsort(first_op_ns[step_of], kind="stable")]
    place = np.searchsorted(first_op_ns[order], times_ns, side="right") - 1
    return np.where(place >= 0, np.append(order, NONE)[place], NONE)
