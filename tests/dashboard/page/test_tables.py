"""The tables hold the document's figures, and every row leads to its GPU op."""

from __future__ import annotations

import csv as csv_files
import io
import json
import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.model.document import CAUSES
from launchscope.dashboard.band import Band
from launchscope.dashboard.grid_table import TableData, csv
from launchscope.dashboard.opened_report import OpenedReport
from launchscope.dashboard.page import tables
from launchscope.dashboard.page.tables import TABLES, table
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES
from ..opening import built, capture, case, two_modes


def first(opened: OpenedReport) -> list[Band]:
    """The bands that are shown first."""
    return [band for key in opened.first if (band := opened.band(key)) is not None]


def two_steps() -> TraceBuilder:
    """Two steps of 100 µs with two kernels each: a gap of 10 inside, of 70 or so between; the calls take 4 µs."""
    builder = trace()
    for step in range(2):
        at = 100 * step
        builder.step(step, at, 95).op("aten::mm", at, 9).launch(at + 2, 4).kernel(at + 10, 8, name="gemm")
        builder.op("aten::add", at + 19, 9).launch(at + 20, 4).kernel(at + 28, 2, name="add")
    return builder


@pytest.fixture
def tiny() -> OpenedReport:
    opened = built(two_steps)
    assert opened is not None
    return opened


def test_kernels_are_those_of_the_document(tiny: OpenedReport) -> None:
    gemm, add = table("kernels", tiny, first(tiny)).rows
    assert (gemm["kernel"], gemm["count"], gemm["total_us"], gemm["median_us"]) == ("gemm", 2, 16.0, 8.0)
    assert (gemm["operator"], gemm["share"], gemm["op"]) == ("aten::mm", 80.0, 0)
    assert (add["kernel"], add["count"], add["op"]) == ("add", 2, 1)


def test_gaps_are_told_with_what_is_around_them_the_longest_first(tiny: OpenedReport) -> None:
    longest, *inside = table("gaps", tiny, first(tiny)).rows
    assert (longest["us"], longest["start_us"], longest["cause"]) == (80.0, 20.0, "host")
    assert (longest["before"], longest["after"], longest["op"]) == ("add", "gemm", 2)
    assert (longest["host"], longest["launch"], longest["dispatch"]) == (72.0, 4.0, 4.0)
    assert longest["place"] == "between steps"
    assert (longest["step"], inside[0]["step"]) == (2, 1)
    assert [row["us"] for row in inside] == [10.0, 10.0]


def test_launches_by_api_and_operator(tiny: OpenedReport) -> None:
    rows = table("launches", tiny, first(tiny)).rows
    assert [(row["operator"], row["launches"], row["kernels"]) for row in rows] == [
        ("aten::mm", 2, 2),
        ("aten::add", 2, 2),
    ]
    assert (rows[0]["overhead_us"], rows[0]["overhead_total_us"]) == (4.0, 8.0)
    assert (rows[0]["latency_us"], rows[0]["queue_us"]) == (8.0, 4.0)


def test_every_gap_of_the_capture_is_there_and_its_causes_add_up() -> None:
    bands = first(capture())
    rows = table("gaps", capture(), bands).rows
    assert len(rows) == sum(len(band.analysis.context.gaps[0]) for band in bands)
    for row in rows[:200]:
        assert sum(float(row.get(cause) or 0) for cause in CAUSES) == pytest.approx(row["us"])


def test_launches_of_the_capture_add_up_to_those_of_the_document() -> None:
    for band in first(capture()):
        rows = table("launches", capture(), [band]).rows
        document = band.analysis.document
        by_api: dict[str, int] = {}
        for row in rows:
            by_api[str(row["api"])] = by_api.get(str(row["api"]), 0) + int(row["launches"] or 0)
        assert by_api == document.launches.by_api


def test_inferred_operators_are_marked() -> None:
    data = table("kernels", capture(), first(capture()))
    assert any(str(row["operator"]).endswith("*") for row in data.rows)
    assert data.note is not None
    assert "aligned recording" in data.note


def test_a_replay_is_a_row() -> None:
    band = capture().band("graph")
    assert band is not None
    data = table("replays", capture(), [band])
    assert len(data.rows) == len(band.analysis.context.replays)
    assert {row["ops"] for row in data.rows} == {718}
    (doc,) = band.analysis.document.graphs.replays
    calls = sorted(float(row["overhead_us"] or 0) for row in data.rows)
    assert doc.launch_overhead_ns is not None
    assert calls[len(calls) // 2] * 1e3 == pytest.approx(doc.launch_overhead_ns.median)


def test_what_is_not_there_is_said(tiny: OpenedReport) -> None:
    assert "no graph replays" in (table("replays", tiny, first(tiny)).note or "")
    opened = case("missing launches")
    assert opened is not None
    reasons = table("warnings", opened, first(opened)).rows
    withheld = opened.bands[0].analysis.document.withheld
    assert {row["code"] for row in reasons if row["kind"] == "withheld"} == set(withheld)


def test_what_is_said_of_several_is_said_once() -> None:
    note = table("replays", capture(), first(capture())).note or ""
    assert "eager, fused: no graph replays" in note
    assert table("launches", capture(), first(capture())).note == (
        "eager, graph, fused, fused_graph: no operators recorded (the cuda pass records none)"
    )


def test_a_modes_warnings_are_told_once() -> None:
    opened = two_modes()
    every = table("warnings", opened, opened.bands).rows
    mode = [row for row in every if row["band"] == "eager" and row["kind"] == "warning"]
    assert len({(row["code"], row["message"]) for row in mode}) == len(mode)


def test_at_most_so_many_gaps_the_longest(tiny: OpenedReport, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tables, "MOST_ROWS", 2)
    data = table("gaps", tiny, first(tiny))
    assert [row["us"] for row in data.rows] == [80.0, 10.0]
    assert "the longest 2 of 3 gaps" in (data.note or "")


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("label", NAMED_CASES)
def test_every_case_makes_rows_that_json_and_the_grid_hold(label: str, name: str) -> None:
    opened = case(label)
    if opened is not None:
        check(table(name, opened, opened.bands), opened)


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("file", ["llama_1b", "serve_graph", "live"])
def test_every_table_of_the_captures(file: str, name: str) -> None:
    check(table(name, capture(file), capture(file).bands), capture(file))


def check(data: TableData, opened: OpenedReport) -> None:
    assert json.loads(json.dumps(data.rows, allow_nan=False)) == data.rows
    fields = [column["field"] for column in data.columns]
    assert len(set(fields)) == len(fields)
    assert len({row["id"] for row in data.rows}) == len(data.rows)
    for row in data.rows:
        assert all(not isinstance(value, float) or math.isfinite(value) for value in row.values())
        if row["op"] is not None:
            band = opened.band(str(row["band"]))
            assert band is not None
            assert 0 <= int(row["op"]) < len(band.analysis.context.trace.gpu_ops)
    lines = list(csv_files.reader(io.StringIO(csv(data), newline="")))
    assert len(lines) == 1 + len(data.rows)
    assert {len(line) for line in lines} == {len(fields)}


@settings(deadline=None)
@given(st.text())
def test_no_cell_of_a_csv_is_a_formula(text: str) -> None:
    data = TableData(
        [{"field": "name", "headerName": "name"}, {"field": "n", "headerName": "n"}], [{"name": text, "n": -1.5}]
    )
    _, (cell, figure) = csv_files.reader(io.StringIO(csv(data), newline=""))
    assert cell in (text, f"'{text}")
    assert not cell.startswith(("=", "+", "-", "@", "\t", "\r"))
    assert figure == "-1.5"


def test_a_formula_in_a_kernels_name_is_text() -> None:
    opened = built(lambda: trace().step(0, 0, 20).launch(1, 2).kernel(5, 10, name="=HYPERLINK(1)"))
    assert opened is not None
    assert "'=HYPERLINK" in csv(table("kernels", opened, first(opened)))
