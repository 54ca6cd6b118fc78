"""Which files are of ranks that ran together."""

from __future__ import annotations

import pytest
from launchscope.analysis.facts.ranks.pairing import sets_of_files


@pytest.mark.parametrize(
    ("names", "ranks", "sets"),
    [
        (["a", "b", "c"], [2, 0, 1], [[0, 1, 2]]),
        (["a-rank0", "b-rank0", "a-rank1", "b-rank1"], [0, 0, 1, 1], [[0, 2], [1, 3]]),
        (["a/tp-0", "a/tp-1", "b/tp-0"], [0, 1, 0], [[0, 1]]),
        (["x", "y"], [0, 0], []),
        (["rank0", "rank0-again", "rank1"], [0, 0, 1], [[0, 2]]),
        (["alone"], [0], []),
    ],
)
def test_by_ranks_else_by_names(names: list[str], ranks: list[int], sets: list[list[int]]) -> None:
    assert sets_of_files(names, ranks) == sets
