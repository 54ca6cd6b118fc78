"""The change of a step's time and its interval, against counts by hand and by brute force."""

from __future__ import annotations

import math
from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.compare import difference
from launchscope.analysis.compare.difference import against_value, change, fewest_processes, is_host_paced
from launchscope.analysis.compare.documents import HOLDS, INCONCLUSIVE, REGRESSION
from launchscope.analysis.compare.snapshot import Timing


def processes(*medians: float) -> list[list[float]]:
    """One process per median, each with a sample on either side of it."""
    return [[median * 0.9, median, median * 1.1] for median in medians]


@pytest.mark.parametrize(("ours", "theirs"), [(1, 1), (2, 3), (4, 4), (5, 3)])
def test_the_null_of_the_rank_sum_is_that_of_all_orders(ours: int, theirs: int) -> None:
    counts = np.zeros(ours * theirs + 1)
    for places in combinations(range(ours + theirs), ours):
        counts[sum(places) - ours * (ours - 1) // 2] += 1
    assert difference._rank_sum_null(ours, theirs) == pytest.approx(counts / counts.sum())


@pytest.mark.parametrize("pairs", [1, 3, 5])
def test_the_null_of_the_signed_ranks_is_that_of_all_signs(pairs: int) -> None:
    counts = np.zeros(pairs * (pairs + 1) // 2 + 1)
    for signs in product((0, 1), repeat=pairs):
        counts[sum(sign * (rank + 1) for rank, sign in enumerate(signs))] += 1
    assert difference._signed_rank_null(pairs) == pytest.approx(counts / counts.sum())


def test_beyond_what_is_counted_out_the_normal_limit_goes_on_where_it_was() -> None:
    for null in (lambda n: difference._rank_sum_null(n, n), difference._signed_rank_null):
        last, first = difference._ends(null(64)), difference._ends(null(65))
        assert last < first < last * 1.06


def test_so_many_processes_it_takes_at_the_least() -> None:
    assert fewest_processes(paired=False) == 5  # 1 of 252 orders; of 4 against 4 it is 1 of 70
    assert fewest_processes(paired=True) == 8 == difference.PROCESSES  # 1 of 256 signs


def test_three_processes_against_three_can_tell_nothing() -> None:
    found = change(processes(200, 201, 202), processes(100, 101, 102), paired=False, between_runs=0.0)
    assert (found.low, found.high) == (-1.0, math.inf)
    assert found.decide(0.03) == (INCONCLUSIVE, 5)


def test_the_interval_of_five_against_five_is_from_the_smallest_to_the_largest_ratio() -> None:
    found = change(processes(110, 111, 112, 113, 114), processes(98, 99, 100, 101, 102), paired=False, between_runs=0)
    assert found.change == pytest.approx(112 / 100 - 1)
    assert found.low == pytest.approx(110 / 102 - 1)
    assert found.high == pytest.approx(114 / 98 - 1)
    assert found.decide(0.03) == (REGRESSION, None)


def test_pairs_tell_what_a_pace_shared_by_both_would_hide() -> None:
    pace = [100, 150, 200, 120, 180, 130, 170, 110]
    slower = [each * 1.05 for each in pace]
    paired = change(processes(*slower), processes(*pace), paired=True, between_runs=0.0)
    assert (paired.change, paired.low, paired.high) == pytest.approx((0.05, 0.05, 0.05))
    assert paired.decide(0.03) == (REGRESSION, None)
    apart = change(processes(*slower), processes(*pace), paired=False, between_runs=0.0)
    assert apart.decide(0.03)[0] == INCONCLUSIVE


def test_a_pair_of_which_one_failed_is_none() -> None:
    found = change([[2.0], [], [4.0]], [[1.0], [1.0], []], paired=True, between_runs=0.0)
    assert (found.processes, found.change) == (1, pytest.approx(1.0))


def test_two_runs_may_differ_by_what_runs_differ_by() -> None:
    same = change(processes(*[100.0] * 8), processes(*[100.0] * 8), paired=False, between_runs=0.01)
    assert (same.low, same.high) == pytest.approx((1 / 1.01 - 1, 0.01))
    assert same.decide(0.03) == (HOLDS, None)
    assert same.decide(0.005) == (INCONCLUSIVE, None)  # no number of processes makes two runs one


def test_significant_but_allowed_holds_and_too_close_to_the_limit_can_not_be_told() -> None:
    base = processes(*[100.0] * 8)
    assert change(processes(*[102.0] * 8), base, paired=True, between_runs=0.0).decide(0.03) == (HOLDS, None)
    near = change(processes(*np.linspace(101.5, 104, 8)), base, paired=True, between_runs=0.0)
    outcome, needed = near.decide(0.03)
    assert outcome == INCONCLUSIVE
    assert needed is not None
    assert needed > 8


def test_the_number_needed_grows_with_the_square_of_the_noise() -> None:
    base = processes(*[100.0] * 8)
    # change 0, half width h, allowed 3 %: (h ÷ log 1.03)² times the eight
    found = change(processes(*np.exp(np.linspace(-0.06, 0.06, 8)) * 100), base, paired=True, between_runs=0.0)
    assert found.decide(0.03) == (INCONCLUSIVE, math.ceil(8 * (0.06 / math.log(1.03)) ** 2))


def test_against_a_fixed_value_eight_processes_above_it_are_a_regression() -> None:
    assert against_value(processes(*np.linspace(101, 108, 8)), 100.0).decide(0.0) == (REGRESSION, None)
    assert against_value(processes(*np.linspace(101, 107, 7)), 100.0).decide(0.0) == (INCONCLUSIVE, 8)
    assert against_value(processes(*np.linspace(92, 99, 8)), 100.0).decide(0.0) == (HOLDS, None)


@pytest.mark.parametrize("allowed", [-2.0, -1.0, 0.0, 0.03, 1e9])
@pytest.mark.parametrize(("ours", "theirs"), [(1e-3, 4.6e18), (4.6e18, 1e-3), (1.0, 1e17)])
@pytest.mark.parametrize("count", [1, 8])
def test_a_change_that_rounding_makes_whole_has_an_answer(
    count: int, ours: float, theirs: float, allowed: float
) -> None:
    found = change([[ours]] * count, [[theirs]] * count, paired=False, between_runs=0.01)
    outcome, needed = found.decide(allowed)
    assert outcome in (HOLDS, REGRESSION, INCONCLUSIVE)
    assert needed is None or needed > count


def test_no_samples_are_no_answer() -> None:
    with pytest.raises(ValueError, match="no samples"):
        change([[]], [[1.0]], paired=False, between_runs=0.0)


def test_a_step_is_host_paced_unless_submitting_takes_less_than_half_of_it() -> None:
    replay = Timing(repeat=0, samples_ns=(2.2e6,), host_submit_ns=(30e3,))
    eager = Timing(repeat=0, samples_ns=(10e6,), host_submit_ns=(11e6,))
    assert not is_host_paced([replay, replay, eager])
    assert is_host_paced([eager])
    assert is_host_paced([Timing(repeat=0, samples_ns=(2.2e6,))])
    assert is_host_paced([])


sides = st.lists(st.floats(1e3, 1e9), min_size=1, max_size=12)


@given(sides, sides)
def test_turned_round_the_change_is_the_inverse(ours: list[float], theirs: list[float]) -> None:
    there = change([[x] for x in ours], [[x] for x in theirs], paired=False, between_runs=0.01)
    back = change([[x] for x in theirs], [[x] for x in ours], paired=False, between_runs=0.01)
    assert (1 + there.change) * (1 + back.change) == pytest.approx(1.0)
    if math.isfinite(there.high):
        assert (1 + there.low) * (1 + back.high) == pytest.approx(1.0)
    assert there.low <= there.change <= there.high
    outcome, needed = there.decide(0.03)
    assert (needed is None) or (outcome == INCONCLUSIVE and needed > min(len(ours), len(theirs)))


def test_a_change_beyond_what_a_float_holds_is_infinite() -> None:
    found = difference.change([[1e300]], [[1e-300]], paired=True, between_runs=0.0)
    assert found.change == math.inf
