"""Why a gap is there: cut by the launch call of the op after it, and by what that call's thread did meanwhile.

a is the gap's start, b its end; p and k are the GPU ops before and after it; L = [s, e] is k's launch call. The rules
are those of docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

from ..model.columns import Intervals, follow, grouped, numbered
from ..model.trace import NONE, Bools, Ints, Trace, narrow

STALL_NS: Final = 100_000
STALL_INTERVALS: Final = 20
"""A stall is longer than STALL_NS and than this many median intervals between launch starts of its thread."""


@dataclass(frozen=True, eq=False)
class Cuts:
    """Where each whole gap [a, b] is cut by k's launch call L = [s, e], and the cause of those that aren't."""

    whole_cause: Mapping[str, Bools]
    is_cut: Bools
    launch_row: Ints  # of k, NONE where it has none
    a: Ints
    h: Ints  # of cut gaps, a elsewhere
    m: Ints  # of cut gaps, a elsewhere

    @classmethod
    def of(cls, trace: Trace, a: Ints, b: Ints, prev_op: Ints, next_op: Ints) -> Self:
        ops = trace.gpu_ops
        launch = ops.launch_row[next_op]
        s, e = follow(trace.launches.start_ns, launch, absent=0), follow(trace.launches.end_ns, launch, absent=0)
        same_id = (ops.correlation[prev_op] == ops.correlation[next_op]) & (ops.correlation[next_op] != NONE)
        rules = {
            "graph": same_id & (ops.process[prev_op] == ops.process[next_op]),
            "unlinked": launch == NONE,
            "skewed": s > b,
            "device": e <= a,
        }
        is_open = np.ones(len(a), np.bool_)
        whole = {}
        for cause, holds in rules.items():
            whole[cause] = is_open & holds
            is_open &= ~holds
        h = np.where(is_open, np.maximum(a, s), a)
        m = np.where(is_open, np.minimum(np.maximum(e, h), b), a)
        return cls(whole, is_open, launch, a, h, m)


def cut_parts(trace: Trace, cuts: Cuts, threads: Threads, start: Ints, end: Ints) -> tuple[dict[str, Ints], Bools]:
    """ns of each gap's part inside its window by cause, and the gaps in which a blocking call of L's thread ended."""
    whole = narrow(end - start)  # no part is longer
    parts = {cause: np.where(holds, whole, 0) for cause, holds in cuts.whole_cause.items()}
    h, m = np.clip(cuts.h, start, end), np.clip(cuts.m, start, end)
    sync = np.zeros(len(start), np.int64)
    after_sync = np.zeros(len(start), np.bool_)
    for thread, rows in threads.groups(cuts.launch_row, cuts.is_cut):
        calls = threads.blocking_calls(thread)
        blocked = Intervals.union(trace.blocking_calls.start_ns[calls], trace.blocking_calls.end_ns[calls])
        sync[rows] = blocked.covered_ns(start[rows], h[rows])
        ends = np.sort(trace.blocking_calls.end_ns[calls])
        until = np.searchsorted(ends, cuts.h[rows], side="right")
        after_sync[rows] = until > np.searchsorted(ends, cuts.a[rows], side="left")
    for cause, ns in (("sync", sync), ("host", h - start - sync), ("launch", m - h), ("dispatch", end - m)):
        parts[cause] = np.where(cuts.is_cut, ns, 0).astype(whole.dtype)
    return parts, after_sync


class Threads:
    """Host threads of a trace, numbered over all processes."""

    def __init__(self, trace: Trace) -> None:
        self._trace = trace
        tables = (trace.launches, trace.blocking_calls, trace.host_ops)
        process, thread = (np.concatenate([getattr(t, name) for t in tables]) for name in ("process", "thread"))
        number = numbered(process, thread)
        count = int(number.max(initial=-1)) + 1
        number = number.astype(np.min_scalar_type(count))
        ends = np.cumsum([len(t) for t in tables])
        self._of_launch, of_blocking, of_host_op = np.split(number, ends[:-1])
        self._launches, self._blocking, self._host_ops = (
            grouped(part, count) for part in (self._of_launch, of_blocking, of_host_op)
        )

    def groups(self, launch_row: Ints, chosen: Bools) -> list[tuple[int, Ints]]:
        """The chosen gaps by the thread of their launch."""
        rows = np.flatnonzero(chosen)
        number = self._of_launch[launch_row[rows]]
        if len(rows) and (number == number[0]).all():  # as mostly: one thread launches
            return [(int(number[0]), rows)]
        threads, place = np.unique(number, return_inverse=True)
        return [(number, rows[own]) for number, own in zip(threads.tolist(), grouped(place, len(threads)), strict=True)]

    def blocking_calls(self, thread: int) -> Ints:
        """Rows of the thread's blocking calls."""
        return self._blocking[thread]

    def stall_limit_ns(self, launch_row: Ints) -> NDArray[np.float64]:
        """For each gap how long a part must be to be a stall; infinite where the thread has no interval to go by."""
        limits = np.full(len(launch_row), np.inf)
        for thread, rows in self.groups(launch_row, launch_row != NONE):
            starts = self._trace.launches.start_ns[self._launches[thread]]
            if len(starts) > 1:
                limits[rows] = max(STALL_NS, STALL_INTERVALS * float(np.median(np.diff(starts))))
        return limits

    def waiting_calls(self, cuts: Cuts, chosen: Bools) -> Ints:
        """For chosen gaps in whose [a, h] L's thread began nothing: a blocking call there of another of its threads."""
        found = np.full(len(chosen), NONE, np.int64)
        calls = self._trace.blocking_calls
        for thread, rows in self.groups(cuts.launch_row, chosen):
            idle_rows = rows[self._begun(thread, cuts.a[rows], cuts.h[rows]) == 0]
            process = self._trace.launches.process[self._launches[thread][0]]
            others = np.setdiff1d(np.flatnonzero(calls.process == process), self._blocking[thread], assume_unique=True)
            first = np.searchsorted(cuts.h[idle_rows], calls.start_ns[others], side="right")
            last = np.searchsorted(cuts.a[idle_rows], calls.end_ns[others], side="left")
            within = first < last
            for call, since, until in zip(*(x[within].tolist() for x in (others, first, last)), strict=True):
                found[idle_rows[since:until]] = call
        return found

    def _begun(self, thread: int, since_ns: Ints, until_ns: Ints) -> Ints:
        """How much the thread began from each time up to the other."""
        trace = self._trace
        count = np.zeros(len(since_ns), np.int64)
        for table, rows in (
            (trace.launches, self._launches),
            (trace.blocking_calls, self._blocking),
            (trace.host_ops, self._host_ops),
        ):
            start_ns = table.start_ns[rows[thread]]
            count += np.searchsorted(start_ns, until_ns) - np.searchsorted(start_ns, since_ns)
        return count
