"""Ranges on one thread: which of those that began before lasts longest into the present."""

from __future__ import annotations

import numpy as np

from .trace import NONE, Ints, narrow


def last_reaching(ends_ns: Ints, before: Ints, times_ns: Ints) -> Ints:
    """For each query the last row before row ``before`` that ends after its time; NONE where none does.

    Of ranges sorted by start, outermost first, that is the innermost one around: mostly the row just before. All other
    queries climb a tree of maxima together, and down again: O(log n) each, in numpy.
    """
    found = np.full(len(before), NONE, np.int64)
    queries = np.flatnonzero(before > 0)
    row = before[queries] - 1
    reaches = ends_ns[row] > times_ns[queries]
    found[queries[reaches]] = row[reaches]
    queries = queries[~reaches & (row > 0)]
    if not len(queries):
        return found
    until, times = before[queries], times_ns[queries]
    tree = _maxima(ends_ns)
    for level, most in enumerate(tree):
        # what is left to search are the nodes before ``until``; an odd one has no pair on the next level
        node = until - 1
        hit = (until & 1).astype(np.bool_)
        hit[hit] = most[node[hit]] > times[hit]
        found[queries[hit]] = _descend(tree[:level], node[hit], times[hit])
        until = until >> 1
        left = ~hit & (until > 0)
        queries, until, times = queries[left], until[left], times[left]
        if not len(queries):
            break
    return found


def _descend(tree: list[Ints], node: Ints, times_ns: Ints) -> Ints:
    """The last row below each node that ends after the time; one does."""
    for most in reversed(tree):
        right = 2 * node + 1
        node = np.where((right < len(most)) & (most[np.minimum(right, len(most) - 1)] > times_ns), right, right - 1)
    return node


def _maxima(values: Ints) -> list[Ints]:
    """The values, then the maxima of pairs, then of pairs of those, up to one."""
    levels = [values]
    while len(levels[-1]) > 1:
        below = levels[-1]
        paired = np.maximum(below[: len(below) // 2 * 2 : 2], below[1::2])
        levels.append(np.append(paired, below[-1:]) if len(below) % 2 else paired)
    return levels


def outermost_first(start_ns: Ints, end_ns: Ints) -> Ints:
    """Rows by start; of those that start together the longest first. Quick where they are by start already."""
    is_sorted = bool((start_ns[1:] >= start_ns[:-1]).all())
    order = narrow(np.arange(len(start_ns)) if is_sorted else np.argsort(start_ns, kind="stable"))
    by_start_ns = start_ns if is_sorted else start_ns[order]
    tied = np.zeros(len(order) + 1, np.bool_)
    tied[1:-1] = by_start_ns[1:] == by_start_ns[:-1]
    del by_start_ns
    tied = tied[:-1] | tied[1:]
    rows = order[tied]
    order[tied] = rows[np.lexsort((-end_ns[rows], start_ns[rows]))]
    return order


def threads(process: Ints, thread: Ints) -> dict[tuple[int, int], Ints]:
    """Rows by (process, thread), ascending."""
    if not len(process):
        return {}
    processes, names = np.unique(process), np.unique(thread)
    number = np.searchsorted(processes, process) * len(names) + np.searchsorted(names, thread)
    number = number.astype(np.min_scalar_type(len(processes) * len(names)))  # numpy sorts short ones the fastest
    order = narrow(np.argsort(number, kind="stable"))
    groups = np.split(order, np.flatnonzero(np.diff(number[order])) + 1)
    return {(int(process[rows[0]]), int(thread[rows[0]])): rows for rows in groups}
