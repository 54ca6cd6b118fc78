"""A finished check as people read it: the answer first, what fails before what holds, in every width."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from launchscope.analysis.compare import check_story
from launchscope.analysis.compare import check_story as check_words
from launchscope.analysis.compare.documents import CheckDoc
from launchscope.analysis.model import units
from rich.cells import cell_len

from . import check_documents
from .check_documents import CHECKS, check, finding, holding, part, side, slower


def text(doc: CheckDoc, width: int = 100, *, verbose: bool = False) -> str:
    return check_story.render_terminal(doc, width=width, color=False, verbose=verbose)


@pytest.mark.parametrize("width", [60, 80, 100, 140])
@pytest.mark.parametrize("name", CHECKS)
def test_every_check_fits(name: str, width: int) -> None:
    lines = text(CHECKS[name](), width).splitlines()
    assert max(map(cell_len, lines)) <= width
    assert "None" not in "\n".join(lines)


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("regression", "REGRESSION: 2 of 4 limits are broken: llama_1b.py, graph (launches, graph_coverage)"),
        ("inconclusive", "INCONCLUSIVE: 1 of 2 limits can't be told: llama_1b.py, graph (step_time)"),
        ("to fix", "TO FIX: 1 of 2 limits can't be checked: llama_1b.py, graph (step_time)"),
        ("holds", "All 3 limits hold."),
        ("one limit", "The only limit holds."),
        ("the only one broken", "REGRESSION: the only limit is broken: llama_1b.py, graph (launches)"),
        ("all broken", "REGRESSION: all 3 limits are broken: llama_1b.py, graph (launches, kernels, runs)"),
        ("none to be told", "INCONCLUSIVE: none of 2 limits can be told: llama_1b.py, graph (step_time, launch_tax)"),
        ("nothing", "Nothing was checked."),
    ],
)
def test_the_first_line_is_the_answer(name: str, first: str) -> None:
    assert text(CHECKS[name]()).splitlines()[0] == first
    assert check_story.render_markdown(CHECKS[name]()).startswith("**")


def test_a_regression_whole() -> None:
    told = text(check_documents.regression(), 140)
    assert told.index("llama_1b.py, graph") < told.index("llama_1b.py, eager"), "what fails comes first"
    rows = [line.split() for line in told.splitlines() if " per " not in line]
    figures = [row[0] for row in rows if row and row[0] in ("launches", "graph_coverage", "blocking_calls")]
    assert figures[:3] == ["launches", "graph_coverage", "blocking_calls"]
    assert re.search(r"launches +735 +<= 300 +REGRESSION +1 +\+734 +launchscope.toml \[limits.graph\]", told)
    assert re.search(r"graph_coverage +0 % +>= 0.95 +REGRESSION +100 % +−100 points", told)
    assert "look first: cudaLaunchKernel from aten::mm, at model.py(42): forward" in told
    assert "Graph replays were lost: launches 1 → 735 per step" in told
    assert "mode fused: not in the baseline" in told
    assert "commit 3f2c1a9d0b7e · 2026-11-29 · 8 processes · NVIDIA H200" in told


def test_a_change_is_told_with_its_interval_and_processes() -> None:
    told = text(check(part(slower(), baseline=side())), 140)
    row = r"step_time +2\.41 ms +\+3% \(2\.36 ms\) +REGRESSION +2\.29 ms +\+5\.1 % \(\+3\.9 to \+6\.2 %\) +8, 8"
    assert re.search(row, told)
    assert "too few processes" in text(check_documents.inconclusive(), 140)
    paired = slower(interval=check_documents.interval(paired=True))
    assert "8 pairs" in text(check(part(paired, baseline=side())), 140)


def test_only_a_change_that_is_an_estimate_has_an_interval() -> None:
    assert "change (99 %)" in text(check(part(slower(), baseline=side())), 140)
    counted = text(check_documents.regression(), 140)
    assert "change  " in counted
    assert "99 %" not in counted


def test_whether_a_mode_runs_is_yes_or_no() -> None:
    told = text(CHECKS["all broken"](), 140)
    assert re.search(r"runs +no +yes +REGRESSION +yes +– +launchscope.toml", told)


def test_what_differs_between_the_machines_is_said() -> None:
    assert "gpu NVIDIA H200, the baseline's NVIDIA A100" in text(check_documents.to_fix())


@pytest.mark.parametrize(
    ("unit", "measured", "allowed", "written"),
    [
        ("share", 0.9496, 0.95, "94.96 %"),
        ("share", 0.5, 0.95, "50 %"),
        ("ns", 2_291_000.0, 2_290_000.0, "2.291 ms"),
        ("count", 300.02, 300.0, "300"),
        ("count", 300.04, 300.01, "300.04"),
        ("bytes", 1_048_577.0, 1_048_576.0, "1,048,577 B"),
    ],
)
def test_a_broken_limit_never_reads_as_kept(unit: str, measured: float, allowed: float, written: str) -> None:
    told = check_words.measured(finding(unit=unit, measured=measured, allowed=allowed))
    assert told.startswith(written)
    assert told != units.written(allowed, unit)


def test_causes_of_what_holds_are_told_when_asked() -> None:
    doc = check(part(holding(), causes=["1 extra kernel"]))
    assert "extra kernel" not in text(doc)
    assert "extra kernel" in text(doc, verbose=True)


@settings(deadline=None, max_examples=40)
@given(check_documents.checks())
def test_no_name_leaves_its_place(doc: CheckDoc) -> None:
    told = text(doc)
    assert check_documents.draws(told)
    assert not re.search(r"^\s*::|##\[|##vso\[", told, re.MULTILINE), "a command to a CI runner"
    written = check_story.render_markdown(doc)
    assert check_documents.draws(written)
    for table in re.findall(r"(?:^\|.*\n)+", written, re.MULTILINE):
        assert len({len(re.findall(r"(?<!\\)(?:\\\\)*\|", line)) for line in table.splitlines()}) == 1
