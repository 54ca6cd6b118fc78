"""Two bands compared, as the page shows it."""

from __future__ import annotations

import pytest
from launchscope.analysis.model.kernel_names import short_names
from launchscope.dashboard.opened import Opened
from launchscope.dashboard.page.compare_view import Section, compare_sections

from .opening import capture, two_modes


def sections(opened: Opened, a: str, b: str) -> dict[str, Section]:
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
            trace = band.analysis.trace
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
