"""A row's figures are the report's; by hand where they can be."""

from __future__ import annotations

from pathlib import Path

import launchscope
import pytest
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.many.document import MOST_IN_SERIES, RankRow
from launchscope.analysis.many.one_file import find_figures
from launchscope.analysis.model.trace import Trace

from ...cases import NAMED_CASES
from .rank_files import rank_trace

TRACES = sorted((Path(launchscope.__file__).parent / "fixtures" / "traces").glob("*.*"))


def row_of(trace: Trace) -> RankRow:
    return find_figures(RankRow(path="a", name="a"), trace).row


def compare(trace: Trace) -> None:
    row, document = row_of(trace), analyze_trace(trace, name="a").document
    assert row.verdict_class == document.verdict.verdict_class
    assert row.device == document.headline_device
    assert row.unreliable == document.coverage.unreliable
    assert row.gpu_ops == document.coverage.gpu_ops
    assert row.step_source == document.coverage.step_source
    known = {warning.code for warning in document.warnings}
    assert {warning.code for warning in row.warnings} <= known
    headline = next((each for each in document.devices if each.device == document.headline_device), None)
    if headline is not None:
        assert row.idle_fraction == (headline.steady or headline).idle_fraction
    if document.steps is None:
        assert [row.period_ns, row.busy_ns, row.kernels, row.series] == [None] * 4
        return
    assert (row.period_ns, row.busy_ns) == (document.steps.period_ns, document.steps.busy_ns)
    assert (row.kernels, row.launches) == (document.steps.kernels.median, document.steps.launches.median)
    assert row.graph_launches == document.steps.graph_launches.median
    assert row.series is not None
    assert len(row.series.busy_ns) == document.steps.count


@pytest.mark.parametrize("path", TRACES, ids=lambda path: path.name)
def test_they_are_those_of_the_report(path: Path) -> None:
    compare(open_trace(path))


@pytest.mark.parametrize("name", NAMED_CASES)
def test_they_are_those_of_the_report_in_every_case(name: str) -> None:
    compare(NAMED_CASES[name]().build())


def test_a_rank_by_hand() -> None:
    row = row_of(rank_trace(3).build())
    assert row.steps == row.steps_found == 6
    assert row.period_ns is not None
    assert (row.period_ns.median, row.period_ns.count) == (1_000_000, 5)
    assert row.busy_ns is not None
    assert row.busy_ns.median == 4 * 10_000
    assert (row.kernels, row.launches, row.graph_launches) == (4, 4, 0)
    assert row.idle_fraction == pytest.approx(0.96)
    assert row.idle_scope == "steady"


def test_a_series_has_every_kept_step_by_its_number() -> None:
    series = row_of(rank_trace(0).build()).series
    assert series is not None
    assert series.every == 1
    assert series.number == [0, 1, 2, 3, 4, 5]
    assert series.period_ns == [1_000_000] * 5 + [None]
    assert series.busy_ns == [40_000] * 6


def test_a_long_series_has_every_third_step() -> None:
    steps = 2 * MOST_IN_SERIES + 10
    row = row_of(rank_trace(0, steps=steps, kernels=1).build())
    assert row.series is not None
    assert row.series.every == 3
    assert row.series.number == list(range(0, steps, 3))
    assert len(row.series.busy_ns) == len(row.series.period_ns) == len(row.series.number) <= MOST_IN_SERIES
