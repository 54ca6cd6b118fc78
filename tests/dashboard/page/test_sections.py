"""Sections of the page: two bands compared, and how far graphs engaged."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.model.kernel_names import short_names
from launchscope.analysis.report import analyze
from launchscope.dashboard.opened_report import OpenedReport, open_bands
from launchscope.dashboard.page.sections import Section, compare_sections, graph_sections
from launchscope.fixtures.builder import TraceBuilder, trace

from ..opening import built, capture, two_modes


def sections(opened: OpenedReport, a: str, b: str) -> dict[str, Section]:
    return {section.key: section for section in compare_sections(opened, a, b)}


def rows(section: Section) -> dict[str, tuple[str, ...]]:
    return {row[0]: row for row in section.rows}


def test_the_cause_stands_first() -> None:
    first = compare_sections(capture(), "eager", "graph")[0]
    assert first.title == "From eager to graph"
    assert first.sentences[0].startswith("Graph replays were won: launches 718 → 1 per step")


def test_figures_side_by_side_with_their_change() -> None:
    """An eager step of 300 µs and a graph of 50: T is what was measured without a profiler."""
    figures = sections(two_modes(), "eager", "graph")["figures"]
    assert figures.columns == ("per step", "eager", "graph", "change")
    told = rows(figures)
    assert told["step T"] == ("step T", "300 µs", "50.0 µs", "−250 µs (−83 %)")
    assert told["launches"] == ("launches", "20", "1", "−19 (−95 %)")
    assert told["graph coverage"] == ("graph coverage", "0 %", "100 %", "+100 points")
    assert told["graph launches"][3] == "+1"


def test_fusing_by_hand_counted() -> None:
    found = sections(capture(), "eager", "fused")
    merged = found["merged"]
    assert merged.sentences == ("Inferred by aligning a step of each.",)
    sizes = [row[2].split(" → ") for row in merged.rows]
    times = [int(row[3]) for row in merged.rows]
    assert sum(int(was) * n for (was, _), n in zip(sizes, times, strict=True)) == 556
    assert sum(int(now) * n for (_, now), n in zip(sizes, times, strict=True)) == 85
    assert found["launches"].rows[0][:4] == ("cudaLaunchKernel", "–", "572", "0")


def test_rows_lead_to_their_op_in_the_timeline() -> None:
    opened = capture()
    for key, a, b in (("merged", "eager", "fused"), ("slower", "eager", "graph")):
        section = sections(opened, a, b)[key]
        assert len(section.ops) == len(section.rows) > 0
        for row, op in zip(section.rows, section.ops, strict=True):
            assert op is not None
            band = opened.band(op[0])
            assert band is not None
            assert band.key == b
            trace = band.analysis.context.trace
            name = trace.name(int(trace.gpu_ops.name[op[1]]))
            assert row[section.named].startswith(short_names([name])[name].split("<")[0])


def test_every_row_fits_its_columns() -> None:
    opened = capture()
    for a in opened.first:
        for b in opened.first:
            for section in compare_sections(opened, a, b):
                assert all(len(row) == len(section.columns) for row in section.rows), section.key
                assert all(isinstance(cell, str) for row in section.rows for cell in row)


def test_a_band_with_itself() -> None:
    found = sections(capture(), "graph", "graph")
    assert set(found) == {"causes", "figures"}
    assert found["causes"].sentences == ("Nothing changed beyond what the traces' own steps differ by.",)
    assert {row[3] for row in found["figures"].rows} == {"0"}


@pytest.mark.parametrize("pair", [("eager", "nothing"), ("nothing", "eager")])
def test_unknown_bands_have_no_comparison(pair: tuple[str, str]) -> None:
    assert compare_sections(capture(), *pair) == []


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
