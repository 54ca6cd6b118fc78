"""What can be trusted: the answers for traces that lack one thing each."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest
from launchscope.analysis.profile.health import HealthDocument, TraceHealthDoc
from launchscope.analysis.report import load
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES
from ...nsys_builder import ExportBuilder, export
from ..captures import two_modes, write_capture

GOOD = {
    "GPU work and kernels": "yes",
    "idle time": "yes",
    "why the GPU was idle": "yes",
    "host time": "with care",
    "figures per step": "yes",
    "operators of kernels": "yes",
}


def steps(count: int = 12, *, operators: bool = True) -> TraceBuilder:
    """A good recording: steps of two kernels, each launched by an operator."""
    builder = trace()
    for number in range(count):
        at = 100 * number
        builder.step(number, at, 90)
        for start in (at + 5, at + 45):
            if operators:
                builder.op("aten::mm", start, 20)
            builder.launch(start + 2, 5).kernel(start + 10.5, 20)
    return builder


def health(builder: TraceBuilder, tmp_path: Path) -> TraceHealthDoc:
    (found,) = load(builder.write(tmp_path / "step.json")).health().traces
    return found


def answers(found: TraceHealthDoc) -> dict[str, str]:
    return {answer.figure: answer.trusted for answer in found.trust}


def test_a_good_recording(tmp_path: Path) -> None:
    found = health(steps(), tmp_path)
    assert answers(found) == GOOD
    assert (found.complete, found.unreliable, found.advice) == (True, [], [])
    assert (found.first_step, found.dropped) == ("ProfilerStep#0", [])


@pytest.mark.parametrize(
    ("builder", "differ", "advice"),
    [
        (steps(3), {"figures per step": "with care"}, "record 10 to 20 steady decode steps"),
        (steps().python("model.py(1): step", 0, 90), {}, "leave Python stacks"),
        (
            steps().cut(40),
            {"GPU work and kernels": "with care", "idle time": "no", "why the GPU was idle": "with care"},
            "record fewer steps in a fresh process",
        ),
        (
            steps().launch(1300, 5).kernel(1310, -5),
            {"GPU work and kernels": "no", "idle time": "no"},
            "record again",
        ),
    ],
    ids=["few steps", "stacks", "cut", "below zero"],
)  # fmt: skip
def test_what_is_lacking_is_told_with_what_to_do(
    builder: TraceBuilder, differ: dict[str, str], advice: str, tmp_path: Path
) -> None:
    found = health(builder, tmp_path)
    assert answers(found) == GOOD | differ
    assert any(line.startswith(advice) for line in found.advice)
    assert all(answer.reason for answer in found.trust if answer.trusted != "yes")


def kernels_alone() -> TraceBuilder:
    """What CUDA activity alone records: no annotations, no operators."""
    return trace().launch(0, 5).kernel(10, 4.5).launch(20, 5).kernel(30, 4.5)


@pytest.mark.parametrize(
    ("builder", "reason", "advice"),
    [
        (kernels_alone(), "none was recorded", ["add ProfilerActivity.CPU: operators say what a kernel belongs to"]),
        (steps(operators=False), "none was recorded", []),  # the CPU's side was recorded: there were none
        (NAMED_CASES["graph replay"](), "graph replays run none", ["record the step without graphs too"]),
    ],
    ids=["cuda alone", "no operators", "graph"],
)
def test_operators_are_asked_for_where_they_are_to_be_had(
    builder: TraceBuilder, reason: str, advice: list[str], tmp_path: Path
) -> None:
    found = health(builder, tmp_path)
    (operators,) = (answer for answer in found.trust if answer.figure == "operators of kernels")
    assert (operators.trusted, operators.reason) == ("no", reason)
    asked = [line for line in found.advice if "what a kernel belongs to" in line]
    assert [line[: len(words)] for line, words in zip(asked, advice, strict=True)] == advice


@pytest.mark.parametrize(
    ("export_of", "advice"),
    [
        (export().launch(0, 5), " while the GPU works, and synchronise before the recording stops"),
        (export().launch(0, 5).kernel(9, 4).drop("CUPTI_ACTIVITY_KIND_RUNTIME"), " and export the report whole"),
        (export().graph_launch(0, 5).graph_trace(9, 4).launch(20, 5).kernel(30, 4), ": only then are the GPU ops"),
    ],
    ids=["no GPU op", "no API calls", "whole graphs"],
)  # fmt: skip
def test_of_an_nsys_file_it_says_what_to_do_with_nsys(export_of: ExportBuilder, advice: str, tmp_path: Path) -> None:
    (found,) = load(export_of.write(tmp_path / "x.sqlite")).health().traces
    assert found.advice[0].startswith(f"record with `nsys profile --trace=cuda,nvtx --cuda-graph-trace=node`{advice}")
    assert not [line for line in (*found.advice, *(w.message for w in found.warnings)) if "ProfilerActivity" in line]


@pytest.mark.parametrize(
    ("case", "figure", "trusted", "advice"),
    [
        ("missing launches", "why the GPU was idle", "no", "record CPU and CUDA activity together"),
        ("missing launches", "figures per step", "no", "mark the steps with profiler.step()"),
        ("negative latency", "why the GPU was idle", "no", "record one profiler session per process"),
        ("whole microseconds", "idle time", "with care", "record with torch 2.3 or newer"),
        ("graph captured before profiling", "why the GPU was idle", "with care", "record 10 to 20 steady"),
        ("empty", "every figure of the GPU", "no", "record CPU and CUDA activity together"),
    ],
)
def test_of_the_named_cases(case: str, figure: str, trusted: str, advice: str, tmp_path: Path) -> None:
    found = health(NAMED_CASES[case](), tmp_path)
    assert answers(found)[figure] == trusted
    assert any(line.startswith(advice) for line in found.advice)


@pytest.mark.parametrize("case", NAMED_CASES)
def test_every_case_is_told_and_comes_back_from_json(case: str, tmp_path: Path) -> None:
    document = load(NAMED_CASES[case]().write(tmp_path / "case.json")).health()
    assert msgspec.json.decode(msgspec.json.encode(document), type=HealthDocument) == document
    assert document.traces[0].trust
    assert bool(document.traces[0].unreliable) is not document.traces[0].coverage.reliable


def test_dropped_steps_have_their_reasons(tmp_path: Path) -> None:
    found = health(steps().step(12, at=1200, dur=90), tmp_path)
    assert [(each.step, each.reason) for each in found.dropped] == [("ProfilerStep#12", "no GPU work in it")]


def test_a_capture_tells_its_lost_recordings(tmp_path: Path) -> None:
    path = write_capture(tmp_path / "kept", two_modes())
    (path / "traces/graph-2-cuda.json.gz").unlink()
    document = load(path).health()
    assert [(each.mode, each.trace_pass) for each in document.traces].count(("graph", "cuda")) == 1
    assert [each.path for each in document.unread] == ["graph"]
    assert "graph-2-cuda" in document.unread[0].reason


def test_every_name_of_it_is_documented() -> None:
    page = (Path(__file__).parents[3] / "docs" / "cli.md").read_text(encoding="utf-8")
    own = {field.encode_name for field in msgspec.structs.fields(TraceHealthDoc)}
    assert [name for name in sorted(own) if f"`{name}`" not in page] == []
    assert json.loads(msgspec.json.encode(HealthDocument(launchscope="0", traces=[], unread=[])))["schema"] in page
