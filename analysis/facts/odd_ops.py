"""GPU ops that can't have run as the file has them: recorded twice, of an impossible length; and those that overlap."""

from __future__ import annotations

from itertools import pairwise
from typing import Final, NamedTuple

import numpy as np

from ..model.columns import numbered
from ..model.trace import NONE, Bools, Table, Trace, narrow

LONGEST_NS: Final = 3_600_000_000_000
"""An hour: no kernel runs that long; a writer that loses a start time reports such durations."""

OUTLASTING_NS: Final = 100_000_000
"""From 100 ms on an op may be longer than all else in the file lasts; small files hold little else by nature."""

FAR_NS: Final = 10_000
"""Programmatic dependent launch lets kernels of a stream overlap, by up to 0.7 µs in captures of an H200."""

WHOLE_US_NS: Final = 1000


class Overlaps(NamedTuple):
    """GPU ops that meet others of their device and stream."""

    early: Bools  # [gpu_ops] starts before an earlier one has ended
    far: Bools  # [gpu_ops] runs on, and by far, when the next one has ended already


def same_stream_overlaps(trace: Trace) -> Overlaps:
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


def duplicates(trace: Trace) -> Bools:
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


def outlasting(trace: Trace) -> Bools:
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


class OddDurations(NamedTuple):
    """Records that can't have lasted as long as the file says."""

    faults: dict[
        str, tuple[Bools, ...]
    ]  # by what is wrong: [gpu_ops], then [launches] and [blocking_calls] if it can be
    gpu_ops: Bools  # [gpu_ops] any of the faults
    launches: Bools
    blocking_calls: Bools


def odd_durations(trace: Trace, overlaps: Overlaps) -> OddDurations:
    """Which GPU ops and which calls."""
    tables: list[Table] = [trace.gpu_ops, trace.launches, trace.blocking_calls]
    calls: list[Table] = tables[1:]
    faults: dict[str, tuple[Bools, ...]] = {
        "below zero": tuple(map(below_zero, tables)),
        "over an hour": tuple(map(over_an_hour, tables)),
        "longer than all else in the file together": (outlasting(trace),),
        "running on when the next one of its stream has long ended": (overlaps.far,),
    }
    of_ops = np.logical_or.reduce([fault[0] for fault in faults.values()])
    return OddDurations(faults, of_ops, *(below_zero(each) | over_an_hour(each) for each in calls))


def below_zero(table: Table) -> Bools:
    """Rows that end before they start."""
    return np.less(table.dur_ns, 0)


def over_an_hour(table: Table) -> Bools:
    """Rows that last longer than any work on a GPU does."""
    return np.greater(table.dur_ns, LONGEST_NS)


def _clock_ns(trace: Trace) -> int:
    """The shortest time that the file can tell."""
    return WHOLE_US_NS if trace.whole_us else 0
