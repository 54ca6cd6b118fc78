"""Ranks beside one another: which belong together, their figures per step, their clocks."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from launchscope.analysis.report import load
from launchscope.dashboard.opened_report import open_bands
from launchscope.dashboard.page.figure_tables import clock_words, has_one_clock
from launchscope.dashboard.page.one_file import render
from launchscope.dashboard.page.sections import compare_sections
from launchscope.dashboard.page.tables import table, table_names
from launchscope.dashboard.plotting import LIGHT
from launchscope.dashboard.rank_sets import RankFigure, clocks
from launchscope.dashboard.timeline.stage import stage
from launchscope.dashboard.timeline.timeline import timeline_figure
from launchscope.dashboard.view import View

from ...analysis.profile.rank_captures import two_ranks as capture_of_two
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


def test_a_capture_of_two_ranks_has_its_modes_figures_on_the_rank_that_they_are_of(tmp_path: Path) -> None:
    opened = open_bands(load(capture_of_two(tmp_path / "capture")))
    assert [band.label for band in opened.bands[:3]] == [
        "eager, rank 0",
        "eager, rank 1",
        "eager, rank 0, cuda pass, repeat 2",
    ]
    assert [band.key for band in opened.bands[:2]] == ["eager", "eager-rank1"]
    assert [band.mode is not None for band in opened.bands[:2]] == [True, False]
    assert opened.first == ("eager",)
    (ranks,) = opened.rank_sets
    assert (ranks.key, ranks.on_one_host) == ("eager", True)
    assert {key: clock.ahead_ns for key, clock in clocks([ranks]).items()} == {"eager": 0, "eager-rank1": 0}
    assert "all ranks ran on one host" in clock_words(ranks)


def test_the_reports_figures_of_each_rank_are_a_table() -> None:
    opened = two_ranks()
    assert "ranks" in table_names(opened, opened.bands)
    assert "ranks" not in table_names(capture(), capture().bands)
    first, second = table("ranks", opened, opened.bands).rows
    assert (first["rank"], first["work_us"], first["without_us"], first["waiting_us"]) == (0, 60.0, 30.0, 30.0)
    assert (second["rank"], second["work_us"], second["last"], second["clock_us"]) == (1, 30.0, 100.0, 1000.0)


def test_two_ranks_compared_say_what_of_it_is_waiting() -> None:
    causes = compare_sections(two_ranks(), "rank0", "rank1")[0].sentences
    assert causes[0].startswith("Of a median step rank 0 30.0 µs and rank 1 0 are waiting inside collectives")


def test_collectives_have_a_colour_of_their_own_and_it_is_told() -> None:
    drawn = {each["name"] for each in timeline_figure(two_ranks().bands, View(), LIGHT)["data"]}
    assert {"kernel", "collective"} <= drawn
    assert "collectives: kernels that communicate" in render(two_ranks().report)
