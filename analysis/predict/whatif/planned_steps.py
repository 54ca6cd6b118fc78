"""Recorded steps as a plan of the simulator: what the host, each launch and each GPU op took by itself.

What held something up in the recording is not part of it: a launch call that waited for a full queue, a blocking call
that waited for the GPU, an op that waited for its stream. Replayed unchanged, the plan gives the recorded step times.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ...facts.steps import Steps
from ...model.trace import NONE, BlockingCalls, Bools, Ints, Launches, Trace
from .simulator import Plan, Schedule, Times

_LATENCY_NS: Final = 4_000.0
_GAP_NS: Final = 1_000.0
"""Where the recording shows none: no op of it found its stream idle, or busy (NVIDIA H200: 3 to 5 µs, about 1 µs)."""

_SOON_NS: Final = 5_000.0
"""From the end of an op to the start of one of another stream that waited for it, at the most (NVIDIA H200: 2 µs)."""

_HELD_UP: Final = 4.0  # times the median of its API from which a launch call is one that waited for the queue


@dataclass(frozen=True, eq=False)
class PlannedSteps:
    """A plan, and the step that each op of it belongs to (0 is the first) and its row of the trace."""

    plan: Plan
    op_step: Ints  # [m]
    op_row: Ints  # [m]

    def step_ns(self, schedule: Schedule) -> Times:
        """From the first op of each step to that of the next; one less than there are steps."""
        starts = np.full(int(self.op_step.max()) + 1, np.inf)
        np.minimum.at(starts, self.op_step, schedule.op_start_ns)
        return np.diff(starts)

    def host_ns(self) -> Times:
        """Host time from the first launch of each step to that of the next, as of one thread that waits for nothing."""
        plan = self.plan
        begins = np.cumsum(plan.before_ns + plan.call_ns) - plan.call_ns
        first = np.flatnonzero(np.diff(self.op_step, prepend=-1) > 0)
        return np.diff(begins[plan.op_call[first]])


def plan_steps(trace: Trace, steps: Steps, chosen: Ints) -> PlannedSteps | None:
    """The chosen steps, consecutive ones, as a plan; None where a step of them has no op whose launch is known."""
    launches, blocking = trace.launches, trace.blocking_calls
    launch_rows = np.flatnonzero(np.isin(steps.launch_step, chosen))
    blocking_rows = np.flatnonzero(np.isin(steps.blocking_step, chosen))
    op_rows = np.flatnonzero(np.isin(steps.op_step, chosen) & (trace.gpu_ops.launch_row != NONE))
    if not set(chosen.tolist()) <= set(steps.op_step[op_rows].tolist()):
        return None
    calls, call_of_launch = _calls(launches, launch_rows, blocking, blocking_rows)
    start, end, thread, api, blocks = calls
    ops = trace.gpu_ops
    op_call = call_of_launch[ops.launch_row[op_rows]]
    order = np.lexsort((ops.start_ns[op_rows], op_call))
    op_rows, op_call = op_rows[order], op_call[order]
    op_start, op_end = ops.start_ns[op_rows].astype(np.float64), ops.end_ns[op_rows].astype(np.float64)
    stream = ops.stream[op_rows] + 1_000_000 * ops.device[op_rows]
    call_start = start[op_call].astype(np.float64)
    after = _dependencies(op_start, op_end, stream, ops.device[op_rows], call_start)
    latency, gap = _waits(op_start, op_end, stream, call_start, after != NONE)
    plan = Plan(
        thread=thread,
        before_ns=_before(start, end, thread),
        call_ns=_inside(start, end, api, blocks, op_call, op_end),
        blocks=blocks,
        op_call=op_call,
        stream=stream,
        op_ns=op_end - op_start,
        latency_ns=latency,
        gap_ns=gap,
        after=after,
        lag_ns=np.where(after == NONE, 0.0, op_start - op_end[after]),
    )
    return PlannedSteps(plan, np.searchsorted(chosen, steps.op_step[op_rows]), op_rows)


def _calls(
    launches: Launches, launch_rows: Ints, blocking: BlockingCalls, blocking_rows: Ints
) -> tuple[tuple[Ints, Ints, Ints, Ints, Bools], Ints]:
    """Start, end, thread, API and blocking of every call by start, and the call that each launch is."""
    tables = ((launches, launch_rows), (blocking, blocking_rows))
    start, end, process, thread, api = (
        np.concatenate([getattr(table, name)[rows] for table, rows in tables])
        for name in ("start_ns", "end_ns", "process", "thread", "api")
    )
    threads = np.unique(np.stack([process, thread]), axis=1, return_inverse=True)[1].ravel()
    blocks = np.arange(len(start)) >= len(launch_rows)
    order = np.argsort(start, kind="stable")
    call_of_launch = np.full(len(launches), NONE)
    call_of_launch[launch_rows] = np.argsort(order, kind="stable")[: len(launch_rows)]
    return (start[order], end[order], threads[order], api[order], blocks[order]), call_of_launch


def _before(start: Ints, end: Ints, thread: Ints) -> Times:
    """Host time since the call before in the same thread ended; of a thread's first since the first call of all."""
    before = np.zeros(len(start))
    for each in np.unique(thread):
        rows = np.flatnonzero(thread == each)
        last = np.concatenate([[start.min()], np.maximum.accumulate(end[rows])[:-1]])
        before[rows] = np.maximum(start[rows] - last, 0)
    return before


def _inside(start: Ints, end: Ints, api: Ints, blocks: Bools, op_call: Ints, op_end: Times) -> Times:
    """Host time inside each call, without what it waited for."""
    took = (end - start).astype(np.float64)
    done = np.full(len(start), -np.inf)
    np.maximum.at(done, op_call, op_end)
    busy_until = np.maximum.accumulate(done)
    took[blocks] = np.maximum(end[blocks] - np.maximum(start[blocks], busy_until[blocks]), 0)
    also_blocks = np.append(blocks[1:] & (start[1:] == start[:-1]), False) & ~blocks
    took[also_blocks] = 0  # a synchronous copy, say: its time is told with the blocking call that it is, too
    launching = ~blocks & ~also_blocks
    for each in np.unique(api[launching]):
        own = launching & (api == each)
        usual = float(np.median(took[own]))
        took[own & (took > _HELD_UP * usual) & (done - start > 1e6)] = usual
    return took


def _dependencies(op_start: Times, op_end: Times, stream: Ints, device: Ints, call_start: Times) -> Ints:
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


def _waits(op_start: Times, op_end: Times, stream: Ints, call_start: Times, depends: Bools) -> tuple[Times, Times]:
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
