"""Recorded steps to start a prediction from, as they were recorded and as they run without the profiler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Final

import msgspec
import numpy as np

from ...facts.trace_times import host_submit_ns
from ...figures.analyses import TraceAnalysis
from ...figures.observer import KERNEL_STRETCH_NS
from ...model.capture import Calibration
from ...model.document import CalibrationDoc, ProcessDoc, baseline
from ...model.errors import LaunchscopeError
from ...model.trace import NONE, Ints
from ...profile.select import TIMES, of_mode, ranked
from ...report import Report
from ...step_model.bound import graph_launch_cost_ns
from .planned_steps import PlannedSteps, plan_steps
from .simulator import Plan, Times, simulate

_FEWEST: Final = 2  # steps that have one step time between them

_PACES: Final = (0.1, 2.0)  # of a host without a profiler, as factors of its recorded times
_FINEST_PACE: Final = 1.001


@dataclass(frozen=True, eq=False)
class RecordedStart:
    """What the knobs start from: consecutive kept steps of one recording."""

    analysis: TraceAnalysis
    steps: Ints
    process: ProcessDoc | None  # that recorded it; null for a trace of others
    costs: CalibrationDoc | None  # of graphs on its machine

    def planned(self, steps: Ints | None = None) -> PlannedSteps:
        """All or some of the steps as recorded."""
        found = plan_steps(self.analysis.trace, self.analysis.steps, self.steps if steps is None else steps)
        assert found is not None, "a start has steps with launches"
        return found

    @cached_property
    def periods_ns(self) -> Times:
        """Recorded step times; the last step has none."""
        context = self.analysis.context
        return np.diff(context.first_op_ns[context.device][self.steps])

    @cached_property
    def recorded_host_ns(self) -> float:
        """N·τ of a step as profiled, over the steps that have a step time."""
        trace, launch_step = self.analysis.trace, self.analysis.steps.launch_step
        return float(np.median(host_submit_ns(trace, launch_step, self.steps[:-1])))

    @cached_property
    def replay_ns(self) -> tuple[float, float]:
        """Host time of a step inside graph launches: as recorded, and as it is without the profiler."""
        trace, steps = self.analysis.trace, self.analysis.steps
        rows = np.flatnonzero(trace.launches.is_graph & np.isin(steps.launch_step, self.steps[:-1]))
        recorded = float(trace.launches.dur_ns[rows].sum()) / (len(self.steps) - 1)
        nodes = np.bincount(trace.gpu_ops.launch_row[trace.gpu_ops.launch_row != NONE], minlength=len(trace.launches))
        costs = None if self.costs is None else Calibration(**msgspec.structs.asdict(self.costs))
        without = [None if costs is None else graph_launch_cost_ns(int(count), costs) for count in nodes[rows]]
        if None in without or self.process is None:
            return recorded, recorded
        return recorded, min(recorded, sum(each or 0.0 for each in without) / (len(self.steps) - 1))

    @cached_property
    def host_factor(self) -> float:
        """By how much the host is faster without the profiler, graph launches apart; 1 where that was not measured.

        A step that waits for the GPU takes as long to submit as to run, so its host's pace is the one at which the
        simulated step takes that long. Alone, into an empty queue, submitting may take longer than T; back to back the
        host can't be slower than the steps are.
        """
        if self.process is None or not self.process.host_submit_ns:
            return 1.0
        submit_ns = min(median(times) for times in (self.process.host_submit_ns, self.process.samples_ns) if times)
        planned = self.planned()
        if planned.plan.blocks.any():
            return _at_which(lambda factor: median_step_ns(planned, self.paced(planned, factor)), submit_ns)
        in_replays, in_replays_without = self.replay_ns
        recorded, without = float(np.median(planned.host_ns())) - in_replays, submit_ns - in_replays_without
        return without / recorded if recorded > 0 and without > 0 else 1.0

    def without_profiler(self, planned: PlannedSteps) -> Plan:
        """The steps as they run when nothing records them; those of a trace of others as they are."""
        return planned.plan if self.process is None else self.paced(planned, self.host_factor)

    def paced(self, planned: PlannedSteps, host_factor: float) -> Plan:
        """The steps on such a host, graph launches as they were measured, nodes without what CUPTI adds to each."""
        launches, launch_row = self.analysis.trace.launches, self.analysis.trace.gpu_ops.launch_row
        is_node = launches.is_graph[launch_row[planned.op_row]]
        plan = planned.plan.with_host(host_factor)
        in_replays, without = self.replay_ns
        is_replay = np.zeros(len(plan.thread), np.bool_)
        is_replay[plan.op_call[is_node]] = True
        faster = without / in_replays if in_replays else 1.0
        call_ns = np.where(is_replay, planned.plan.call_ns * faster, plan.call_ns)
        sooner = (planned.plan.call_ns - call_ns)[plan.op_call]
        return replace(
            plan,
            call_ns=call_ns,
            latency_ns=np.where(is_node, np.maximum(plan.latency_ns - sooner, 0.0), plan.latency_ns),
            op_ns=np.where(is_node, plan.op_ns - np.minimum(KERNEL_STRETCH_NS, plan.op_ns / 2), plan.op_ns),
        )

    @property
    def tau_ns(self) -> float:
        """Host time per launch without the profiler, as τ_step of the report."""
        steps = self.analysis.steps
        launches = float(np.median(steps.count_kept(steps.launch_step)))
        return self.recorded_host_ns * self.host_factor / launches

    def halves(self) -> tuple[float, float] | None:
        """Simulated first half ÷ recorded second − 1, and the same of the recorded ones; None with too few steps."""
        half = len(self.periods_ns) // 2
        if not half:
            return None
        second = float(np.median(self.periods_ns[half:]))
        planned = self.planned(self.steps[: half + 1])
        return median_step_ns(planned, planned.plan) / second - 1, float(np.median(self.periods_ns[:half])) / second - 1


def _at_which(step_ns: Callable[[float], float], wanted_ns: float) -> float:
    """The host factor at which a step takes so long, within 0.1 %; an end of the range where none does."""
    low, high = _PACES
    while high / low > _FINEST_PACE:
        middle = (low * high) ** 0.5
        low, high = (middle, high) if step_ns(middle) < wanted_ns else (low, middle)
    return low


def find_start(report: Report, mode: str | None) -> RecordedStart:
    profile = report.document.profile
    name = mode or (None if profile is None else baseline(profile.modes))
    processes: list[ProcessDoc] = []
    if profile is None or name is None:
        found = list(report.told) if mode is None else []
    elif name in profile.modes:
        found = ranked(of_mode(report.told, name), TIMES, profile.modes[name])
        processes = profile.modes[name].processes
    else:
        raise LaunchscopeError(f"no mode {name} was measured; there are {', '.join(profile.modes)}")
    for analysis in found:
        steps = _longest_run(analysis.steps.kept_rows)
        if len(steps) >= _FEWEST and plan_steps(analysis.trace, analysis.steps, steps) is not None:
            process = next((p for p in processes if p.repeat == analysis.repeat), None)
            return RecordedStart(analysis, steps, process, None if profile is None else profile.calibration)
    raise LaunchscopeError(
        f"no recording{f' of mode {name}' if name else ''} holds {_FEWEST} steps in a row with their launches: steps "
        "come from prof.step(), from annotations named by --step-regex, or from a profile of launchscope"
    )


def _longest_run(steps: Ints) -> Ints:
    """The longest run of consecutive steps; the first of several."""
    runs = np.split(steps, np.flatnonzero(np.diff(steps) != 1) + 1)
    return max(runs, key=len)


def median_step_ns(planned: PlannedSteps, plan: Plan) -> float:
    """The simulated step time of a plan of these steps."""
    return float(np.median(planned.step_ns(simulate(plan))))
