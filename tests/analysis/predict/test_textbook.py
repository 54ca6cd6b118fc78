"""The textbook model: its published table to the digit, and what can be worked out by hand."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.predict import textbook
from launchscope.analysis.predict.textbook import measured_values, model_document, step, steps
from launchscope.analysis.report import load

GIB = 2.0**30


@pytest.mark.parametrize(
    ("weights", "work", "serial", "graph", "speedup"),
    [(5.5, "5.9", "8.1", "5.9", "1.36"), (14.2, "15.2", "17.4", "15.3", "1.14")],
)
def test_the_published_table(weights: float, work: str, serial: str, graph: str, speedup: str) -> None:
    """430 kernels, 5 µs each, 1 TB/s."""
    told = step(weights * GIB, 430, 5_000, 1e12, 0)
    assert [f"{ns / 1e6:.1f}" for ns in (told.gpu_work_ns, told.serial_ns, told.graph_ns)] == [work, serial, graph]
    assert f"{told.speedup_serial:.2f}" == speedup


def test_a_step_by_hand() -> None:
    """1 GB at 1 TB/s takes 1 ms, 101 launches of 20 µs take 2.02 ms, 100 gaps of 1 µs 0.1 ms."""
    told = step(1e9, 101, 20_000, 1e12, 1_000)
    assert (told.gpu_work_ns, told.launch_ns) == (1e6, 2.02e6)
    assert (told.serial_ns, told.bound_ns, told.graph_ns) == (3.02e6, 2.02e6, 1.12e6)
    assert told.speedup_bound == pytest.approx(2.02 / 1.12)
    assert told.launch_tax_share == pytest.approx(2.02 / 3.02)


@given(st.floats(1e6, 1e12), st.floats(1.01, 100), st.integers(1, 10_000), st.floats(1, 1e6))
def test_the_share_of_the_launch_tax_rises_when_weights_shrink(
    weights: float, factor: float, kernels: int, tau: float
) -> None:
    large, small = (step(size, kernels, tau, 1e12, 0) for size in (weights, weights / factor))
    assert small.launch_tax_share > large.launch_tax_share


def test_every_combination_is_told_in_its_order() -> None:
    document = model_document(steps([1e9, 2e9], [10, 20], [5e3], [1e12]))
    assert [(each.weight_bytes, each.kernels) for each in document.steps] == [
        (1e9, 10),
        (1e9, 20),
        (2e9, 10),
        (2e9, 20),
    ]
    assert document.gpu_work_ns == 1e6
    text = textbook.render_terminal(document, width=80, color=False, verbose=False)
    assert text.startswith("PREDICTED: ")
    assert "nothing here was measured" in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_capture_without_its_traces_is_told_so(tmp_path: Path) -> None:
    with zipfile.ZipFile(Path(__file__).parents[3] / "fixtures" / "captures" / "faults" / "on_ladder.zip") as archive:
        archive.extractall(tmp_path / "capture")
    for trace in (tmp_path / "capture").rglob("*.json.gz"):
        trace.unlink()
    with pytest.raises(LaunchscopeError, match="its traces, as_written: its GPU work is not known: "):
        measured_values(load(tmp_path / "capture"))
