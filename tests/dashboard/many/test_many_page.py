"""What the page of many ranks shows: rows and columns of the heat map, histograms, tables, and the answer in words."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Sequence

import msgspec
import numpy as np
import pytest
from launchscope.analysis.many.document import RankRow, RanksDocument
from launchscope.analysis.many.outliers import missing_words
from launchscope.analysis.report import Report
from launchscope.dashboard.many import app
from launchscope.dashboard.many.charts import alike_words, distribution_figure, heat_of, order, step_in_timeline
from launchscope.dashboard.many.layout import table as rank_table
from launchscope.dashboard.many.rank_pages import RankPages
from launchscope.dashboard.many.view import ManyView, compared, from_query, labels, notes, to_query
from launchscope.dashboard.page.server import Access
from launchscope.dashboard.plotting import LIGHT
from launchscope.dashboard.rank_heat import heat_figure
from werkzeug.test import Client, TestResponse

from .rows_by_hand import MS, table


def unread(rows: Sequence[RankRow]) -> Report:
    raise AssertionError(rows)


def with_series(*, every: int, first: int = 5) -> RanksDocument:
    """The table whose first row's steps are every so many, from this number on."""
    doc = table()
    assert doc.rows[0].series is not None
    series = msgspec.structs.replace(doc.rows[0].series, every=every, number=[first, first + 1, first + 2])
    return msgspec.structs.replace(doc, rows=[msgspec.structs.replace(doc.rows[0], series=series), *doc.rows[1:]])


def get(path: str, doc: RanksDocument | None = None) -> TestResponse:
    doc = table() if doc is None else doc
    pages = RankPages(doc, unread, lambda report, path: pytest.fail(f"{path}: {report}"))
    page = app.build_app(doc, Access("127.0.0.1", 8050, None), pages)
    return Client(pages.mounted_on(page.server)).get(path, base_url="http://127.0.0.1:8050")


def test_ranks_and_steps_as_the_rows_tell_them() -> None:
    heat = heat_of(table(), ManyView())
    assert heat.rows == ["rank 0", "rank 1", "rank 2", "rank 3", "rank 4"]
    assert heat.steps == [5, 6, 7]
    expected = [[10, 11, np.nan], [12, 12, np.nan], [10, 10, np.nan], [10, 90, np.nan], [np.nan] * 3]
    np.testing.assert_array_equal(heat.values / MS, expected)
    np.testing.assert_array_equal(heat_of(table(), ManyView(heat="busy")).values[:4] / MS, np.full((4, 3), 5.0))


def test_sorted_by_a_figure_those_without_it_are_last() -> None:
    assert order(table(), "rank") == [0, 1, 2, 3, 4]
    assert order(table(), "period_ns") == [3, 1, 0, 2, 4]
    assert heat_of(table(), ManyView(sort="period_ns")).rows[0] == "rank 3"


def test_a_step_has_its_place_in_the_ranks_own_timeline() -> None:
    doc = table()
    assert step_in_timeline(doc, 0, 7) == 2
    assert step_in_timeline(doc, 4, 7) == 0
    assert step_in_timeline(with_series(every=3), 0, 6) == 3


def test_steps_whose_numbers_have_nothing_in_common_stand_n_th_below_n_th() -> None:
    doc = with_series(every=1, first=1_000)
    assert heat_of(doc, ManyView()).steps == [5, 6, 7, 1_000, 1_001, 1_002]
    rows = [with_series(every=1, first=1_000 * rank).rows[0] for rank in range(1, 5)]
    apart = msgspec.structs.replace(doc, rows=rows)
    assert heat_of(apart, ManyView()).steps == [1, 2, 3]
    assert step_in_timeline(apart, 2, 3) == 2


def test_without_any_step_it_says_so() -> None:
    doc = table()
    bare = msgspec.structs.replace(doc, rows=[msgspec.structs.replace(row, series=None) for row in doc.rows])
    figure = heat_figure(heat_of(bare, ManyView()), LIGHT, 1_200)
    assert figure["layout"]["annotations"][0]["text"] == "no step period is known"


def test_histograms_of_the_figures_in_which_ranks_differ() -> None:
    data = distribution_figure(table(), LIGHT, 1_200)["data"]
    bars = {each["name"]: each for each in data if each["type"] == "bar"}
    assert [*bars] == ["step time", "launch tax"]
    assert [round(y**2) for y in bars["step time"]["y"]] == [2, 1, 1]
    (mark,) = [each for each in data if each.get("mode") == "markers"]
    assert mark["hovertext"] == ["<b>rank 3</b> 50.0 ms"]
    assert alike_words(table()).startswith("The same on all ranks: GPU work W 5.00 ms, kernels per step 8")


def test_what_is_missing_and_how_ranks_were_compared() -> None:
    assert [*notes(table())] == [
        missing_words([5], 6),
        "1 file could not be read; the table below says why.",
    ]
    assert compared(table()) == "Compared: no collective matches. Each rank is on its own clock."


def test_two_files_of_one_rank_are_told_apart() -> None:
    doc = table()
    rows = [doc.rows[0], msgspec.structs.replace(doc.rows[1], rank=0), msgspec.structs.replace(doc.rows[2], rank=None)]
    assert labels(msgspec.structs.replace(doc, rows=rows)) == ["rank 0, rank0.json", "rank 0, rank1.json", "rank2.json"]


def test_the_table_has_a_link_for_each_rank_that_can_be_read() -> None:
    data = rank_table(table(), links=True)
    assert [row["open"] for row in data.rows] == [*(f"[open](rows/{n}/)" for n in range(4)), None]
    assert [row["period_us"] for row in data.rows] == [10_500.0, 12_000.0, 10_000.0, 50_000.0, None]
    assert "communication_waiting_ns" not in {column["field"] for column in data.columns}


def test_the_answer_and_what_stands_out_are_there_before_any_script() -> None:
    text = get("/").text
    above = text[: text.index("dash_renderer")]
    assert "2 of 5 ranks stand out: rank 4, rank 3" in above
    assert 'href="/rows/3/"' in above
    assert 'href="/rows/4/"' not in above
    assert "step time 50.0 ms" in above


def test_foreign_names_are_text() -> None:
    hostile = "<img src=x onerror=alert(1)>{%config%}"
    rows = [msgspec.structs.replace(each, rank=None, name=f"{hostile}{at}") for at, each in enumerate(table().rows)]
    answer = get("/", msgspec.structs.replace(table(), rows=rows, inputs=[hostile]))
    assert "<img src=x" not in answer.text
    assert "&lt;img src=x" in answer.text
    assert "default-src 'none'" in answer.headers["Content-Security-Policy"]


def test_it_can_be_taken_along() -> None:
    assert msgspec.json.decode(get("/download/ranks.json").data, type=RanksDocument) == table()
    rows = [*csv.DictReader(io.StringIO(get("/download/ranks.csv").text))]
    assert [row["rank"] for row in rows] == ["0", "1", "2", "3", "4"]
    assert get("/download/rank0.json").status_code == 404


@pytest.mark.parametrize("view", [ManyView(), ManyView(heat="busy", sort="period_ns", theme="dark")])
def test_a_view_comes_back_from_its_url(view: ManyView) -> None:
    assert from_query(to_query(view), ["period_ns"]) == view


@pytest.mark.parametrize("query", ["?sort=nothing", "?heat=pink", "?theme=1", "?a=%ff&&&="])
def test_a_part_that_cannot_be_is_at_its_default(query: str) -> None:
    assert from_query(query, ["period_ns"]) == ManyView()


def test_the_page_is_small() -> None:
    layout = get("/_dash-layout?width=1400&scheme=dark")
    assert layout.status_code == 200
    assert "What stands out" in json.dumps(layout.json)
    assert len(layout.data) < 100_000
