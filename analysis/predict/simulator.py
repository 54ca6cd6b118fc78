"""An event-driven simulator: host threads that submit work, and streams that run it in order.

A launch call starts when its thread gets to it and the launch queue has room. Its GPU ops start when the launch has
reached the GPU (latency), when the op before them in their stream has ended (gap), and when the op of another stream
that they wait for has. A blocking call ends when everything submitted before it is done. Nothing else takes time.
"""

from __future__ import annotations

import heapq
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..model.trace import NONE, Bools, Ints, Reals

QUEUE: Final = 1_024
"""Launches that a host may be ahead of the GPU (NVIDIA H200, CUDA 13.0); the next one waits."""


@dataclass(frozen=True, eq=False)
class Plan:
    """What is to be done: e host calls, in order within each thread, and m GPU ops in the order of their calls."""

    thread: Ints  # [e] host thread of each call
    before_ns: Reals  # [e] host time from the end of the call before it in its thread
    call_ns: Reals  # [e] inside the call where nothing holds it up; of a blocking call after what it waits for
    blocks: Bools  # [e] waits for everything submitted before
    op_call: Ints  # [m] call that submits each op, ascending
    stream: Ints  # [m]
    op_ns: Reals  # [m]
    latency_ns: Reals  # [m] from the start of its call to the op's start at the earliest
    gap_ns: Reals  # [m] from the end of the op before it in its stream to the op's start at the earliest
    after: Ints  # [m] op of another stream, submitted before, that has to end first; NONE without one
    lag_ns: Reals  # [m] from the end of that op to the op's start at the earliest
    queue: int = QUEUE

    def with_host(self, factor: float) -> Plan:
        """The same work on a host that takes this many times as long."""
        return replace(self, before_ns=self.before_ns * factor, call_ns=self.call_ns * factor)


@dataclass(frozen=True, eq=False)
class Schedule:
    """When everything ran, in ns since the first thread began."""

    call_start_ns: Reals  # [e]
    call_end_ns: Reals  # [e]
    op_start_ns: Reals  # [m]
    op_end_ns: Reals  # [m]

    @property
    def makespan_ns(self) -> float:
        """Until the last call and the last op have ended; 0 for nothing."""
        return max(float(self.call_end_ns.max(initial=0.0)), float(self.op_end_ns.max(initial=0.0)))


def simulate(plan: Plan) -> Schedule:
    """Run the plan. Of two threads the one whose next call starts earlier goes first."""
    calls, ops = len(plan.thread), len(plan.op_call)
    call_start, call_end = [0.0] * calls, [0.0] * calls
    op_start, op_end = [0.0] * ops, [0.0] * ops
    before, inside, blocks = plan.before_ns.tolist(), plan.call_ns.tolist(), plan.blocks.tolist()
    stream, took, latency = plan.stream.tolist(), plan.op_ns.tolist(), plan.latency_ns.tolist()
    gap, after, lag = plan.gap_ns.tolist(), plan.after.tolist(), plan.lag_ns.tolist()
    first = np.searchsorted(plan.op_call, np.arange(calls + 1)).tolist()
    of_thread = {int(each): np.flatnonzero(plan.thread == each).tolist() for each in np.unique(plan.thread)}
    place = dict.fromkeys(of_thread, 0)
    ready = [(before[rows[0]], thread) for thread, rows in of_thread.items()]
    heapq.heapify(ready)
    stream_end: dict[int, float] = {}
    launched: list[float] = []  # when the first op of each launch started
    busy_until = 0.0
    while ready:
        now, thread = heapq.heappop(ready)
        call = of_thread[thread][place[thread]]
        its_ops = range(first[call], first[call + 1])
        if its_ops and len(launched) >= plan.queue:
            now = max(now, launched[-plan.queue])
        call_start[call] = now
        for op in its_ops:
            start = now + latency[op]
            last = stream_end.get(stream[op])
            if last is not None and last + gap[op] > start:
                start = last + gap[op]
            if after[op] != NONE and op_end[after[op]] + lag[op] > start:
                start = op_end[after[op]] + lag[op]
            op_start[op] = start
            op_end[op] = stream_end[stream[op]] = end = start + took[op]
            busy_until = max(busy_until, end)
        if its_ops:
            launched.append(op_start[its_ops[0]])
        now = (max(now, busy_until) if blocks[call] else now) + inside[call]
        call_end[call] = now
        place[thread] += 1
        if place[thread] < len(of_thread[thread]):
            heapq.heappush(ready, (now + before[of_thread[thread][place[thread]]], thread))
    return Schedule(*(np.array(each) for each in (call_start, call_end, op_start, op_end)))
