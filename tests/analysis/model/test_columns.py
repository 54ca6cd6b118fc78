"""Following references and numbering rows: every value is told by hand."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model.columns import follow, named, numbered
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
