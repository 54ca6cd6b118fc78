"""Recorded steps that a prediction starts from: as a plan of the simulator, and as they run without the profiler.

A plan has what the host, each launch and each GPU op took by itself. What held something up in the recording is not
part of it: a launch call that waited for a full queue, a blocking call that waited for the GPU, an op that waited for
its stream. Replayed unchanged, the plan gives the recorded step times.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from typing import Final

import numpy as np

from ..facts.context import Context
from ..facts.steps import Steps
from ..facts.trace_times import host_submit_ns
from ..faults.checks import unreliable, voided
from ..figures.analyses import TraceAnalysis
from ..figures.observer import KERNEL_STRETCH_NS
from ..model.document import CalibrationDoc, ProcessDoc, baseline
from ..model.errors import LaunchscopeError
from ..model.trace import NONE, Bools, Ints, Reals, Trace, Void
from ..profile.select import TIMES, of_mode, ranked
from ..report import Report
from ..step_model import graph_launch_cost_ns
from .simulator import Plan, Schedule, simulate

_LATENCY_NS: Final = 4_000.0
_GAP_NS: Final = 1_000.0
"""Where the recording shows none: no op of it found its stream idle, or busy (NVIDIA H200: 3 to 5 µs, about 1 µs)."""

_SOON_NS: Final = 5_000.0
"""From the end of an op to the start of one of another stream that waited for it, at the most (NVIDIA H200: 2 µs)."""

_HELD_UP: Final = 4.0  # times the median of its API from which a launch call is one that waited for the queue
_FEWEST: Final = 2  # steps that have one step time between them
_PACES: Final = (0.1, 2.0)  # of a host without a profiler, as factors of its recorded times
_FINEST_PACE: Final = 1.001


@dataclass(frozen=True, eq=False)
class PlannedSteps:
    """A plan, and the step that each op of it belongs to (0 is the first) and its row of the trace."""

    plan: Plan
    op_step: Ints  # [m]
    op_row: Ints  # [m]

    def step_ns(self, schedule: Schedule) -> Reals:
        """From the first op of each step to that of the next; one less than there are steps."""
        starts = np.full(int(self.op_step.max()) + 1, np.inf)
        np.minimum.at(starts, self.op_step, schedule.op_start_ns)
        return np.diff(starts)

    def simulated_ns(self, plan: Plan | None = None) -> float:
        """The median step time of a plan of these steps, their own unless given."""
        return float(np.median(self.step_ns(simulate(plan or self.plan))))

    def host_ns(self) -> Reals:
        """Host time from the first launch of each step to that of the next, as of one thread that waits for nothing."""
        plan = self.plan
        begins = np.cumsum(plan.before_ns + plan.call_ns) - plan.call_ns
        first = np.flatnonzero(np.diff(self.op_step, prepend=-1) > 0)
        return np.diff(begins[plan.op_call[first]])


@dataclass(frozen=True, eq=False)
class _Calls:
    """[e] launches and blocking calls by start."""

    start_ns: Ints
    end_ns: Ints
    thread: Ints
    api: Ints
    blocks: Bools


def plan_steps(trace: Trace, steps: Steps, chosen: Ints) -> PlannedSteps | None:
    """The chosen steps, consecutive ones, as a plan; None where a step of them has no op whose launch is known."""
    ops = trace.gpu_ops
    op_rows = np.flatnonzero(np.isin(steps.op_step, chosen) & (ops.launch_row != NONE))
    if not set(chosen.tolist()) <= set(steps.op_step[op_rows].tolist()):
        return None
    calls, call_of_launch = _calls(trace, steps, chosen)
    op_call = call_of_launch[ops.launch_row[op_rows]]
    order = np.lexsort((ops.start_ns[op_rows], op_call))
    op_rows, op_call = op_rows[order], op_call[order]
    op_start, op_end = ops.start_ns[op_rows].astype(np.float64), ops.end_ns[op_rows].astype(np.float64)
    stream = ops.stream[op_rows] + 1_000_000 * ops.device[op_rows]
    call_start = calls.start_ns[op_call].astype(np.float64)
    after = _dependencies(op_start, op_end, stream, ops.device[op_rows], call_start)
    latency, gap = _waits(op_start, op_end, stream, call_start, after != NONE)
    plan = Plan(
        thread=calls.thread,
        before_ns=_before_ns(calls),
        call_ns=_inside_ns(calls, op_call, op_end),
        blocks=calls.blocks,
        op_call=op_call,
        stream=stream,
        op_ns=op_end - op_start,
        latency_ns=latency,
        gap_ns=gap,
        after=after,
        lag_ns=np.where(after == NONE, 0.0, op_start - op_end[after]),
    )
    return PlannedSteps(plan, np.searchsorted(chosen, steps.op_step[op_rows]), op_rows)


def _calls(trace: Trace, steps: Steps, chosen: Ints) -> tuple[_Calls, Ints]:
    """The calls of the chosen steps, and the call that each launch is."""
    launch_rows = np.flatnonzero(np.isin(steps.launch_step, chosen))
    blocking_rows = np.flatnonzero(np.isin(steps.blocking_step, chosen))
    tables = ((trace.launches, launch_rows), (trace.blocking_calls, blocking_rows))
    start, end, process, thread, api = (
        np.concatenate([getattr(table, name)[rows] for table, rows in tables])
        for name in ("start_ns", "end_ns", "process", "thread", "api")
    )
    threads = np.unique(np.stack([process, thread]), axis=1, return_inverse=True)[1].ravel()
    blocks = np.arange(len(start)) >= len(launch_rows)
    order = np.argsort(start, kind="stable")
    call_of_launch = np.full(len(trace.launches), NONE)
    call_of_launch[launch_rows] = np.argsort(order, kind="stable")[: len(launch_rows)]
    return _Calls(start[order], end[order], threads[order], api[order], blocks[order]), call_of_launch


def _before_ns(calls: _Calls) -> Reals:
    """Host time since the call before in the same thread ended; of a thread's first since the first call of all."""
    before = np.zeros(len(calls.thread))
    for each in np.unique(calls.thread):
        rows = np.flatnonzero(calls.thread == each)
        last = np.concatenate([[calls.start_ns.min()], np.maximum.accumulate(calls.end_ns[rows])[:-1]])
        before[rows] = np.maximum(calls.start_ns[rows] - last, 0)
    return before


def _inside_ns(calls: _Calls, op_call: Ints, op_end: Reals) -> Reals:
    """Host time inside each call, without what it waited for."""
    start, end, blocks = calls.start_ns, calls.end_ns, calls.blocks
    took = (end - start).astype(np.float64)
    done = np.full(len(start), -np.inf)
    np.maximum.at(done, op_call, op_end)
    busy_until = np.maximum.accumulate(done)
    took[blocks] = np.maximum(end[blocks] - np.maximum(start[blocks], busy_until[blocks]), 0)
    also_blocks = np.append(blocks[1:] & (start[1:] == start[:-1]), False) & ~blocks
    took[also_blocks] = 0  # a synchronous copy, say: its time is told with the blocking call that it is, too
    launching = ~blocks & ~also_blocks
    for each in np.unique(calls.api[launching]):
        alike = launching & (calls.api == each)
        usual = float(np.median(took[alike]))
        took[alike & (took > _HELD_UP * usual) & (done - start > 1e6)] = usual
    return took


def _dependencies(op_start: Reals, op_end: Reals, stream: Ints, device: Ints, call_start: Reals) -> Ints:
    """The op of another stream that each op waited for, NONE for most.

    No recording says so. It is an op submitted before that ended just before this one started, later than the op
    before this one in its own stream and than its launch took to arrive.
    """
    after = np.full(len(op_start), NONE)
    for each in np.unique(device):
        rows = np.flatnonzero(device == each)
        if len(np.unique(stream[rows])) < 2:
            continue
        by_end = rows[np.argsort(op_end[rows], kind="stable")]
        last = np.searchsorted(op_end[by_end], op_start[rows], side="right") - 1
        candidate = np.where(last >= 0, by_end[np.maximum(last, 0)], NONE)
        waited = (candidate != NONE) & (stream[candidate] != stream[rows]) & (candidate < rows)
        waited &= op_start[rows] - op_end[candidate] <= _SOON_NS
        waited &= op_end[candidate] > call_start[rows] + _LATENCY_NS
        after[rows[waited]] = candidate[waited]
    return after


def _waits(op_start: Reals, op_end: Reals, stream: Ints, call_start: Reals, depends: Bools) -> tuple[Reals, Reals]:
    """Latency and gap of each op: as seen where it was that which held the op up, else as usual."""
    latency = op_start - call_start
    last_end = np.full(len(op_start), -np.inf)
    for each in np.unique(stream):
        rows = np.flatnonzero(stream == each)
        last_end[rows[1:]] = op_end[rows[:-1]]
    idle = (last_end <= call_start) & ~depends
    usual = float(np.median(latency[idle])) if idle.any() else min(float(latency.min()), _LATENCY_NS)
    queued = (call_start + usual < last_end) & ~depends
    gap = op_start - last_end
    usual_gap = float(np.median(gap[queued])) if queued.any() else _GAP_NS
    own_latency = np.where(queued | depends, np.minimum(usual, latency), latency)
    own_gap = np.where(queued, gap, np.minimum(usual_gap, gap))
    return own_latency, np.where(np.isfinite(own_gap), own_gap, 0.0)


@dataclass(frozen=True, eq=False)
class RecordedStart:
    """What the knobs start from: consecutive kept steps of one recording."""

    analysis: TraceAnalysis
    steps: Ints
    process: ProcessDoc | None  # that recorded it; null for a trace of others
    costs: CalibrationDoc | None  # of graphs on its machine

    @cached_property
    def planned(self) -> PlannedSteps:
        """The steps as recorded."""
        return self._planned(self.steps)

    def _planned(self, steps: Ints) -> PlannedSteps:
        found = plan_steps(self.analysis.context.trace, self.analysis.context.steps, steps)
        assert found is not None, "a start has steps with launches"
        return found

    @cached_property
    def periods_ns(self) -> Reals:
        """Recorded step times; the last step has none."""
        context = self.analysis.context
        return np.diff(context.first_op_ns[context.device][self.steps])

    @cached_property
    def replay_ns(self) -> tuple[float, float]:
        """Host time of a step inside graph launches: as recorded, and as it is without the profiler."""
        launches, launch_row = self.analysis.context.trace.launches, self.analysis.context.trace.gpu_ops.launch_row
        rows = np.flatnonzero(launches.is_graph & np.isin(self.analysis.context.steps.launch_step, self.steps[:-1]))
        recorded = float(launches.dur_ns[rows].sum()) / (len(self.steps) - 1)
        if self.costs is None or self.process is None:
            return recorded, recorded
        nodes = np.bincount(launch_row[launch_row != NONE], minlength=len(launches))
        without = [graph_launch_cost_ns(count, self.costs) for count in nodes[rows].tolist()]
        known = [ns for ns in without if ns is not None]
        return recorded, min(recorded, sum(known) / (len(self.steps) - 1)) if len(known) == len(without) else recorded

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
        if not self.planned.plan.blocks.any():
            in_replays, in_replays_without = self.replay_ns
            recorded, without = float(np.median(self.planned.host_ns())) - in_replays, submit_ns - in_replays_without
            return without / recorded if recorded > 0 and without > 0 else 1.0
        low, high = _PACES  # within 0.1 %; an end of the range where no pace is as long
        while high / low > _FINEST_PACE:
            middle = (low * high) ** 0.5
            is_shorter = self.planned.simulated_ns(self._paced(middle)) < submit_ns
            low, high = (middle, high) if is_shorter else (low, middle)
        return low

    @cached_property
    def without_profiler(self) -> Plan:
        """The steps as they run when nothing records them; those of a trace of others as they are."""
        return self.planned.plan if self.process is None else self._paced(self.host_factor)

    def _paced(self, host_factor: float) -> Plan:
        """The steps on such a host, graph launches as they were measured, nodes without what CUPTI adds to each."""
        launches, launch_row = self.analysis.context.trace.launches, self.analysis.context.trace.gpu_ops.launch_row
        recorded = self.planned.plan
        is_node = launches.is_graph[launch_row[self.planned.op_row]]
        plan = recorded.with_host(host_factor)
        in_replays, without = self.replay_ns
        is_replay = np.zeros(len(plan.thread), np.bool_)
        is_replay[plan.op_call[is_node]] = True
        call_ns = np.where(is_replay, recorded.call_ns * (without / in_replays if in_replays else 1.0), plan.call_ns)
        sooner = (recorded.call_ns - call_ns)[plan.op_call]
        return replace(
            plan,
            call_ns=call_ns,
            latency_ns=np.where(is_node, np.maximum(plan.latency_ns - sooner, 0.0), plan.latency_ns),
            op_ns=np.where(is_node, plan.op_ns - np.minimum(KERNEL_STRETCH_NS, plan.op_ns / 2), plan.op_ns),
        )

    @property
    def tau_ns(self) -> float:
        """Host time per launch without the profiler, as τ_step of the report."""
        trace, steps = self.analysis.context.trace, self.analysis.context.steps
        recorded = float(np.median(host_submit_ns(trace, steps.launch_step, self.steps[:-1])))
        return recorded * self.host_factor / float(np.median(steps.count_kept(steps.launch_step)))

    def halves(self) -> tuple[float, float] | None:
        """Simulated first half ÷ recorded second − 1, and the same of the recorded ones; None with too few steps."""
        half = len(self.periods_ns) // 2
        if not half:
            return None
        first, second = (float(np.median(part)) for part in (self.periods_ns[:half], self.periods_ns[half:]))
        return self._planned(self.steps[: half + 1]).simulated_ns() / second - 1, first / second - 1


def _unfit(context: Context) -> str | None:
    """Why nothing can be predicted from a recording; None where it can."""
    if context.trace.whole_replays.any():
        return "graph replays were recorded as a whole, so what runs in them is not known"
    return next(iter(unreliable(context)), None) or voided(context, Void.WORK)


def _most_work_first(told: Sequence[TraceAnalysis]) -> list[TraceAnalysis]:
    """As given; of one file that merges several processes the one first that works most, as the others wait for it."""
    paths = {analysis.context.trace.source.path for analysis in told}
    if len(told) < 2 or len(paths) > 1:
        return list(told)
    return sorted(told, key=lambda analysis: -float(np.sum(analysis.context.busy_ns)))


def find_start(report: Report, mode: str | None) -> RecordedStart:
    """Of the mode, the baseline's unless given; LaunchscopeError where no recording has steps in a row."""
    profile = report.document.profile
    name = mode or (None if profile is None else baseline(profile.modes))
    processes: list[ProcessDoc] = []
    if profile is None or name is None:
        found = _most_work_first(report.told) if mode is None else []
    elif name in profile.modes:
        found = ranked(of_mode(report.told, name), TIMES, profile.modes[name])
        processes = profile.modes[name].processes
    else:
        raise LaunchscopeError(f"no mode {name} was measured; there are {', '.join(profile.modes)}")
    why: list[str] = []
    for analysis in found:
        if (reason := _unfit(analysis.context)) is not None:
            why.append(f"{analysis.context.name}: {reason}")
            continue
        kept = analysis.context.steps.kept_rows
        steps = max(np.split(kept, np.flatnonzero(np.diff(kept) != 1) + 1), key=len)  # the longest run
        if len(steps) >= _FEWEST and plan_steps(analysis.context.trace, analysis.context.steps, steps) is not None:
            process = next((p for p in processes if p.repeat == analysis.context.repeat), None)
            return RecordedStart(analysis, steps, process, None if profile is None else profile.calibration)
    if why:
        raise LaunchscopeError(f"no prediction from a recording that can't be trusted: {'; '.join(why)}")
    raise LaunchscopeError(
        f"no recording{f' of mode {name}' if name else ''} holds {_FEWEST} steps in a row with their launches: steps "
        "come from prof.step(), from annotations named by --step-regex, or from a profile of launchscope"
    )
