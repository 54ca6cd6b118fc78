"""Ladders of captured batch sizes: padding, fallback and the better ladder, by hand and against every other one."""

from __future__ import annotations

from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.predict.sweep import better_ladder, curve, judge_ladder


def test_thirteen_rows_in_the_bucket_of_sixteen_waste_three() -> None:
    """Steps of 13 take the time of 16; those of 20 are above the ladder and take eager's."""
    told = judge_ladder([8, 16], {13: 3, 20: 1}, graph=lambda size: 100.0 * size, eager=lambda size: 1000.0 * size)
    assert told.capture_sizes == [8, 16]
    assert told.padding == pytest.approx(9 / 48)
    assert told.fallback == 0.25
    assert told.mean_step_ns == (3 * 1_600 + 20_000) / 4


def test_between_measured_sizes_the_curve_is_straight_and_beyond_them_there_is_none() -> None:
    at = curve({8: 100.0, 16: 180.0})
    assert [at(size) for size in (8, 12, 16)] == [100, 140, 180]
    for size in (4, 32):
        with pytest.raises(LaunchscopeError, match=rf"a batch of {size} lies outside of the measured ones \(8 to 16\)"):
            at(size)
    assert curve({4: 7.0})(4) == 7.0


@given(
    st.dictionaries(st.integers(1, 40), st.integers(1, 100).map(float), min_size=1, max_size=7),
    st.integers(1, 4),
    st.lists(st.integers(0, 50), min_size=41, max_size=41),
)
@settings(deadline=None)
def test_no_other_ladder_of_so_many_rungs_is_faster(histogram: dict[int, float], rungs: int, growth: list[int]) -> None:
    times = [float(sum(growth[: size + 1])) for size in range(41)]  # larger batches take no less

    def graph(size: int) -> float:
        return times[size]

    found = better_ladder(rungs, histogram, graph)
    assert len(found) <= rungs
    assert found[-1] == max(histogram)
    best = judge_ladder(found, histogram, graph, graph).mean_step_ns
    sizes = sorted(histogram)
    for count in range(1, min(rungs, len(sizes)) + 1):
        for others in combinations(sizes[:-1], count - 1):
            assert best <= judge_ladder([*others, sizes[-1]], histogram, graph, graph).mean_step_ns + 1e-6
