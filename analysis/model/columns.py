"""Columns of numbers: following a reference to another table, numbering rows that are alike, and intervals of time."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from .trace import NONE, Ints, narrow

Scalar = TypeVar("Scalar", np.signedinteger[Any], np.bool_)
_CLOSE: Final = 4  # places per row up to which a look-up takes less than sorting


def follow(column: NDArray[Scalar], rows: Ints, absent: int = NONE) -> NDArray[Scalar]:
    """The column's values at these rows; ``absent`` where the row is NONE."""
    dtype: Any = np.bool_ if column.dtype == np.bool_ else np.int64
    values = np.full(len(rows), absent, dtype=dtype)
    found = rows != NONE
    values[found] = column[rows[found]]
    return values


def named(names: Sequence[str], indices: Ints) -> list[str | None]:
    """The names at these indices; null where the index is NONE."""
    return [None if index == NONE else names[index] for index in indices.tolist()]


def numbered(*columns: Ints) -> Ints:
    """A number for each row, from 0, equal where all columns are; ascending by the first column, then the next."""
    numbers, count = np.zeros(len(columns[0]), dtype=np.int64), 1
    for column in columns:
        if not len(column) or column.min() == column.max():
            continue
        place, distinct = _places(column)
        numbers, count = _places(numbers * distinct + place) if count > 1 else (place, distinct)
    return numbers


def _places(values: Ints) -> tuple[Ints, int]:
    """The place of each value among the distinct ones, and how many those are: quick for ids, which are close."""
    lowest, span = int(values.min()), int(values.max()) - int(values.min()) + 1
    if span > _CLOSE * len(values):
        distinct, place = np.unique(values, return_inverse=True)
        return place, len(distinct)
    values = values.astype(np.int64) - lowest
    is_there = np.zeros(span, np.bool_)
    is_there[values] = True
    place = np.cumsum(is_there) - 1
    return place[values], int(place[-1]) + 1


def grouped(numbers: Ints, count: int) -> list[Ints]:
    """The rows of each number below ``count``, ascending."""
    short = numbers.astype(np.min_scalar_type(count))  # numpy sorts short ones the fastest
    order = narrow(np.argsort(short, kind="stable"))
    return np.split(order, np.searchsorted(short[order], np.arange(1, count)))[:count]


@dataclass(frozen=True, eq=False)
class Intervals:
    """Disjoint intervals by start; those that touch are one, and one may be of no length."""

    start_ns: Ints
    end_ns: Ints

    @classmethod
    def union(cls, start_ns: Ints, end_ns: Ints) -> Self:
        """The union of any intervals; one that ends before it starts counts as its start."""
        start, end = start_ns, end_ns
        if (start[1:] < start[:-1]).any():
            order = np.argsort(start, kind="stable")
            start, end = start[order], end[order]
        reached = np.maximum.accumulate(np.maximum(end, start))
        begins = np.ones(len(start), np.bool_)
        begins[1:] = start[1:] > reached[:-1]
        first = np.flatnonzero(begins)
        last = np.append(first[1:], len(start))[: len(first)] - 1
        return cls(start[first], reached[last])

    def __len__(self) -> int:
        return len(self.start_ns)

    def covered_ns(self, since_ns: Ints, until_ns: Ints) -> Ints:
        """Length of the union inside each [since, until)."""
        return self._covered_before(until_ns) - self._covered_before(since_ns)

    def _covered_before(self, at_ns: Ints) -> Ints:
        if not len(self):
            return np.zeros(len(at_ns), np.int64)
        length = self.end_ns - self.start_ns
        whole = np.cumsum(length) - length
        row = np.searchsorted(self.start_ns, at_ns, side="right") - 1
        into = np.minimum(at_ns, self.end_ns[row]) - self.start_ns[row]
        return np.where(row < 0, 0, whole[row] + into)


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
    number = numbered(process, thread)
    groups = grouped(number, int(number.max()) + 1)
    return {(int(process[rows[0]]), int(thread[rows[0]])): rows for rows in groups}
