"""What a step would take if something were otherwise: its recorded steps, simulated with a knob turned.

The simulation first has to give what it starts from: the recorded step times, the second half of the steps from the
first, and the unprofiled step time of the same process once the host runs as fast as it does without a profiler. What
it is off by there is the range of every prediction.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Final

import msgspec
import numpy as np

from .. import __version__
from .analyses import TraceAnalysis
from .capture import AS_WRITTEN
from .document import ProcessDoc, baseline
from .errors import LaunchscopeError
from .host_submit import host_submit_ns
from .planned_steps import PlannedSteps, plan_steps
from .recordings import middle_first
from .report import Report
from .simulator import Plan, Times, simulate
from .steps import first_op_ns
from .trace import Ints
from .units import duration

_FEWEST: Final = 2  # steps that have one step time between them

LEAST_ERROR: Final = 0.01
"""Share that a prediction may be off by at the least, however well its start was met."""


@dataclass(frozen=True)
class Knobs:
    """What to change; None keeps it."""

    tau_ns: float | None = None  # host time per launch
    host: float | None = None  # the host takes this many times as long
    delay_ns: float | None = None  # further host time before each launch
    gpu: float | None = None  # every GPU op takes this many times as long
    graph: bool = False  # the step is launched as one CUDA graph

    def words(self) -> Iterator[str]:
        """Each knob that is turned."""
        if self.tau_ns is not None:
            yield f"τ = {duration(self.tau_ns)}"
        if self.host is not None:
            yield f"host time × {self.host:g}"
        if self.delay_ns is not None:
            yield f"{duration(self.delay_ns)} more per launch"
        if self.gpu is not None:
            yield f"GPU time × {self.gpu:g}"
        if self.graph:
            yield "one CUDA graph"


class WhatIfDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One prediction and how well its start was met. Times in ns, per step; shares are simulated ÷ real − 1."""

    schema: str = "launchscope.whatif/1"
    launchscope: str
    source: str
    trace: str
    mode: str | None
    steps: int  # that were simulated
    recorded_ns: float  # as profiled
    recorded_error: float
    half_error: float | None  # the second half of the steps from the first; null with fewer than three
    half_difference: float | None  # of the recorded halves themselves
    unprofiled_ns: float | None  # T of the same process; null for a trace of others
    unprofiled_error: float | None
    host_factor: float  # by which the recorded host was scaled to run as without a profiler
    knobs: list[str]
    simulated_ns: float  # no knob turned
    predicted_ns: float  # the knobs turned
    low_ns: float
    high_ns: float


def what_if(report: Report, knobs: Knobs, mode: str | None = None) -> WhatIfDoc:
    """Predict the step time with the knobs turned, from the recording in the middle of the mode's processes.

    ``mode`` is the baseline's unless given. LaunchscopeError where no recording has the steps that it takes.
    """
    start = _start(report, mode)
    planned = start.planned()
    plan = planned.plan.with_host(start.host_factor)
    recorded = float(np.median(start.periods_ns))
    process = start.process
    unprofiled = median(process.samples_ns) if process is not None and process.samples_ns else None
    simulated = _step_ns(planned, plan)
    predicted = _step_ns(planned, _turned(plan, knobs, start, planned.op_step, report))
    recorded_error = _step_ns(planned, planned.plan) / recorded - 1
    unprofiled_error = None if unprofiled is None else simulated / unprofiled - 1
    half_error, half_difference = start.halves() or (None, None)
    error = max(abs(each) for each in (recorded_error, unprofiled_error, half_error, LEAST_ERROR) if each is not None)
    return WhatIfDoc(
        launchscope=__version__,
        source=start.analysis.trace.source.path,
        trace=start.analysis.name,
        mode=start.analysis.mode,
        steps=len(start.steps),
        recorded_ns=recorded,
        recorded_error=recorded_error,
        half_error=half_error,
        half_difference=half_difference,
        unprofiled_ns=unprofiled,
        unprofiled_error=unprofiled_error,
        host_factor=start.host_factor,
        knobs=list(knobs.words()),
        simulated_ns=simulated,
        predicted_ns=predicted,
        low_ns=predicted * (1 - error),
        high_ns=predicted * (1 + error),
    )


@dataclass(frozen=True, eq=False)
class _Start:
    """What the knobs start from: consecutive kept steps of one recording."""

    analysis: TraceAnalysis
    steps: Ints
    process: ProcessDoc | None  # that recorded it; null for a trace of others

    def planned(self, steps: Ints | None = None) -> PlannedSteps:
        """All or some of the steps as recorded."""
        found = plan_steps(self.analysis.trace, self.analysis.steps, self.steps if steps is None else steps)
        assert found is not None, "a start has steps with launches"
        return found

    @cached_property
    def periods_ns(self) -> Times:
        """Recorded step times; the last step has none."""
        device = self.analysis.document.headline_device
        assert device is not None, "a start has GPU ops"
        return np.diff(first_op_ns(self.analysis.trace, self.analysis.steps, device)[self.steps])

    @cached_property
    def recorded_host_ns(self) -> float:
        """N·τ of a step as profiled, over the steps that have a step time."""
        trace, launch_step = self.analysis.trace, self.analysis.steps.launch_step
        return float(np.median(host_submit_ns(trace, launch_step, self.steps[:-1])))

    @property
    def host_factor(self) -> float:
        """By how much the host is faster without the profiler; 1 where that was not measured."""
        if self.process is None or not self.process.host_submit_ns or self.recorded_host_ns <= 0:
            return 1.0
        return median(self.process.host_submit_ns) / self.recorded_host_ns

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
        return _step_ns(planned, planned.plan) / second - 1, float(np.median(self.periods_ns[:half])) / second - 1


def _start(report: Report, mode: str | None) -> _Start:
    profile = report.document.profile
    name = mode or (None if profile is None else baseline(profile.modes))
    processes: list[ProcessDoc] = []
    if profile is None or name is None:
        found = [each for each in report.analyses if mode is None or each.mode == mode]
    elif name in profile.modes:
        recorded = [each for each in report.analyses if (each.mode or AS_WRITTEN) == name and each.trace_pass]
        found = middle_first(recorded, profile.modes[name])
        processes = profile.modes[name].processes
    else:
        raise LaunchscopeError(f"no mode {name} was measured; there are {', '.join(profile.modes)}")
    for analysis in found:
        steps = _longest_run(analysis.steps.kept_rows)
        if len(steps) >= _FEWEST and plan_steps(analysis.trace, analysis.steps, steps) is not None:
            return _Start(analysis, steps, next((p for p in processes if p.repeat == analysis.repeat), None))
    raise LaunchscopeError(
        f"no recording{f' of mode {name}' if name else ''} holds {_FEWEST} steps in a row with their launches: steps "
        "come from prof.step(), from annotations named by --step-regex, or from a profile of launchscope"
    )


def _longest_run(steps: Ints) -> Ints:
    """The longest run of consecutive steps; the first of several."""
    runs = np.split(steps, np.flatnonzero(np.diff(steps) != 1) + 1)
    return max(runs, key=len)


def _turned(plan: Plan, knobs: Knobs, start: _Start, op_step: Ints, report: Report) -> Plan:
    """The plan with the knobs turned."""
    if knobs.host is not None:
        plan = plan.with_host(knobs.host)
    if knobs.tau_ns is not None:
        plan = plan.with_host(knobs.tau_ns / start.tau_ns)
    if knobs.delay_ns is not None:
        plan = replace(plan, before_ns=plan.before_ns + np.where(plan.blocks, 0.0, knobs.delay_ns))
    if knobs.gpu is not None:
        plan = replace(plan, op_ns=plan.op_ns * knobs.gpu)
    if knobs.graph:
        plan = _as_graph(plan, op_step, report)
    return plan


def _as_graph(plan: Plan, op_step: Ints, report: Report) -> Plan:
    """One launch per step, its ops ν apart. LaunchscopeError without a calibration."""
    profile = report.document.profile
    costs = None if profile is None else profile.calibration
    if costs is None or None in (costs.node_gap_ns, costs.replay_gap_ns, costs.graph_launch_ns):
        raise LaunchscopeError("--graph takes what graphs cost on the machine: profile after launchscope calibrate")
    assert costs.node_gap_ns is not None
    assert costs.replay_gap_ns is not None
    assert costs.graph_launch_ns is not None
    steps = len(np.unique(op_step))
    is_first = np.diff(op_step, prepend=-1) > 0
    nodes = len(op_step) / steps
    launch_ns = costs.graph_launch_ns + (costs.graph_launch_per_node_ns or 0.0) * nodes
    return replace(
        plan,
        thread=np.zeros(steps, np.int64),
        before_ns=np.zeros(steps),
        call_ns=np.full(steps, launch_ns),
        blocks=np.zeros(steps, np.bool_),
        op_call=op_step,
        stream=np.zeros(len(op_step), np.int64),
        latency_ns=np.zeros(len(op_step)),
        gap_ns=np.where(is_first, costs.replay_gap_ns, costs.node_gap_ns),
    )


def _step_ns(planned: PlannedSteps, plan: Plan) -> float:
    return float(np.median(planned.step_ns(simulate(plan))))
