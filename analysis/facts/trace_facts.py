"""What of a trace's counts, warnings and reliability rests on: its links, its losses, its odd GPU ops."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..model.columns import follow
from ..model.intervals import threads
from ..model.trace import NONE, Bools, HostKind, Ints, Trace
from .odd_ops import OddDurations, Overlaps, duplicates, odd_durations, same_stream_overlaps
from .steps import Steps


@dataclass(frozen=True, eq=False)
class TraceFacts:
    """Facts that counts, warnings and reasons share."""

    gpu_ops: int
    linked: Bools  # [gpu_ops]
    is_early: Bools  # [gpu_ops] starts before its launch call does
    kept: Bools  # [gpu_ops] in a kept step, or any where there are no steps
    overlaps: Overlaps
    odd_durations: OddDurations
    twice: Bools  # [gpu_ops] an earlier record says the same
    lost_calls: Ints  # rows of host_ops: launch calls in kept steps without a GPU op
    cut_calls: Ints  # those after every launch that has its ops: the recording stopped before the GPU was done
    launches_kept: int

    @classmethod
    def of(cls, trace: Trace, steps: Steps) -> TraceFacts:
        """Look at a trace with its steps."""
        ops, launches = trace.gpu_ops, trace.launches
        linked = ops.launch_row != NONE
        launch_start = follow(launches.start_ns, ops.launch_row)
        lost = _lost_calls(trace, steps)
        overlaps = same_stream_overlaps(trace)
        return cls(
            gpu_ops=len(ops),
            linked=linked,
            is_early=linked & (ops.start_ns < launch_start),
            kept=_in_kept(steps, steps.op_step) if len(steps) else np.ones(len(ops), np.bool_),
            overlaps=overlaps,
            odd_durations=odd_durations(trace, overlaps),
            twice=duplicates(trace),
            lost_calls=lost,
            cut_calls=lost[trace.host_ops.start_ns[lost] > (launches.start_ns[-1] if len(launches) else NONE)],
            launches_kept=int(_in_kept(steps, steps.launch_step).sum()),
        )


def _in_kept(steps: Steps, step: Ints) -> Bools:
    """True where a row's step is a kept one."""
    return follow(steps.kept, step, absent=False)


def _lost_calls(trace: Trace, steps: Steps) -> Ints:
    """Rows of host_ops: calls in kept steps that by their name launch a kernel or a graph, without a GPU op.

    Not those inside a launch: a runtime call wraps the driver call that does its work.
    """
    host = trace.host_ops
    launching = np.array(["LaunchKernel" in name or "GraphLaunch" in name for name in trace.names], np.bool_)
    rows = np.flatnonzero(host.kind == HostKind.API)
    rows = rows[launching[host.name[rows]]]
    kept = steps.kept_rows
    if not len(kept) or not len(rows):
        return np.zeros(0, np.int64)
    step = np.searchsorted(steps.start_ns[kept], host.start_ns[rows], side="right") - 1
    rows = rows[(step >= 0) & (host.start_ns[rows] < steps.end_ns[kept[np.maximum(step, 0)]])]
    return rows[~_inside_launch(trace, rows)]


def _inside_launch(trace: Trace, rows: Ints) -> Bools:
    """True where a row of host_ops lies inside a launch call of its thread."""
    host, launches = trace.host_ops, trace.launches
    inside = np.zeros(len(rows), np.bool_)
    launches_of = threads(launches.process, launches.thread)
    for thread, here in threads(host.process[rows], host.thread[rows]).items():
        own = launches_of.get(thread, here[:0])
        reached = np.append(np.maximum.accumulate(launches.end_ns[own]), np.iinfo(np.int64).min)
        last = np.searchsorted(launches.start_ns[own], host.start_ns[rows[here]], side="right") - 1
        inside[here] = reached[last] >= host.end_ns[rows[here]]  # none before it: the last entry
    return inside
