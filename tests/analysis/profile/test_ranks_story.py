"""Several ranks as people read them."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis import report_story
from launchscope.analysis.report import analyze, load
from rich.cells import cell_len

from ..facts.ranks.ranks_by_hand import rank_trace
from ..profile.rank_captures import EARLY, LATE, two_ranks


def told(path: Path, width: int, *, verbose: bool = False) -> str:
    return report_story.render_terminal(load(path), width=width, color=False, verbose=verbose)


@pytest.mark.parametrize("width", [80, 140])
def test_it_fits_and_names_the_late_one(tmp_path: Path, width: int) -> None:
    text = told(two_ranks(tmp_path / "capture"), width)
    assert max(map(cell_len, text.splitlines())) <= width
    flat = " ".join(text.split())
    assert "1 mode × 3 processes of each of 2 ranks, figures of rank 0" in flat
    assert "eager of rank 0 is BETWEEN-STEPS-BOUND" in flat
    assert "rank 1 is late: the last to arrive in 10 of 10 (100 %) collectives with a wait" in flat
    assert "the others wait 90.0 µs a step for it" in flat
    assert "20 collectives of 10 steps matched, steps paired by the profiler's step numbers" in flat
    assert "one host, one clock: ends of collectives 0 apart, ±0" in flat


def test_a_row_of_each_rank_under_all_of_them(tmp_path: Path) -> None:
    lines = told(two_ranks(tmp_path / "capture"), 140).splitlines()
    head = next(i for i, line in enumerate(lines) if line.startswith("2 ranks on 1 host"))
    assert lines[head + 1].split()[:4] == ["eager:", "all", "520", "µs"]
    assert lines[head + 2].split()[:2] == ["rank", "0"]
    assert "210 µs" in lines[head + 2]
    assert "120 µs" in lines[head + 2]
    assert "100 %" in lines[head + 3]


def test_a_failed_rank_has_its_error_in_its_row(tmp_path: Path) -> None:
    text = told(two_ranks(tmp_path / "capture", failed={1: "rank 1 was killed by signal 9"}), 120)
    (row,) = (line for line in text.splitlines() if line.startswith("  rank 1"))
    assert row.endswith("  rank 1 was killed by signal 9")
    assert "only rank 0 of process group [0, 1] was given" in text


def test_hosts_are_named_where_there_are_several_and_cannot_write_markup(tmp_path: Path) -> None:
    path = two_ranks(tmp_path / "capture", hosts=("a|b\x1b[31m", "*two*"), clock_us=3_000_000)
    text = told(path, 140)
    assert "\x1b" not in text
    assert "2 ranks on 2 hosts" in text
    assert "rank 1 on *two*" in text
    assert "clocks aligned on collectives: up to 3.00 s apart, ±0" in text
    page = report_story.render_markdown(load(path))
    assert "rank 1 on \\*two\\*" in page
    assert "a\\|b" in page


def test_traces_of_others(tmp_path: Path) -> None:
    paths = [rank_trace(r, [own] * 5).write(tmp_path / f"rank{r}.json") for r, own in enumerate((EARLY, LATE))]
    page = report_story.render_markdown(analyze(*paths, cache=False))
    assert "| 2 ranks | step T |" in page
    assert "- **collectives:** 2 per step (all-reduce) · exposed 110 µs · transfer 20.0 µs · waiting 90.0 µs" in page


def test_refused_collectives_are_a_concern(tmp_path: Path) -> None:
    short = [LATE, LATE[:1], LATE, LATE, LATE]
    paths = [rank_trace(r, own).write(tmp_path / f"rank{r}.json") for r, own in enumerate(([EARLY] * 5, short))]
    text = report_story.render_terminal(analyze(*paths, cache=False), width=140, color=False, verbose=False)
    assert "not matched    ! process group [0, 1]: 1 steps in which ranks differ in their number of collectives" in text


def test_many_ranks_are_told_by_the_slowest(tmp_path: Path) -> None:
    paths = [rank_trace(r, [LATE] * 4, world=20).write(tmp_path / f"rank{r}.json") for r in range(20)]
    report = analyze(*paths, cache=False)
    short, full = (
        report_story.render_terminal(report, width=140, color=False, verbose=verbose) for verbose in (False, True)
    )
    assert short.count("  rank ") == 16
    assert "4 more" in short
    assert full.count("\n  rank ") == 20


def test_none_is_late_by_both_counts_and_the_most_awaited_is_named() -> None:
    """Two H200s, a graph: neither is last surely enough; the others wait 6.5 µs a step of 2.35 ms for rank 0."""
    text = told(Path(__file__).parents[3] / "fixtures" / "captures" / "degrees" / "ranks-2.zip", 140)
    flat = " ".join(text.split())
    assert "no straggler: none is surely last in most collectives and waited for 1 % of a step" in flat
    assert "longest for rank 0: 6.50 µs a step, last in 65 %" in flat
    assert "one host, one clock: ends of collectives 126 ns apart, ±259 ns" in flat
