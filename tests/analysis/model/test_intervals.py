"""Unions of intervals."""

from __future__ import annotations

import numpy as np
from launchscope.analysis.model.intervals import Intervals


def union(*ranges: tuple[int, int]) -> Intervals:
    start, end = np.array(ranges, np.int64).reshape(-1, 2).T
    return Intervals.union(start, end)


def test_overlapping_and_touching_are_one() -> None:
    found = union((5, 8), (0, 3), (3, 4), (6, 7), (9, 9))
    assert list(zip(found.start_ns.tolist(), found.end_ns.tolist(), strict=True)) == [(0, 4), (5, 8), (9, 9)]


def test_one_that_ends_before_it_starts_is_a_point() -> None:
    found = union((5, 2))
    assert (found.start_ns.tolist(), found.end_ns.tolist()) == ([5], [5])


def test_covered() -> None:
    since, until = np.array([0, 1, 4, -9, 8]), np.array([9, 2, 5, 99, 20])
    assert union((0, 4), (5, 8)).covered_ns(since, until).tolist() == [7, 1, 0, 7, 0]
    assert union().covered_ns(since, until).tolist() == [0] * 5
