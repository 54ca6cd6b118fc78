"""The simulator against steps whose host was delayed for real, on an H200: from the pace of the GPU to the host's."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import median

import pytest
from launchscope.analysis.predict.whatif import what_if
from launchscope.analysis.report import load
from launchscope.analysis.step_model import Knobs

SPIN = Path(__file__).parents[3] / "fixtures" / "captures" / "spin"


@pytest.mark.parametrize(("name", "off"), [("batch-4096-1", 0.05), ("batch-4096-2", 0.08), ("batch-3584", 0.08)])
def test_the_curve_of_step_times_over_host_delays(name: str, off: float) -> None:
    """Its bend, too: at batch 4,096 the GPU takes 39 ms, and the host so much from a delay of about 12 µs on."""
    measured = json.loads((SPIN / f"{name}.json").read_text())
    report = load(SPIN / f"{name}.zip")
    assert report.document.profile is not None
    launches = report.document.profile.modes["eager"].launches
    assert launches is not None
    for delay, times in measured["step_ns"].items():
        per_launch = int(delay) * measured["operators"] / launches
        told = what_if(report, Knobs(delay_ns=per_launch))
        assert told.predicted_ns == pytest.approx(median(times), rel=off), delay


def test_a_sweep_on_an_h200() -> None:
    from launchscope.analysis.predict.sweep import Measured, sweep_document

    folder = SPIN.parent / "sweep"
    document = sweep_document([Measured(size, folder / f"batch-{size}.zip") for size in (1, 256, 2048)])
    assert document.knees == {"eager": 2048, "graph": 1}
    graph = {row.batch_size: row for row in document.rows if row.mode == "graph"}
    assert {size: row.launches for size, row in graph.items()} == {1: 1, 256: 1, 2048: 1}
    assert graph[1].graph_memory_bytes < graph[256].graph_memory_bytes < graph[2048].graph_memory_bytes  # type: ignore[operator]
    assert graph[2048].tokens_per_s == pytest.approx(104_000, rel=0.01)
