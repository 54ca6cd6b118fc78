"""The whole table: rows in the order of ranks, missing ranks, and what a run that stops leaves."""

from __future__ import annotations

import zipfile
from pathlib import Path

import pytest
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.many.document import RankRow
from launchscope.analysis.many.ranks import Stopped, analyze_ranks
from launchscope.analysis.model.errors import UnreadableInput

from .processes import workers_of
from .rank_files import rank_trace, write_ranks


def test_rows_are_by_rank_and_missing_ranks_are_told(tmp_path: Path) -> None:
    for rank in (11, 2, 7):
        rank_trace(rank, world=12).write(tmp_path / f"{chr(120 - rank)}.json")
    document = analyze_ranks(sources([tmp_path]), workers=1)
    assert [row.rank for row in document.rows] == [2, 7, 11]
    assert document.world_size == 12
    assert document.missing_ranks == [0, 1, 3, 4, 5, 6, 8, 9, 10]


def test_without_a_world_size_the_highest_rank_tells(tmp_path: Path) -> None:
    for rank in (0, 3):
        rank_trace(0).header(distributedInfo={}).write(tmp_path / f"rank{rank}.json")
    document = analyze_ranks(sources([tmp_path]), workers=1)
    assert (document.world_size, document.missing_ranks) == (None, [1, 2])


def test_a_file_that_is_given_twice_is_one(tmp_path: Path) -> None:
    paths = write_ranks(tmp_path, 2)
    assert len(analyze_ranks(sources([tmp_path, *paths]), workers=1).rows) == 2


def test_ranks_in_a_zip(tmp_path: Path) -> None:
    with zipfile.ZipFile(tmp_path / "run.zip", "w") as archive:
        for rank in range(5):
            archive.writestr(f"run/rank{rank}.json", rank_trace(rank, world=5).json())
    document = analyze_ranks(sources([tmp_path / "run.zip"]), workers=2)
    assert [(row.rank, row.steps, row.error) for row in document.rows] == [(rank, 6, None) for rank in range(5)]
    assert document.rows[3].path.endswith("run.zip/run/rank3.json")


def test_what_stops_in_the_middle_says_how_far_it_was(tmp_path: Path) -> None:
    write_ranks(tmp_path / "run", 5)

    def stop(done: int, total: int, row: RankRow) -> None:
        if done == 3:
            raise KeyboardInterrupt

    with pytest.raises(Stopped) as stopped:
        analyze_ranks(sources([tmp_path / "run"]), workers=2, resume=tmp_path / "kept", progress=stop)
    assert (stopped.value.finished, stopped.value.total) == (3, 5)
    assert not workers_of()
    assert analyze_ranks(sources([tmp_path / "run"]), workers=2, resume=tmp_path / "kept").resumed == 3


def test_nothing_to_read(tmp_path: Path) -> None:
    with pytest.raises(UnreadableInput, match="no such file or folder"):
        analyze_ranks(sources([tmp_path / "nowhere"]))
    with pytest.raises(UnreadableInput, match="no file matches this pattern"):
        analyze_ranks(sources([tmp_path / "*.json"]))
