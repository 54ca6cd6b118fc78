"""The table of docs/formats.md, "What a report can tell, by format", against a small recording in each format."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import launchscope
import pytest
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.model.trace import NONE, HostKind, OpKind
from launchscope.analysis.report import load

from ..nsys_builder import ExportBuilder, export
from .inputs.readers import test_proton
from .inputs.readers.test_perfetto_json import converted
from .test_dresses import FRACTION, analysis_of, encoded, hip, of_2021, plain, recording, since_1970, xpu

PAGE = (Path(__file__).parents[2] / "docs" / "formats.md").read_text("utf-8")
HEADING = "## What a report can tell, by format\n"


def with_graph_ids(fraction: Decimal = FRACTION) -> list[dict[str, Any]]:
    """The recording of all dresses, its nodes with the ids that CUPTI gives."""
    ids = {"graph id": 6, "graph node id": 9}
    return [{**e, "args": {**e["args"], **ids}} if "node_" in e["name"] else e for e in recording(fraction).events()]


def nsys(year: int) -> TraceAnalysis:
    builder = export(year)
    for step in range(4):
        at = 200 * step
        builder.range(f"step {step}", at, 190).launch(at + 1, 5).kernel(at + 10, 4)
        builder.launch(at + 15, 5, "cudaMemcpyAsync").memcpy(at + 25, 4).launch(at + 30, 5, "cudaMemsetAsync")
        builder.memset(at + 40, 4).graph_launch(at + 45, 5).kernel(at + 60, 4, graphNodeId=6 << 32 | 1, graphId=6)
        builder.launch(at + 70, 20, "cudaStreamSynchronize")
    return built(builder)


def nsys_whole_graphs() -> TraceAnalysis:
    builder = export(2022)
    for step in range(4):
        at = 200 * step
        builder.range(f"step {step}", at, 190).launch(at + 1, 5).kernel(at + 10, 4)
        builder.launch(at + 15, 5, "cudaMemcpyAsync").memcpy(at + 25, 4)
        builder.graph_launch(at + 45, 5).graph_trace(at + 60, 40).launch(at + 70, 20, "cudaStreamSynchronize")
    return built(builder)


def built(builder: ExportBuilder) -> TraceAnalysis:
    return analyze_trace(builder.build(), name="x")


def of_2021_as_it_was() -> bytes:
    """In whole µs, and without the Python frames that torch.profiler learned later."""
    return of_2021([e for e in recording(Decimal(0)).events() if e["cat"] != "python_function"])


def filtered() -> bytes:
    return encoded([e for e in with_graph_ids() if "device" in e["args"]])


SAMPLES: dict[str, Callable[[], TraceAnalysis]] = {
    "Kineto, CUDA": lambda: analysis_of(plain(with_graph_ids())),
    "Kineto, HIP": lambda: analysis_of(hip(recording().events())),
    "Kineto, XPU": lambda: analysis_of(xpu(recording().events())),
    "Kineto of 2021 (`Kernel`, `Runtime`, `Operator`)": lambda: analysis_of(of_2021_as_it_was()),
    "Kineto, µs since 1970": lambda: analysis_of(since_1970(with_graph_ids())),
    "Kineto, filtered to GPU ops": lambda: analysis_of(filtered()),
    "nsys SQLite of 2020": lambda: nsys(2020),
    "nsys SQLite of 2022": lambda: nsys(2022),
    "nsys SQLite of 2025": lambda: nsys(2025),
    "nsys SQLite, graphs as a whole": nsys_whole_graphs,
    "Proton": lambda: analysis_of(test_proton.new().encode()),
    "Perfetto's JSON": lambda: analysis_of(converted(encoded(with_graph_ids(Decimal(0))))),
}


def rows() -> dict[str, list[str]]:
    """Cells by format, without what follows their first words."""
    lines = [line for line in PAGE.partition(HEADING)[2].partition("\n## ")[0].splitlines() if line.startswith("|")]
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines[2:]]
    return {name: [cell.partition(",")[0].partition(":")[0] for cell in rest] for name, *rest in cells}


def told(analysis: TraceAnalysis) -> list[str]:
    """The same cells, from what was read."""
    trace, document = analysis.context.trace, analysis.document
    kinds, host = set(trace.gpu_ops.kind.tolist()), set(trace.host_ops.kind.tolist())
    found = {
        "kernels": OpKind.KERNEL in kinds,
        "copies, sets": bool(kinds & {OpKind.MEMCPY, OpKind.MEMSET}),
        "launches": len(trace.launches) > 0,
        "blocking calls": len(trace.blocking_calls) > 0,
        "operators": bool((trace.launches.operator_row != NONE).any()),
        "stacks": HostKind.PYTHON in host,
        "graph ids": bool((trace.gpu_ops.graph != NONE).any()),
        "steps": document.coverage.step_source in ("profiler_step", "annotation", "capture"),
    }
    times = "whole µs" if trace.whole_us else "ns"
    has_verdict = document.verdict is not None and document.verdict.verdict_class != "insufficient"
    return [*map(_yes, found.values()), times, _yes(has_verdict)]


def _yes(whether: bool) -> str:
    return "yes" if whether else "no"


@pytest.mark.parametrize("name", SAMPLES)
def test_the_row_says_what_is_read(name: str) -> None:
    assert rows()[name] == told(SAMPLES[name]())


def test_the_row_of_captures() -> None:
    """Of all its traces together."""
    capture = Path(launchscope.__file__).parent / "fixtures" / "captures" / "llama_1b.zip"
    of_traces = [told(analysis) for analysis in load(capture).analyses]
    assert rows()["capture"] == ["yes" if "yes" in cells else cells[0] for cells in zip(*of_traces, strict=True)]


def test_there_are_no_other_rows() -> None:
    assert set(rows()) == {*SAMPLES, "capture"}
