"""A sweep's document: rows from captures, knees, and the histogram of batch sizes."""

from __future__ import annotations

from pathlib import Path

import launchscope
import pytest
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.predict import sweep_story
from launchscope.analysis.predict.sweep import Measured, read_histogram, sweep_document

LLAMA = Path(launchscope.__file__).parent / "fixtures" / "captures" / "llama_1b.zip"


def test_a_row_per_batch_and_mode() -> None:
    document = sweep_document([Measured(1, LLAMA), Measured(64, None, "out of memory")])
    assert [(row.batch_size, row.mode) for row in document.rows] == [
        (1, "eager"),
        (1, "graph"),
        (1, "fused"),
        (1, "fused_graph"),
    ]
    eager, graph, *_ = document.rows
    assert eager.tokens_per_s == pytest.approx(1e9 / 9_428_000, rel=1e-3)
    assert graph.graph_memory_bytes == 36 * 2**20
    assert document.knees == {"eager": None, "graph": 1, "fused": None, "fused_graph": 1}
    text = sweep_story.render_terminal(document, width=80, color=False, verbose=False)
    assert "eager: the GPU waits at every batch up to 1" in text
    assert "batch 64: out of memory" in text
    assert "of one process" not in text  # of three
    assert max(map(len, text.splitlines())) <= 80


def test_a_histogram_needs_what_was_measured() -> None:
    document = sweep_document([Measured(1, LLAMA)], histogram={1: 10.0})
    assert document.ladder == document.better_ladder
    assert document.ladder is not None
    assert (document.ladder.padding, document.ladder.fallback) == (0, 0)
    with pytest.raises(LaunchscopeError, match="a batch of 3 lies outside of the measured ones"):
        sweep_document([Measured(1, LLAMA)], histogram={3: 1.0})
    with pytest.raises(LaunchscopeError, match="nothing was measured: out of memory"):
        sweep_document([Measured(64, None, "out of memory")])


def test_a_csv_of_batch_sizes(tmp_path: Path) -> None:
    file = tmp_path / "batches.csv"
    file.write_text("batch,steps\n1,10\n13, 2.5\n\n1,5\n")
    assert read_histogram(file) == {1: 15, 13: 2.5}
    for text, said in (
        ("1,x", "line 1: write a batch size, a comma"),
        ("batch,steps\n0,3", "line 2: write a batch size"),
        ("batch,steps\n", "no batch size in it"),
    ):
        file.write_text(text)
        with pytest.raises(LaunchscopeError, match=said):
            read_histogram(file)
    with pytest.raises(LaunchscopeError, match="no such file"):
        read_histogram(tmp_path / "none.csv")
