"""The graph doctor in the terminal and in Markdown."""

from __future__ import annotations

import re

import msgspec
import pytest
from launchscope.analysis import report_story
from launchscope.analysis.model.advisor_documents import (
    BetweenDoc,
    FindingDoc,
    GraphDoctorDoc,
    GraphLaunchDoc,
    GraphStepDoc,
    OutsideDoc,
)
from launchscope.analysis.model.document import ReportDocument
from rich.cells import cell_len

from ...render import documents
from ...render.documents import HOSTILE, report

LAUNCH = GraphLaunchDoc(
    count=8,
    per_step=1.0,
    nodes=735.0,
    host_ns=6_100.0,
    as_profiled_ns=500_000.0,
    source="calibration",
    exposed_ns=0.0,
)
ENGAGED = GraphDoctorDoc(
    engaged="all",
    scope="steps",
    kernels=5_880,
    kernels_in_graphs=5_880,
    kernel_ns=16_000_000,
    kernel_ns_in_graphs=16_000_000,
    launches_outside=0,
    replays=8,
    kernels_per_replay=[735, 735, 735],
    under_recorded=0,
    graph_launch=LAUNCH,
    fallback=None,
    outside=[],
    between=[],
    steps=[],
    findings=[],
)
FOUND = FindingDoc(
    code="capture_failed",
    what="the step can't be captured: aten::item waits for the GPU or depends on its results",
    evidence=["CUDA error: operation not permitted when stream is capturing"],
    line="model.py:42 in decode: if x.isfinite().all().item():",
    how="keep the value on the GPU",
    mode="graph, fused_graph",
)
UNSURE = FindingDoc(code="not_replayed", what="a replay is skipped", how="find out", basis="inferred", cost_ns=44_000)


def traces(doctor: GraphDoctorDoc) -> ReportDocument:
    return documents.traces_document(msgspec.structs.replace(documents.graph_trace(), graph_doctor=doctor))


def text(document: ReportDocument, width: int = 100, *, verbose: bool = False) -> str:
    return re.sub(
        r"\s+", " ", report_story.render_terminal(report(document), width=width, color=False, verbose=verbose)
    )


def profile(*findings: FindingDoc, graph: GraphDoctorDoc | None = None) -> ReportDocument:
    document = documents.profile_document()
    assert document.profile is not None

    recordings = list(document.traces)
    if graph is not None:
        recordings.append(msgspec.structs.replace(documents.graph_trace(), mode="graph", graph_doctor=graph))
    modes = msgspec.structs.replace(document.profile, graph_findings=list(findings))
    return msgspec.structs.replace(document, profile=modes, traces=recordings)


def test_all_well_is_one_line() -> None:
    told = text(traces(ENGAGED))
    assert (
        "graph doctor every kernel runs in a graph, 1 replay per step of 735 kernels · "
        "a launch takes the host 6.10 µs (unprofiled, calibrated), none of it exposed"
    ) in told


def test_parts_waits_and_lost_records_are_counted() -> None:
    wait = BetweenDoc(
        what="sync",
        name="cudaStreamSynchronize",
        operator=None,
        line=None,
        count=8,
        count_per_step=1.0,
        ns=80_000,
        idle_ns_per_step=51_700.0,
    )
    changed = msgspec.structs.replace(
        ENGAGED,
        engaged="part",
        kernels=6_000,
        kernel_ns=20_000_000,
        kernels_per_replay=[734, 735, 735],
        between=[wait, msgspec.structs.replace(wait, what="copy", count_per_step=3.0, idle_ns_per_step=None)],
        under_recorded=1,
        graph_launch=msgspec.structs.replace(LAUNCH, exposed_ns=6_100.0),
    )
    told = text(traces(changed))
    assert (
        "5,880 of 6,000 (98 %) kernels run in graphs, 80 % of their time; 1 replay per step of 734–735 kernels" in told
    )
    assert "6.10 µs exposed · beside it 1 wait, 3 copies per step, the GPU idle for 51.7 µs around waits" in told
    assert "1 replay lacks records: a fault of the trace, no fallback" in told


def test_with_verbose_all_that_is_beside_and_steps_that_differ() -> None:
    step = GraphStepDoc(
        step="step 1",
        replays=1,
        kernels=10,
        kernels_in_graphs=8,
        kernel_ns=20_000,
        kernel_ns_in_graphs=18_000,
        launches_outside=2,
    )
    fell = msgspec.structs.replace(step, step="step 2", replays=0, kernels_in_graphs=0, kernel_ns_in_graphs=0)
    outside = OutsideDoc(
        api="cudaLaunchKernel",
        operator="aten::argmax",
        line=HOSTILE,
        launches=16,
        kernels=16,
        kernel_ns=80_000,
        launches_per_step=2.0,
    )
    changed = msgspec.structs.replace(ENGAGED, engaged="part", outside=[outside], steps=[step, fell])
    told = text(traces(changed), 160, verbose=True)
    assert re.search(r"cudaLaunchKernel aten::argmax \S.* 2 80\.0 µs", told)
    assert "step 1 1 10 80 % 90 % step 2 0 10 0 % 0 %" in told
    assert "aten::argmax" not in text(traces(changed), 160)
    for width in (60, 80, 100):
        told = report_story.render_terminal(report(traces(changed)), width=width, color=False, verbose=True)
        assert max(cell_len(line) for line in told.splitlines()) <= width


def test_a_finding_has_mode_line_code_and_what_to_do() -> None:
    told = text(profile(FOUND, UNSURE), 300)
    assert "graph doctor no kernel runs in a graph replay" in told
    for words in ("graph, fused_graph: the step can't be captured", "model.py:42 in decode:", "[capture_failed]"):
        assert words in told
    assert "keep the value on the GPU" in told
    assert "it seems that a replay is skipped [not_replayed]" in told
    assert "find out; costs at most 44.0 µs a step" in told
    assert "operation not permitted" not in told
    assert "operation not permitted" in text(profile(FOUND), 300, verbose=True)


def test_a_long_list_is_cut_unless_all_is_asked_for() -> None:
    many = [msgspec.structs.replace(UNSURE, what=f"reason {number}") for number in range(7)]
    assert "… 2 more" in text(profile(*many))
    assert "reason 6" not in text(profile(*many))
    assert "reason 6" in text(profile(*many), verbose=True)


def test_markdown_has_the_same_list() -> None:
    told = report_story.render_markdown(report(profile(FOUND, graph=ENGAGED)))
    assert "- **graph doctor:** graph: every kernel runs in a graph" in told
    assert re.search(
        r"^1\. \*\*graph, fused_graph: the step can't be captured.* \\\[capture_failed\\\]\*\* keep", told, re.M
    )


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("verbose", [False, True])
def test_it_fits_and_foreign_text_is_harmless(width: int, verbose: bool) -> None:
    hostile = msgspec.structs.replace(FOUND, what=HOSTILE, line=HOSTILE, how=HOSTILE, evidence=[HOSTILE])
    for document in (
        profile(FOUND, hostile, graph=ENGAGED),
        traces(msgspec.structs.replace(ENGAGED, findings=[hostile])),
    ):
        told = report_story.render_terminal(report(document), width=width, color=False, verbose=verbose)
        assert max(cell_len(line) for line in told.splitlines()) <= width
        assert all(char == "\n" or char.isprintable() for char in told)
        assert "\x1b" not in report_story.render_markdown(report(document))
