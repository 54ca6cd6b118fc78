"""Summaries of a distribution, and the bootstrap over processes."""

from __future__ import annotations

import pytest
from launchscope.analysis.model.document import Summary
from launchscope.analysis.model.statistics import bootstrap_interval, median_of_medians, summarize


def test_a_summary_has_median_tenth_ninetieth_total_and_count() -> None:
    assert summarize(range(11)) == Summary(median=5.0, p10=1.0, p90=9.0, total=55.0, count=11)


def test_ranks_between_two_values_are_interpolated() -> None:
    assert summarize([0, 10]) == Summary(median=5.0, p10=1.0, p90=9.0, total=10.0, count=2)


def test_no_values_give_nulls_and_not_zeros() -> None:
    assert summarize([]) == Summary(median=None, p10=None, p90=None, total=0.0, count=0)


def test_the_step_time_is_the_median_of_the_processes_medians() -> None:
    assert median_of_medians([[1, 2, 9], [10, 20, 30], [100, 200, 300]]) == 20.0


def test_equal_samples_leave_no_uncertainty() -> None:
    assert bootstrap_interval([[5.0] * 4, [5.0] * 3]) == (5.0, 5.0)


def test_the_interval_spans_the_processes_and_not_only_their_samples() -> None:
    low, high = bootstrap_interval([[10.0] * 30, [11.0] * 30, [20.0] * 30])
    assert (low, high) == (10.0, 20.0)


def test_the_same_seed_gives_the_same_interval() -> None:
    samples = [[float(i % 7) for i in range(30)], [float(i % 5) for i in range(20)]]
    assert bootstrap_interval(samples) == bootstrap_interval(samples)
    assert (
        bootstrap_interval(samples, seed=1)[0] <= median_of_medians(samples) <= bootstrap_interval(samples, seed=1)[1]
    )


def test_processes_without_samples_are_left_out() -> None:
    assert bootstrap_interval([[], [3.0]]) == (3.0, 3.0)


@pytest.mark.parametrize("samples", [[], [[]]])
def test_no_samples_are_an_error(samples: list[list[float]]) -> None:
    with pytest.raises(ValueError, match="no samples"):
        bootstrap_interval(samples)
    with pytest.raises(ValueError, match="no samples"):
        median_of_medians(samples)
