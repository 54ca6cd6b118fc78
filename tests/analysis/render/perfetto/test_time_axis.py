"""Ranks that ran together lie on one time axis as they ran: a collective ends on all of them at once."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.render.perfetto import clocks_of, placement, render
from launchscope.analysis.report import Report, analyze, load

from ...facts.ranks.ranks_by_hand import rank_trace
from ...profile.rank_captures import EARLY, LATE, two_ranks


def ends_apart_ns(report: Report) -> set[int]:
    """Between the ends of each collective of two ranks, as drawn."""
    shifts, _ = placement(report.analyses, clocks_of(report.document, report.analyses))
    by_run: dict[object, list[list[int]]] = {}
    for each, shift in zip(report.analyses, shifts, strict=True):
        by_run.setdefault((each.context.trace_pass, each.context.repeat), []).append(
            (each.context.collectives.end_ns + shift).tolist()
        )
    return {b - a for first, second in by_run.values() for a, b in zip(first, second, strict=True)}


@pytest.mark.parametrize(("hosts", "clock_us", "apart_us"), [(("a", "a"), 7, 7), (("a", "b"), 3_000_000, 0)])
def test_ranks_of_a_capture(tmp_path: Path, hosts: tuple[str, str], clock_us: int, apart_us: int) -> None:
    report = load(two_ranks(tmp_path / "capture", hosts=hosts, clock_us=clock_us))
    assert ends_apart_ns(report) == {1000 * apart_us}  # clocks of one host are the same: what they tell stays


def test_ranks_whose_first_kept_steps_are_not_the_same_one(tmp_path: Path) -> None:
    shorter = rank_trace(1, [LATE] * 3, first=2, clock=50)
    paths = [rank_trace(0, [EARLY] * 5).write(tmp_path / "0.json"), shorter.write(tmp_path / "1.json")]
    report = analyze(*paths, cache=False)
    shifts, _ = placement(report.analyses, clocks_of(report.document, report.analyses))
    assert shifts == [0, -50_000]


def test_names_tell_ranks_apart(tmp_path: Path) -> None:
    drawn = b"".join(render(load(two_ranks(tmp_path / "capture"))))
    for rank in (0, 1):
        assert f"eager · cuda · repeat 0 · rank {rank}".encode() in drawn
