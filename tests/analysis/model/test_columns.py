"""Following references, numbering rows, unions of intervals and the innermost one around a time."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model.columns import Intervals, follow, last_reaching, named, numbered, threads
from launchscope.analysis.model.trace import NONE, one_value_shared


def ints(*values: int) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return np.array(values, dtype=np.int64)


def test_a_reference_is_followed_and_an_absent_one_stays_absent() -> None:
    assert follow(ints(10, 20, 30), ints(2, NONE, 0)).tolist() == [30, NONE, 10]
    assert follow(ints(10), ints(NONE, 0), absent=0).tolist() == [0, 10]
    assert follow(np.array([True, False]), ints(NONE, 0, 1), absent=False).tolist() == [False, True, False]


def test_into_an_empty_table_nothing_is_followed() -> None:
    assert follow(ints(), ints(NONE, NONE)).tolist() == [NONE, NONE]


def test_names_are_null_where_there_is_none() -> None:
    assert named(("a", "b"), ints(1, NONE, 0)) == ["b", None, "a"]


def test_rows_that_are_alike_in_every_column_get_one_number() -> None:
    assert numbered(ints(5, 5, 1, 5), ints(7, 7, 9, 2)).tolist() == [2, 2, 0, 1]
    assert numbered(ints(), ints()).tolist() == []


@given(st.lists(st.integers(-4, 4) | st.integers(-(2**62), 2**62), max_size=30), st.sampled_from([np.int64, np.int8]))
def test_the_numbers_of_one_column_are_places_among_its_values(values: list[int], dtype: type) -> None:
    column = np.array(values).astype(dtype)
    assert numbered(column).tolist() == [sorted(set(column.tolist())).index(value) for value in column.tolist()]


def test_a_column_of_one_value_takes_no_memory_and_does_not_hold_the_one_it_came_from() -> None:
    column = ints(7, 7, 7)
    shared = one_value_shared(column)
    assert shared.tolist() == [7, 7, 7]
    assert shared.strides == (0,)
    assert not np.shares_memory(shared, column)
    for other in (ints(7, 8), ints()):
        assert one_value_shared(other) is other


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


def test_the_last_one_that_reaches() -> None:
    ends = np.array([100, 30, 20, 60])  # 1 and 2 inside 0, one after the other, then 3
    before, times = np.array([4, 3, 3, 2, 1, 0, 4]), np.array([40, 15, 25, 30, 99, 0, 100])
    assert last_reaching(ends, before, times).tolist() == [3, 2, 1, 0, 0, NONE, NONE]


@given(st.lists(st.integers(0, 20), max_size=40), st.lists(st.tuples(st.integers(0, 40), st.integers(-1, 20))))
def test_it_is_what_a_search_backwards_finds(ends: list[int], queries: list[tuple[int, int]]) -> None:
    before = np.array([min(row, len(ends)) for row, _ in queries], np.int64)
    times = np.array([time for _, time in queries], np.int64)
    wanted = [
        next((row for row in reversed(range(limit)) if ends[row] > time), NONE)
        for limit, time in zip(before.tolist(), times.tolist(), strict=True)
    ]
    assert last_reaching(np.array(ends, np.int64), before, times).tolist() == wanted


def test_rows_by_thread() -> None:
    rows = threads(np.array([5, 4, 5, 5]), np.array([1, 1, 2, 1]))
    assert {key: its.tolist() for key, its in rows.items()} == {(4, 1): [1], (5, 1): [0, 3], (5, 2): [2]}
    assert threads(np.zeros(0, np.int64), np.zeros(0, np.int64)) == {}
