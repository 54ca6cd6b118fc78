"""The graph doctor on the page."""

from __future__ import annotations

from pathlib import Path

from launchscope.analysis.report import analyze
from launchscope.dashboard.opened import open_bands
from launchscope.dashboard.page.graph_view import graph_sections
from launchscope.fixtures.builder import TraceBuilder, trace

from .opening import built, capture


def replays() -> TraceBuilder:
    """Three steps of 100 µs, each a replay of two kernels."""
    builder = trace()
    for step in range(3):
        at = 100 * step
        builder.step(step, at, 90).graph_launch(at + 2, 5)
        builder.kernel(at + 10, 20, name="a").kernel(at + 31, 20, name="b")
    return builder


def test_one_line_where_all_is_well() -> None:
    (section,) = graph_sections(capture())
    assert section.sentences == (
        "graph and fused_graph: every kernel runs in a graph, and every launch behind the replay before it",
    )
    assert (section.title, section.rows) == ("", ())


def test_a_finding_has_its_line_what_to_do_and_what_says_so() -> None:
    (section,) = graph_sections(capture("faults/static_input"))
    (row,) = section.rows
    assert row[0] == "1"
    assert "the target's graph does not read the input 'token', at llama_1b_faults.py:208 in step" in row[1]
    assert row[1].endswith("[frozen_input]")
    assert row[2] == "overwrite what was captured: buffers.token.copy_(new)"
    assert row[3].startswith("changed by itself, it leaves the outputs of the step the same, bit for bit")
    assert len(section.columns) == len(row)


def test_findings_of_several_modes_are_all_there() -> None:
    opened = capture("faults/graph_break")
    profile = opened.report.document.profile
    assert profile is not None
    (section,) = graph_sections(opened)
    assert len(section.rows) == len(profile.graph_findings) > 0


def test_nothing_is_said_where_nothing_replays_nor_should() -> None:
    opened = built(lambda: trace().step(0, 0, 20).launch(1, 2).kernel(5, 10))
    assert opened is not None
    assert graph_sections(opened) == []


def test_traces_that_tell_the_same_are_told_together(tmp_path: Path) -> None:
    files = [replays().write(tmp_path / f"{name}.json") for name in ("one", "other")]
    (section,) = graph_sections(open_bands(analyze(*files, cache=False)))
    assert section.title == "one.json, other.json"
    assert "every kernel runs in a graph" in section.sentences[0]
    (alone,) = graph_sections(open_bands(analyze(files[0], cache=False)))
    assert alone.title == ""
