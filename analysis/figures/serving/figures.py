"""The figures of serving steps, step by step and phase by phase."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ...facts.context import Context
from ...model.document import PHASES
from ...model.intervals import Intervals
from ...model.trace import NONE, Bools, Ints
from .gpu_phases import busy_ns, gpu_phases, idle_ns
from .host_phases import FORWARD, HostPhases
from .launches import ServingLaunches


@dataclass(frozen=True, eq=False)
class ServingRanges:
    """The n steps' host ranges, each up to the next one, and the rows of those that count."""

    start_ns: Ints
    end_ns: Ints
    used: Ints
    first_op_ns: Ints
    has_period: Bools

    @classmethod
    def of(cls, context: Context) -> ServingRanges | None:
        """None where no step counts."""
        steps, first = context.steps, context.first_op_ns[context.device]
        periods = context.period_ns[context.device] != NONE
        used = np.flatnonzero(periods) if periods.any() else steps.kept_rows
        if not len(used):
            return None
        last = int(steps.end_ns[-1])
        return cls(steps.start_ns, np.append(steps.start_ns[1:], last), used, first, periods)

    def step_at(self, times_ns: Ints) -> Ints:
        """The step at each time; NONE outside of every step."""
        step = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        return np.where((step >= 0) & (times_ns < self.end_ns[step]), step, NONE)


@dataclass(frozen=True, eq=False)
class ServingFigures:
    """[step, phase] of all steps, but where it says [step]."""

    host_ns: Ints
    blocked_ns: Ints
    busy_ns: Ints
    idle_ns: Ints
    launches: Ints
    replay_busy_ns: Ints
    replay_host_ns: Ints  # [step] inside graph launches of the forward
    replays: Ints  # [step] graph launches
    forward_replays: Ints  # [step] those of the forward
    kernels: Ints
    replay_kernels: Ints

    @classmethod
    def of(
        cls,
        context: Context,
        launches: ServingLaunches,
        phases: HostPhases,
        ranges: ServingRanges,
        sampling: Bools,
    ) -> ServingFigures:
        trace, device, steps = context.trace, context.device, len(ranges.start_ns)
        gpu = gpu_phases(trace, launches, phases, ranges.start_ns, ranges.end_ns, sampling)
        work, replayed = busy_ns(trace, gpu, device, steps)
        waits = Intervals(launches.waits_ns[:, 0], launches.waits_ns[:, 1])
        calls = trace.launches
        call_step = ranges.step_at(calls.start_ns)
        call_inside = call_step != NONE
        call_phase = phases.phases_at(calls.start_ns)
        is_forward = (
            call_inside & calls.is_graph & (call_phase == FORWARD) & np.isin(np.arange(len(calls)), launches.row)
        )
        kernels = trace.gpu_ops.is_kernel & (gpu.op_step != NONE) & (trace.gpu_ops.device == device)
        host = np.zeros((steps, len(PHASES)), np.int64)
        blocked = np.zeros_like(host)
        np.add.at(host, (phases.step, phases.phase), phases.end_ns - phases.start_ns)
        np.add.at(blocked, (phases.step, phases.phase), waits.covered_ns(phases.start_ns, phases.end_ns))
        assert np.array_equal(host.sum(axis=1), ranges.end_ns - ranges.start_ns), "phases add up to the step"
        return cls(
            host_ns=host,
            blocked_ns=blocked,
            busy_ns=work,
            idle_ns=idle_ns(
                context,
                launches,
                phases,
                gpu,
                (ranges.start_ns, ranges.end_ns),
                np.isin(np.arange(steps), ranges.used),
            ),
            launches=_counts(call_step, call_phase, call_inside, steps),
            replay_busy_ns=replayed,
            replay_host_ns=np.bincount(call_step[is_forward], calls.dur_ns[is_forward], steps).astype(np.int64),
            replays=np.bincount(call_step[call_inside & calls.is_graph], minlength=steps),
            forward_replays=np.bincount(call_step[is_forward], minlength=steps),
            kernels=_counts(gpu.op_step, gpu.op_phase, kernels, steps),
            replay_kernels=_counts(gpu.op_step, gpu.op_phase, kernels & gpu.in_replay, steps),
        )


def _counts(step: Ints, phase: Ints, chosen: Bools, steps: int) -> Ints:
    """[step, phase] how many of the chosen rows."""
    found = np.zeros((steps, len(PHASES)), np.int64)
    np.add.at(found, (step[chosen], phase[chosen]), 1)
    return found
