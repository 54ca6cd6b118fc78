"""Every slice is drawn once, in a lane where it neither overlaps nor crosses another."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model.trace import Ints
from launchscope.analysis.render.perfetto.lanes import Lane, flat_lanes, nested_lanes

Layout = Callable[[Ints, Ints, Ints], list[Lane]]


def lay(layout: Layout, *slices: tuple[int, int]) -> list[str]:
    """Each lane as text: a slice's letter where it opens, the same in lower case where it closes."""
    start_ns, end_ns = (np.array(times, dtype=np.int64) for times in zip(*slices, strict=True))
    lanes = layout(start_ns, end_ns, np.arange(len(slices)))
    return [
        "".join("ABCDEF"[row] if opens else "abcdef"[row] for row, opens in zip(lane.row, lane.opens, strict=True))
        for lane in lanes
    ]


def test_overlapping_gpu_ops_get_lanes() -> None:
    assert lay(flat_lanes, (0, 10), (10, 20), (20, 20)) == ["AaBbCc"]
    assert lay(flat_lanes, (0, 10), (8, 20), (12, 15), (15, 16)) == ["AaCcDd", "Bb"]
    assert lay(flat_lanes, (0, 10), (0, 10), (0, 0)) == ["CcAa", "Bb"]


def test_nested_calls_share_a_lane_and_crossing_ones_do_not() -> None:
    assert lay(nested_lanes, (0, 10), (0, 5), (5, 10), (6, 10)) == ["ABbCDdca"]
    assert lay(nested_lanes, (0, 10), (5, 12), (6, 9)) == ["ACca", "Bb"]
    assert lay(nested_lanes, (3, 3), (3, 8), (8, 8)) == ["BAabCc"]


@pytest.mark.parametrize("layout", [flat_lanes, nested_lanes])
@given(st.lists(st.tuples(st.integers(0, 30), st.integers(0, 10)), max_size=20))
def test_every_slice_keeps_its_times(layout: Layout, slices: list[tuple[int, int]]) -> None:
    start_ns = np.array([start for start, _ in slices], dtype=np.int64)
    end_ns = start_ns + np.array([dur for _, dur in slices], dtype=np.int64)
    shown = []
    for lane in layout(start_ns, end_ns, np.arange(len(slices))):
        stack: list[int] = []
        times = np.where(lane.opens, start_ns[lane.row], end_ns[lane.row])
        assert (np.diff(times) >= 0).all()
        for row, opens in zip(lane.row.tolist(), lane.opens.tolist(), strict=True):
            if opens:
                stack.append(row)
                assert layout is nested_lanes or len(stack) == 1
            else:
                assert stack.pop() == row
                shown.append(row)
        assert not stack
    assert sorted(shown) == list(range(len(slices)))


def test_no_slices_no_lane() -> None:
    none = np.empty(0, dtype=np.int64)
    assert flat_lanes(none, none, none) == nested_lanes(none, none, none) == []


def test_slices_that_all_cross_are_laid_out_in_time() -> None:
    start_ns = np.arange(3000)
    for layout in (flat_lanes, nested_lanes):
        lanes = layout(start_ns, start_ns + 3000, start_ns)
        assert [lane.row.tolist() for lane in lanes] == [[row, row] for row in range(3000)]
