"""Tables of serving steps."""

from __future__ import annotations

from launchscope.analysis import report_story
from launchscope.analysis.figures.serving.serving_story import serving_story
from launchscope.analysis.model.document import ServingDoc, ServingKindDoc, ServingPartDoc, ServingPhaseDoc, Summary
from launchscope.analysis.story import Listing

from ...render import documents
from ...render.documents import US, report, summary


def per_step(us: float) -> Summary:
    return summary(us * US, spread=0, count=4)


def phase(name: str, host: float | None, busy: float, idle: float, **more: object) -> ServingPhaseDoc:
    values: dict[str, object] = {
        "phase": name,
        "evidence": None if host is None else "structure",
        "host_ns": None if host is None else per_step(host),
        "blocked_ns": None if host is None else per_step(0),
        "gpu_busy_ns": per_step(busy),
        "gpu_idle_ns": per_step(idle),
        "launches": summary(1, spread=0, count=4),
    }
    return ServingPhaseDoc(**(values | more))  # type: ignore[arg-type]


def part(host: float, busy: float) -> ServingPartDoc:
    one = summary(1, spread=0, count=4)
    return ServingPartDoc(host_ns=per_step(host), gpu_busy_ns=per_step(busy), kernels=one, launches=one)


def kind(name: str | None) -> ServingKindDoc:
    return ServingKindDoc(
        kind=name,
        evidence=name and "annotation",
        count=4,
        host_ns=per_step(200),
        period_ns=per_step(200),
        gpu_busy_ns=per_step(36),
        gpu_idle_ns=per_step(164),
        phases=[
            phase("prepare", 15, 1, 14, evidence="annotation, structure"),
            phase("forward", 27, 30, 11, in_replays=part(10, 30), outside=part(17, 0)),
            phase("sample", None, 4, 4, reason="inside the graph replay", launches=summary(0, count=4)),
            phase("copy_back", 26, 1, 3, blocked_ns=per_step(16)),
            phase("between_steps", 132, 0, 132, launches=summary(0, count=4)),
        ],
    )


def serving(*names: str | None, reason: str | None = None, engine: str | None = None) -> ServingDoc:
    return ServingDoc(
        engine=engine, steps=4, idle_scope="steady", kinds=[kind(name) for name in names], kinds_reason=reason
    )


def told(document: ServingDoc | None, trace_pass: str | None = None) -> list[Listing]:
    trace = documents.trace(serving=document, trace_pass=trace_pass)
    return list(serving_story(trace))


def test_a_phase_a_row_and_the_step_that_they_add_up_to() -> None:
    (listing,) = told(serving(None, reason="all alike"))
    rows = [tuple(row.cells) for row in listing.table.rows]
    assert rows == [
        ("prepare inputs", "15.0 µs", "–", "1.00 µs", "14.0 µs", "1", "annotation, structure"),
        ("forward", "27.0 µs", "–", "30.0 µs", "11.0 µs", "1", "structure"),
        ("  in replays", "10.0 µs", "–", "30.0 µs", "–", "1", ""),
        ("  outside", "17.0 µs", "–", "0", "–", "1", ""),
        ("sample¹", "–", "–", "4.00 µs", "4.00 µs", "0", ""),
        ("copy back", "26.0 µs", "16.0 µs", "1.00 µs", "3.00 µs", "1", "structure"),
        ("until the next step", "132 µs", "–", "0", "132 µs", "0", "structure"),
        ("step", "200 µs", "–", "36.0 µs", "164 µs", "–", ""),
    ]
    assert listing.table.columns[0].title == "4 serving steps"
    assert listing.notes[0] == "inside the graph replay"
    assert listing.notes[-1] == "* all alike"


def test_prefill_and_decode_have_a_table_each() -> None:
    titles = [listing.table.columns[0].title for listing in told(serving("prefill", "decode", engine="vLLM"))]
    assert titles == ["vLLM: 4 prefill steps", "vLLM: 4 decode steps"]


def test_the_profilers_cost_of_graph_launches_is_told_of_our_own_recordings() -> None:
    notes = [listing.notes for trace_pass in ("cuda", None) for listing in told(serving("decode"), trace_pass)]
    assert [any("profiler's cost" in note for note in of_one) for of_one in notes] == [True, False]


def test_nothing_is_told_of_other_steps() -> None:
    assert told(None) == []


def test_it_fits_80_columns_and_stands_in_both_outputs() -> None:
    trace = documents.trace(serving=serving("prefill", "decode", engine="SGLang"))
    document = documents.traces_document(trace)
    text = report_story.render_terminal(report(document), width=80, color=False, verbose=False)
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "SGLang: 4 decode steps" in text
    assert "| copy back | 26.0 µs | 16.0 µs | 1.00 µs | 3.00 µs | 1 | structure |" in report_story.render_markdown(
        report(document)
    )
