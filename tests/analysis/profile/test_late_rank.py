"""The late rank of the recordings beside the slower host of every process; rank 1 is late in rank_captures."""

from __future__ import annotations

import json
import zipfile
from pathlib import Path
from statistics import median

import pytest
from launchscope.analysis import report_story
from launchscope.analysis.model.document import WarningDoc
from launchscope.analysis.report import load

from ..captures import shipped
from .rank_captures import two_ranks

RANKS_2 = Path(__file__).parents[3] / "fixtures" / "captures" / "degrees" / "ranks-2.zip"


def warned(path: Path, mode: str = "eager") -> list[WarningDoc]:
    profile = load(path).document.profile
    assert profile is not None
    assert profile.ranks is not None
    return profile.ranks.modes[mode].warnings


def test_the_slower_host_is_another_in_one_process_of_three(tmp_path: Path) -> None:
    path = two_ranks(tmp_path / "capture", submits_us={0: (300, 420, 312), 1: (340, 400, 300)})
    assert warned(path) == []  # 5 % longer and 4 % longer
    path = two_ranks(tmp_path / "other", submits_us={0: (300, 425, 312), 1: (340, 400, 300)})
    (told,) = warned(path)
    assert (told.code, told.count) == ("late_rank_differs", 1)
    assert "recorded, rank 1 is late" in told.message
    assert "in 1 of 3 processes (rank 0 425 µs against 400 µs)" in told.message


@pytest.mark.parametrize("submits", [{0: (300, 300, 300), 1: (400, 400, 400)}, {0: (100, 100, 100), 1: (90, 90, 90)}])
def test_not_where_the_late_rank_has_the_slower_host_or_no_host_holds_the_step_up(
    tmp_path: Path, submits: dict[int, tuple[float, ...]]
) -> None:
    """The GPU works 120 µs of each step: hosts that submit it in 100 and 90 µs are waited for by nobody."""
    assert warned(two_ranks(tmp_path / "capture", submits_us=submits)) == []


def test_two_gpus_by_the_raw_manifest() -> None:
    with zipfile.ZipFile(RANKS_2) as capture:
        processes = json.loads(capture.read("manifest.json"))["modes"]["eager"]["processes"]
    submits = {(p["repeat"], p["rank"]): median(p["host_submit_ns"]) for p in processes}
    assert [submits[repeat, 0] > 1.05 * submits[repeat, 1] for repeat in range(3)] == [False, True, True]
    (told,) = warned(RANKS_2)
    assert told.count == 2
    assert "in 2 of 3 processes (rank 0 25.9 ms against 22.3 ms, rank 0 23.5 ms against 17.7 ms)" in told.message
    assert warned(RANKS_2, "graph") == []
    shown = report_story.render_terminal(shipped("degrees/ranks-2.zip"), width=140, color=False, verbose=False)
    flat = " ".join(shown.split())
    assert "which rank is late differs between processes" in flat
    assert "[late_rank_differs]" in flat
