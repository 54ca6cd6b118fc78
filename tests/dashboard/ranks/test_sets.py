"""Ranks beside one another: which belong together, their figures per step, their clocks."""

from __future__ import annotations

import numpy as np
import pytest
from launchscope.dashboard.opened import open_bands
from launchscope.dashboard.ranks.clock_words import clock_words, has_one_clock
from launchscope.dashboard.ranks.sets import RankFigure, clocks
from launchscope.dashboard.stage import stage
from launchscope.dashboard.view import View

from ..opening import capture
from .two_ranks import rank_trace, report_of, two_ranks


@pytest.mark.parametrize(
    ("figure", "first", "second"),
    [
        ("period", [100, 100, 100, None], [100, 100, 100, None]),
        ("busy", [60] * 4, [30] * 4),
        ("waiting", [30] * 4, [0] * 4),
    ],
)
def test_figures_of_each_step(figure: RankFigure, first: list[float | None], second: list[float | None]) -> None:
    (ranks,) = two_ranks().rank_sets
    heat = ranks.heat(figure)
    assert (heat.rows, heat.steps) == (["rank 0", "rank 1"], [1, 2, 3, 4])
    expected = np.array([first, second], dtype=np.float64) * 1e3
    np.testing.assert_array_equal(heat.values, expected)


def test_a_report_of_one_rank_has_none() -> None:
    assert capture().rank_sets == ()
    assert open_bands(report_of(rank0=rank_trace(0))).rank_sets == ()


def test_traces_of_the_same_ranks_are_told_apart_by_their_names() -> None:
    names = {"eager-rank0": 0, "eager-rank1": 1, "graph-rank0": 0, "graph-rank1": 1}
    opened = open_bands(report_of(**{name.replace("-", "_"): rank_trace(rank) for name, rank in names.items()}))
    assert [each.label for each in opened.rank_sets] == ["eager", "graph"]
    assert [[band.label for band in each.bands] for each in opened.rank_sets] == [
        ["eager_rank0.json", "eager_rank1.json"],
        ["graph_rank0.json", "graph_rank1.json"],
    ]
    assert opened.rank_sets[1].labels == ["rank 0", "rank 1"]


def test_steps_of_one_number_stand_in_one_column() -> None:
    opened = open_bands(report_of(rank0=rank_trace(0, first=3), rank1=rank_trace(1, first=5)))
    (ranks,) = opened.rank_sets
    assert not ranks.in_step
    assert ranks.heat("busy").steps == [5, 6]
    assert [ranks.step_of(0, 0), ranks.step_of(1, 0)] == [2, 0]
    assert [ranks.column_of(0, 0), ranks.column_of(0, 3), ranks.column_of(1, 1)] == [None, 1, 1]


def test_clocks_are_those_of_the_collectives() -> None:
    (ranks,) = two_ranks().rank_sets
    assert {key: clock.ahead_ns for key, clock in clocks([ranks]).items()} == {"rank0": 0, "rank1": 1_000_000}
    assert "rank 1's clock is 1.00 ms ahead of rank 0's" in clock_words(ranks)


def test_on_one_clock_both_begin_with_the_first_ones_step() -> None:
    opened = open_bands(report_of(rank0=rank_trace(0), rank1=rank_trace(1, begin=7)))
    shown = clocks(opened.rank_sets)
    placed = stage(opened.bands, View(align="clock"), 1_200, shown)
    assert [band.scale.zero_ns for band in placed.bands] == [7_000, 1_007_000]
    apart = stage(opened.bands, View(), 1_200, shown)
    assert [band.scale.zero_ns for band in apart.bands] == [10_000, 1_007_000]


def test_without_collectives_each_is_on_its_own_clock_and_it_is_said() -> None:
    traces = {f"rank{rank}": rank_trace(rank, collectives=False) for rank in (0, 1)}
    (ranks,) = open_bands(report_of(**traces)).rank_sets
    assert ranks.figures == ["period", "busy"]
    assert not has_one_clock([ranks])
    assert "each timeline is on its own clock" in clock_words(ranks)
