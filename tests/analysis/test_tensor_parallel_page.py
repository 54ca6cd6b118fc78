"""docs/tensor-parallel.md: every row of its table comes out of two captures of one and of two H200s."""

from __future__ import annotations

import gzip
import json
import statistics
import zipfile
from collections.abc import Iterator, Mapping
from itertools import pairwise
from pathlib import Path
from typing import Any

import launchscope
import pytest
from launchscope.analysis.model.document import StepTimeDoc
from launchscope.analysis.predict.sweep import Measured, RanksRowDoc, sweep_document

from .captures import shipped

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
    profile = shipped("degrees/ranks-2.zip").document.profile
    assert profile is not None
    assert profile.ranks is not None
    late = profile.ranks.modes["eager"].ranks[1]
    assert f"rank 1 arrived last in {late.arrived_last} of {late.arrivals} collectives" in PAGE
    compiled = shipped("degrees/compiled-2.zip").document.profile
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


def by_place(name: str, mode: str) -> Iterator[list[Mapping[str, Any]]]:
    """The GPU ops of one graph after another of rank 0, from its JSON alone; the first replay is left out."""
    with zipfile.ZipFile(DEGREES / f"{name}.zip") as capture:
        (member,) = (m for m in capture.namelist() if mode in m and "rank1" not in m and m.endswith(".gz"))
        events = json.loads(gzip.decompress(capture.read(member)))["traceEvents"]
    ops = sorted((e for e in events if e.get("cat") in ("kernel", "gpu_memset")), key=lambda e: e["ts"])
    size = len(ops) // 8
    for first in range(size, len(ops), size):
        yield ops[first : first + size]


def matmuls(name: str) -> list[float]:
    """q, k, v, o, gate, up: the median duration of each in a graph, µs."""
    found: list[list[float]] = [[] for _ in range(6)]
    for step in by_place(name, "graph"):
        own = [op["dur"] for op in step if "nvjet" in op["name"]]
        for place, dur in enumerate(own[: 7 * 16]):
            if place % 7 < 6:
                found[place % 7].append(dur)
    return [round(statistics.median(durations), 1) for durations in found]


def gaps(name: str, mode: str) -> list[float]:
    """Before an all-reduce, behind one, and between other ops: medians in µs."""
    found: list[list[float]] = [[], [], []]
    for step in by_place(name, mode):
        end = step[0]["ts"] + step[0]["dur"]
        for before, op in pairwise(step):
            kind = 0 if "nccl" in op["name"] else 1 if "nccl" in before["name"] else 2
            found[kind].append(op["ts"] - end)
            end = max(end, op["ts"] + op["dur"])
    return [round(statistics.median(each), 1) for each in found]


def test_what_the_page_says_of_single_kernels() -> None:
    assert matmuls("ranks-1") == [5.7, 5.4, 5.3, 5.6, 10.4, 10.2]
    assert matmuls("ranks-2") == [10.8, 5.4, 5.3, 4.3, 6.6, 6.7]
    flat = " ".join(PAGE.split())
    assert "gate and up go from 10.3 to 6.7 µs, the o projection from 5.6 to 4.3" in flat
    assert "q goes from 5.7 to 10.8" in flat
    assert gaps("ranks-2", "graph") == [2.3, 0.6, 0.4]
    assert gaps("compiled-2", "fused_graph") == [5.1, 1.8, 0.4]


def test_a_step_takes_as_long_as_the_slower_host() -> None:
    """Ranks launch on while their GPUs wait: T is the larger of both hosts' times, not the sum of the slower parts."""
    with zipfile.ZipFile(DEGREES / "ranks-2.zip") as capture:
        processes = json.loads(capture.read("manifest.json"))["modes"]["eager"]["processes"]
    for repeat, told in enumerate(("28.0", "25.9", "23.5")):
        own = [p for p in processes if p["repeat"] == repeat]
        step = max(statistics.median(p["samples_ns"]) for p in own)
        submits = [statistics.median(p["host_submit_ns"]) for p in own]
        assert ms(step, 1) == told
        assert step == pytest.approx(max(submits), rel=0.01)


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
    profile = shipped(f"degrees/{measured}.zip").document.profile
    assert profile is not None
    step = profile.modes[mode].step_ns
    assert step is not None
    off = f"{found.predicted_ns / step.median - 1:+.1%}".replace("-", "−").replace("%", " %")
    predicted = f"{ms(found.predicted_ns)} ({ms(found.low_ns)} to {ms(found.high_ns)})"
    assert f"| {predicted} | {ms(step.median)} | {off} |" in PAGE
    assert (found.low_ns <= step.median <= found.high_ns) == (all_reduce != "15us")
