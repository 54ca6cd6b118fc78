"""What of a trace's counts, warnings and reliability rests on: links, losses, records that can't be right."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from ..model.columns import follow, numbered, threads
from ..model.trace import NONE, Bools, HostKind, Ints, Table, Trace, narrow
from .steps import Steps

LONGEST_NS: Final = 3_600_000_000_000
"""An hour: no kernel runs that long; a writer that loses a start time reports such durations."""

OUTLASTING_NS: Final = 100_000_000
"""From 100 ms on an op may be longer than all else in the file lasts; small files hold little else by nature."""

FAR_NS: Final = 10_000
"""Programmatic dependent launch lets kernels of a stream overlap, by up to 0.7 µs in captures of an H200."""


class Overlaps(NamedTuple):
    """GPU ops that meet others of their device and stream."""

    early: Bools  # [gpu_ops] starts before an earlier one has ended
    far: Bools  # [gpu_ops] runs on, and by far, when the next one has ended already


class ImpossibleDurations(NamedTuple):
    """Records that can't have lasted as long as the file says."""

    counts: dict[str, int]  # GPU ops and calls, by what is wrong with them
    gpu_ops: Bools  # [gpu_ops] any of the faults
    launches: Bools
    blocking_calls: Bools


@dataclass(frozen=True, eq=False)
class TraceFacts:
    """Facts that counts, warnings and reasons share."""

    gpu_ops: int
    linked: Bools  # [gpu_ops]
    is_early: Bools  # [gpu_ops] starts before its launch call does
    kept: Bools  # [gpu_ops] in a kept step, or any where there are no steps
    overlaps: Overlaps
    impossible: ImpossibleDurations
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
        overlaps = _same_stream_overlaps(trace)
        return cls(
            gpu_ops=len(ops),
            linked=linked,
            is_early=linked & (ops.start_ns < launch_start),
            kept=_in_kept(steps, steps.op_step) if len(steps) else np.ones(len(ops), np.bool_),
            overlaps=overlaps,
            impossible=_impossible_durations(trace, overlaps),
            twice=_duplicates(trace),
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
        calls = launches_of.get(thread, here[:0])
        reached = np.append(np.maximum.accumulate(launches.end_ns[calls]), np.iinfo(np.int64).min)
        last = np.searchsorted(launches.start_ns[calls], host.start_ns[rows[here]], side="right") - 1
        inside[here] = reached[last] >= host.end_ns[rows[here]]  # none before it: the last entry
    return inside


def _same_stream_overlaps(trace: Trace) -> Overlaps:
    """Which ops overlap on their stream.

    Never far are those that may run side by side: nodes of one graph replay, and what two processes call one stream.
    """
    ops = trace.gpu_ops
    order = narrow(np.lexsort((ops.start_ns, ops.stream, ops.device)))
    device, stream, start, end = (c[order] for c in (ops.device, ops.stream, ops.start_ns, ops.end_ns))
    alike = (device[1:] == device[:-1]) & (stream[1:] == stream[:-1])
    early, far = np.zeros(len(ops), np.bool_), np.zeros(len(ops), np.bool_)
    for since, until in pairwise([0, *(np.flatnonzero(~alike) + 1).tolist(), len(ops)]):
        early[order[since + 1 : until]] = start[since + 1 : until] < np.maximum.accumulate(end[since:until])[:-1]
    del device, stream, start, end
    before, after = order[:-1], order[1:]
    in_turn = (ops.correlation[before] != ops.correlation[after]) | (ops.correlation[before] == NONE)
    in_turn &= ops.process[before] == ops.process[after]
    outlasts = ops.end_ns[before] > ops.end_ns[after] + _clock_ns(trace)
    far[before] = alike & outlasts & in_turn & (ops.end_ns[before] - ops.start_ns[after] > FAR_NS)
    return Overlaps(early, far)


def _duplicates(trace: Trace) -> Bools:
    """[gpu_ops] an earlier record says the same, times and correlation included.

    Not an op as short as the clock can tell: several of them may begin and end together.
    """
    ops = trace.gpu_ops
    found = np.zeros(len(ops), np.bool_)
    together = ops.start_ns[1:] == ops.start_ns[:-1]  # rows are by start
    rows = np.flatnonzero((np.append(together, False) | np.append(False, together)) & (ops.dur_ns > _clock_ns(trace)))
    if len(rows):
        same = numbered(
            *(ops.start_ns[rows], ops.end_ns[rows], ops.device[rows], ops.stream[rows], ops.name[rows]),
            *(ops.process[rows], ops.correlation[rows], ops.graph_node[rows], ops.kind[rows]),
        )
        first = np.unique(same, return_index=True)[1]
        found[rows] = True
        found[rows[first]] = False
    return found


def _outlasting(trace: Trace) -> Bools:
    """[gpu_ops] the op that is longer than all else in the file lasts together, if there is one."""
    ops = trace.gpu_ops
    found = np.zeros(len(ops), np.bool_)
    longest = int(np.argmax(ops.dur_ns)) if len(ops) else NONE
    if longest == NONE or ops.dur_ns[longest] <= OUTLASTING_NS:
        return found
    others = np.arange(len(ops)) != longest
    tables: list[Table] = [ops.take(others), trace.launches, trace.blocking_calls, trace.host_ops]
    spans = [(table.start_ns.min(), np.maximum(table.start_ns, table.end_ns).max()) for table in tables if len(table)]
    if spans:
        span = int(max(end for _, end in spans)) - int(min(start for start, _ in spans))
        found[longest] = ops.dur_ns[longest] > span
    return found


def _impossible_durations(trace: Trace, overlaps: Overlaps) -> ImpossibleDurations:
    tables: tuple[Table, ...] = (trace.gpu_ops, trace.launches, trace.blocking_calls)
    negative = [np.less(table.dur_ns, 0) for table in tables]
    endless = [np.greater(table.dur_ns, LONGEST_NS) for table in tables]
    outlasting = _outlasting(trace)
    faults = {
        "below zero": negative,
        "over an hour": endless,
        "longer than all else in the file together": [outlasting],
        "running on when the next one of its stream has long ended": [overlaps.far],
    }
    of_ops, *of_calls = (below | over for below, over in zip(negative, endless, strict=True))
    counts = {what: sum(int(rows.sum()) for rows in columns) for what, columns in faults.items()}
    return ImpossibleDurations(counts, of_ops | outlasting | overlaps.far, *of_calls)


def _clock_ns(trace: Trace) -> int:
    """The shortest time that the file can tell."""
    return trace.grid_ns if trace.grid_ns > 1 else 0
