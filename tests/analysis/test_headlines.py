"""No headline whose parts contradict each other: W and N·τ against T, and idle time against what T and W leave."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.model.document import TraceDoc
from launchscope.fixtures.builder import trace

from ..test_one_number import CAPTURES, SHIPPED
from .captures import shipped

RECORDED = sorted([*(CAPTURES / "vllm").glob("*.json.gz"), *(CAPTURES.parent / "traces").iterdir()])
APART = 0.1


def contradictions(found: TraceDoc) -> Iterator[str]:
    """From the document alone: T, W and the bound of one step, and the idle time of the window."""
    bound = found.bound
    device = next((each for each in found.devices if each.device == found.headline_device), None)
    if bound is None or bound.step_ns is None or device is None or found.verdict.verdict_class == "insufficient":
        return
    error = 1.001 if found.communication is None else 1.01  # waiting is by sums there, and T a median
    for name, ns in {"W": bound.gpu_work_ns, "bound": bound.bound_ns}.items():
        if ns is not None and ns > bound.step_ns * error + 1:
            yield f"{name} of {ns} ns in a step of {bound.step_ns}"
    idle = (device.steady or device).idle_fraction
    if idle is not None and bound.gpu_work_ns is not None and found.communication is None:
        left = 1 - bound.gpu_work_ns / bound.step_ns
        if abs(left - idle) > APART:
            yield f"{idle:.2f} of the window idle, {left:.2f} of the step"


@pytest.mark.parametrize("path", RECORDED, ids=lambda path: path.name)
def test_of_a_recording(path: Path) -> None:
    assert list(contradictions(analyze_trace(open_trace(path), name=path.name).document)) == []


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: str(path.relative_to(CAPTURES)))
def test_of_every_recording_of_a_capture(path: Path) -> None:
    report = shipped(str(path.relative_to(CAPTURES)))
    assert [told for found in report.document.traces for told in contradictions(found)] == []


def test_steps_that_differ_much_are_told_by_their_mean() -> None:
    """Four steps of 100 µs with 90 of work, and three of 1,000 with as much: the median step would be busy by 90 %."""
    builder, at = trace(), 0
    for took in (100, 1000, 100, 1000, 100, 1000, 100, 100):
        builder.step(at, at, took).launch(at, 5).kernel(at + 5, 90)
        at += took
    found = analyze_trace(builder.build(), name="x").document
    assert found.bound is not None
    assert found.bound.step_ns == pytest.approx(3_400_000 / 7)
    assert found.verdict.verdict_class != "gpu-bound"
    assert list(contradictions(found)) == []
