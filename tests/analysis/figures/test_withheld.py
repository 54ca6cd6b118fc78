"""Every figure that is null has its reason, and the report has both: null, and the reason under its path."""

from __future__ import annotations

import ast
from pathlib import Path

import launchscope
import msgspec
import pytest
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.figures.figure import Withheld, known, settle
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES


def withheld(builder: TraceBuilder) -> dict[str, str]:
    return analyze_trace(builder.build(), name="tiny").document.withheld


def test_no_gpu_op() -> None:
    assert {"headline_device", "bound", "steps"} <= withheld(trace()).keys()


def test_no_launches() -> None:
    reasons = withheld(NAMED_CASES["missing launches"]())
    assert reasons["launches.latency_ns.median"] == "no launches in the file"
    assert reasons["graphs.coverage_by_count"] == "no kernel has its launch in the file"


def test_no_steady_scope() -> None:
    assert "devices.0.steady" in withheld(NAMED_CASES["one eager step"]())
    assert withheld(NAMED_CASES["eager steps"]()) == {}


PACKAGE = Path(launchscope.__file__).parent


class Part(msgspec.Struct, frozen=True):
    ns: int | None
    label: str = ""


class Whole(msgspec.Struct, frozen=True):
    parts: list[Part]
    names: list[str]
    total: Part | None = None
    share: float | None = None


def test_what_is_withheld_is_null_and_its_reason_stands_under_its_path() -> None:
    document = Whole(
        parts=[Part(ns=1), Part(ns=known(None, "no launches"))],
        names=["a"],
        total=known(None, "no step"),
        share=known(0.0, "never needed"),
    )
    found, reasons = settle(document, "whole")
    assert found == Whole(parts=[Part(ns=1), Part(ns=None)], names=["a"], total=None, share=0.0)
    assert reasons == {"whole.parts.1.ns": "no launches", "whole.total": "no step"}


def test_a_document_that_is_withheld_as_a_whole_is_null() -> None:
    assert settle(Withheld("no GPU op"), "bound") == (None, {"bound": "no GPU op"})


def test_null_without_a_reason_is_just_null() -> None:
    assert settle(Whole(parts=[], names=[], total=known(None, None))) == (Whole(parts=[], names=[]), {})


@pytest.mark.parametrize("room", ["figures", "profile"])
def test_nobody_writes_the_path_of_what_is_withheld(room: str) -> None:
    """A reason stands where the figure is computed: no second list of paths."""
    for file in (PACKAGE / "analysis" / room).glob("*.py"):
        for node in ast.walk(ast.parse(file.read_text("utf-8"))):
            is_item = isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Store)
            assert not (is_item and "withheld" in ast.unparse(node)), f"{file.name}:{node.lineno}"  # type: ignore[attr-defined]
