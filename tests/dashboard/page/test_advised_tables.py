"""What could be one kernel, and phases of serving steps, as tables: the document's figures in the report's words."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from launchscope.dashboard.band import Band
from launchscope.dashboard.opened_report import OpenedReport
from launchscope.dashboard.page.tables import TABLES, table, table_names
from launchscope.fixtures.builder import TraceBuilder, trace

from ..opening import built, capture, case, two_modes

ALWAYS = ["kernels", "gaps", "launches", "replays", "warnings"]


def first(opened: OpenedReport) -> list[Band]:
    return [band for key in opened.first if (band := opened.band(key)) is not None]


def chain() -> TraceBuilder:
    """Three steps of three element-wise operators on 8 values of bf16, launched in 5 µs each."""
    builder = trace()
    for step in range(3):
        builder.step(step, 100 * step, 99)
        for place, name in enumerate(("neg", "exp", "neg")):
            at = 100 * step + 20 * place
            builder.op(f"aten::{name}", at, 18, shapes=[[1, 8]])
            builder.launch(at + 2, 5).kernel(at + 10, 2, name=f"kernel_of_{name}")
    return builder


@pytest.mark.parametrize(
    ("opened", "more"),
    [
        (capture("llama_1b"), {"blocking calls", "fusion", "graphs"}),
        (capture("serve_graph"), {"blocking calls", "graphs", "serving"}),
        (capture("regressions/serve_item"), {"blocking calls", "fusion", "serving"}),
        (two_modes(), {"graphs"}),
    ],
)
def test_tables_stand_only_where_there_is_something_to_show(opened: OpenedReport, more: set[str]) -> None:
    known = {*ALWAYS, "blocking calls", "fusion", "graphs", "ranks", "serving"}  # other figures have tables, too
    shown = [name for name in table_names(opened, opened.bands) if name in known]
    assert shown == [name for name in TABLES if name in {*ALWAYS, *more}]


def test_a_chain_is_a_row_with_its_saving_and_the_range_of_it() -> None:
    opened = built(chain)
    assert opened is not None
    data = table("fusion", opened, first(opened))
    (row,) = data.rows
    assert (row["places"], row["launches"], row["after"]) == (1, 3, 1)
    assert row["eager_us"] == 10.0  # two launches of 5 µs
    assert row["graph_us"] is None  # nothing is calibrated
    assert row["ranges"] is None
    fields = [column["field"] for column in data.columns]
    assert "band" not in fields
    assert "where" not in fields
    assert "compiled" not in fields
    assert data.note is not None
    assert "predicted, all together: 3 → 1 launch, saves 10.0 µs in eager" in data.note
    assert "in a graph unknown" in data.note


def test_candidates_of_a_capture_are_those_of_its_document_whatever_is_shown() -> None:
    opened = capture()
    found = next(trace.fusion for trace in opened.report.document.traces if trace.fusion is not None)
    data = table("fusion", opened, [])
    assert len(data.rows) == len(found.candidates)
    for row, each in zip(data.rows, found.candidates, strict=True):
        assert (row["what"], row["places"], row["how"]) == (each.title, each.places, each.how)
        assert (row["launches"], row["after"]) == (each.launches_per_step, each.launches_after)
        assert each.eager_saves_ns is not None
        assert each.graph_saves_ns is not None
        assert row["eager_us"] == pytest.approx(each.eager_saves_ns / 1e3, abs=1e-3)
        assert row["graph_us"] == pytest.approx(each.graph_saves_ns / 1e3, abs=1e-3)
        assert row["known_by"] == each.relied_on
    assert data.rows[0]["ranges"] == "eager 1.50 ms to 3.25 ms; in a graph 96.7 µs to 449 µs"
    assert "fixtures/models/llama.py(68)" in str(data.rows[0]["where"])
    assert {row["band"] for row in data.rows} == {"eager"}


def test_what_torch_compile_did_stands_beside_the_promise() -> None:
    data = table("fusion", capture(), first(capture()))
    did = {row["what"]: row["compiled"] for row in data.rows}
    assert did["RoPE + KV-cache write"] == "140 of 176 launches promised; GPU work 265 µs of 287 µs"
    assert did["QKV projection"] == "0 of 32 launches promised; GPU work 0 of 156 µs"
    assert data.note is not None
    assert "torch.compile did, of all kinds: 471 of 548 launches promised; GPU work 689 µs of 860 µs" in data.note
    assert "predicted, all together: 648 → 100 launches, saves 6.96 ms in eager, 1.07 ms in a graph" in data.note
    assert "all: 3.21 ms to 6.96 ms" in data.note


def test_traces_have_their_own_candidates() -> None:
    opened = built(chain)
    assert opened is not None
    assert table("fusion", opened, []).rows == []
    unlike = case("missing launches")
    assert unlike is not None
    assert table("fusion", unlike, first(unlike)).rows == []


def kinds(opened: OpenedReport) -> Iterator[list[dict[str, float]]]:
    """Times of the rows of each kind of step, its parts left out, the step last."""
    names = ("host_us", "busy_us", "idle_us")
    found: list[dict[str, float]] = []
    for row in table("serving", opened, first(opened)).rows:
        if ", " not in str(row["phase"]):
            found.append({name: float(row[name] or 0) for name in names})
        if row["phase"] == "step":
            yield found
            found = []


@pytest.mark.parametrize("name", ["serve_graph", "regressions/serve_item"])
def test_phases_add_up_to_the_step(name: str) -> None:
    for *phases, step in kinds(capture(name)):
        for time, total in step.items():
            assert sum(phase[time] for phase in phases) == pytest.approx(total, abs=0.01)


def test_phases_are_those_of_the_document_in_its_order() -> None:
    opened = capture("serve_graph")
    (band,) = first(opened)
    serving = band.analysis.document.serving
    assert serving is not None
    (kind,) = serving.kinds
    data = table("serving", opened, [band])
    assert [row["phase"] for row in data.rows] == [
        "prepare inputs",
        "forward",
        "forward, in replays",
        "forward, outside",
        "sample",
        "copy back",
        "until the next step",
        "step",
    ]
    assert {row["steps"] for row in data.rows} == {"10 serving steps"}
    prepare = kind.phases[0].host_ns
    assert prepare is not None
    assert data.rows[0]["host_us"] == pytest.approx(prepare.total / prepare.count / 1e3, abs=1e-3)
    sample = next(row for row in data.rows if row["phase"] == "sample")
    assert sample["host_us"] is None
    assert sample["reason"] == "inside the graph replay: its launch is the forward's"
    assert "phases add up" in (data.note or "")


def test_a_recording_without_serving_steps_says_so() -> None:
    opened = two_modes()
    assert table("serving", opened, first(opened)).note == "eager, graph: no steps of a serving engine"
