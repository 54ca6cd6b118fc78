"""docs/tensor-parallel.md: every row of its table comes out of two captures of one and of two H200s."""

from __future__ import annotations

from pathlib import Path

import launchscope
import pytest
from launchscope.analysis.document import StepTimeDoc
from launchscope.analysis.report import load
from launchscope.analysis.scaling import RanksRowDoc
from launchscope.analysis.sweep import Measured, sweep_document

PROJECT = Path(__file__).parents[2]
DEGREES = PROJECT / "fixtures" / "captures" / "degrees"
PAGE = (PROJECT / "docs" / "tensor-parallel.md").read_text()


@pytest.fixture(scope="module")
def rows() -> list[RanksRowDoc]:
    measured = [Measured(ranks, DEGREES / f"ranks-{ranks}.zip", None, "ranks") for ranks in (1, 2)]
    return sweep_document(measured).ranks


def ms(ns: float | None, digits: int = 2) -> str:
    return "–" if ns is None else f"{ns / 1e6:.{digits}f}"


def told(row: RanksRowDoc) -> str:
    step = row.step_ns
    assert step is not None
    cells = [
        str(row.ranks),
        row.mode,
        interval(step),
        "–" if row.graph_speedup is None else f"{row.graph_speedup:.1f}×",
        f"{row.kernels:.0f}",
        f"{row.launches:.0f}",
        ms(row.launch_tax_ns),
        ms(row.waiting_ns),
        f"{row.launch_share:.0%}".replace("%", " %"),
        ms(row.gpu_work_without_waiting_ns),
        ms(row.transfer_ns, 3),
    ]
    return f"| {' | '.join(cells)} |"


def interval(step: StepTimeDoc) -> str:
    return f"{ms(step.median)} ({ms(step.ci_low)} to {ms(step.ci_high)})"


def test_each_row_of_the_table(rows: list[RanksRowDoc]) -> None:
    assert len(rows) == 4
    for row in rows:
        assert told(row) in PAGE


def test_what_the_page_says_of_them(rows: list[RanksRowDoc]) -> None:
    profile = load(DEGREES / "ranks-2.zip").document.profile
    assert profile is not None
    assert profile.ranks is not None
    late = profile.ranks.modes["eager"].ranks[1]
    assert f"rank 1 arrived last in {late.arrived_last} of {late.arrivals} collectives" in PAGE
    compiled = load(DEGREES / "compiled-2.zip").document.profile
    assert compiled is not None
    graph = compiled.modes["fused_graph"]
    assert graph.step_ns is not None
    assert graph.exposed_idle_ns is not None
    assert f"{ms(graph.step_ns.median)} ms as a graph on two ranks" in PAGE
    assert f"T − W is {ms(graph.exposed_idle_ns)} ms" in PAGE
    one, two = (next(row for row in rows if (row.ranks, row.mode) == (ranks, "graph")) for ranks in (1, 2))
    assert one.gpu_work_without_waiting_ns is not None
    assert two.gpu_work_without_waiting_ns is not None
    assert two.transfer_ns is not None
    shrinks = one.gpu_work_without_waiting_ns - (two.gpu_work_without_waiting_ns - two.transfer_ns)
    assert f"shrinks by {ms(shrinks)} ms only" in PAGE


@pytest.mark.parametrize(
    ("capture", "mode", "all_reduce", "measured"),
    [
        (DEGREES / "ranks-1.zip", "graph", "15us", "ranks-2"),
        (DEGREES / "ranks-1.zip", "graph", "7.6us", "ranks-2"),
        (DEGREES.parent / "llama_1b.zip", "fused_graph", "7.6us", "compiled-2"),
    ],
)
def test_what_a_simulation_said(capture: Path, mode: str, all_reduce: str, measured: str) -> None:
    found = launchscope.whatif(capture, mode=mode, tensor_parallel=2, all_reduce=all_reduce)
    profile = load(DEGREES / f"{measured}.zip").document.profile
    assert profile is not None
    step = profile.modes[mode].step_ns
    assert step is not None
    off = f"{found.predicted_ns / step.median - 1:+.1%}".replace("-", "−").replace("%", " %")
    predicted = f"{ms(found.predicted_ns)} ({ms(found.low_ns)} to {ms(found.high_ns)})"
    assert f"| {predicted} | {ms(step.median)} | {off} |" in PAGE
    assert (found.low_ns <= step.median <= found.high_ns) == (all_reduce != "15us")
