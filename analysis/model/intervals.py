"""Unions of time intervals."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self

import numpy as np

from .trace import Ints


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
