"""Figures of one rank of several beside those of one process: said so, and W taken without waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.compare import compare_story
from launchscope.analysis.compare.baselines import setup_difference
from launchscope.analysis.compare.compared_paths import compare
from launchscope.analysis.compare.snapshot import snapshots_of
from launchscope.analysis.predict.textbook import measured_values

from ..captures import shipped

DEGREES = Path(__file__).parents[3] / "fixtures" / "captures" / "degrees"


def test_the_number_of_ranks_is_a_part_of_the_setup() -> None:
    (one, _), (two, _) = (snapshots_of(shipped(f"degrees/ranks-{ranks}.zip").document) for ranks in (1, 2))
    assert (one.ranks, two.ranks) == (1, 2)
    assert setup_difference(one, two) == "ranks 1, not 2"
    assert setup_difference(two, two) == ""


def test_a_comparison_says_which_rank_it_is_of() -> None:
    comparison = compare(DEGREES / "ranks-1.zip", DEGREES / "ranks-2.zip", mode="graph")
    text = compare_story.render_terminal(comparison, width=140, color=False, verbose=False)
    before, after = (line for line in text.splitlines() if line.startswith(("before ", "after ")))
    assert "rank" not in before
    assert after.endswith("llama_1b_tp.py · rank 0 of 2")


def test_the_textbook_starts_from_work_without_waiting() -> None:
    report = shipped("degrees/ranks-2.zip")
    profile = report.document.profile
    assert profile is not None
    eager = profile.modes["eager"]
    assert eager.gpu_work_ns == pytest.approx(36.0e6, rel=1e-3)
    assert measured_values(report).gpu_work_ns == eager.gpu_work_without_waiting_ns == pytest.approx(1.97e6, rel=5e-3)
