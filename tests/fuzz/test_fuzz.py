"""A fixed budget of damaged files for every reader: no traceback, and what is read closes and is what it should be.

The long campaign is ``python -m tests.fuzz``; docs/robustness.md has its figures.
"""

from __future__ import annotations

from pathlib import Path
from typing import Final

import pytest

from .mutants import mutant, outcome
from .promises import Broken
from .seeds import READERS, seeds

CAMPAIGN: Final = 0
BUDGET: Final = {
    "kineto": 150,
    "kineto-gzip": 80,
    "perfetto": 60,
    "proton": 60,
    "nsys": 100,
    "trace-zip": 30,
    "capture-zip": 25,
    "results": 60,
}
OUTPUTS: Final = 5  # every so many of them are rendered, too


@pytest.mark.parametrize("reader", READERS)
def test_mutants_are_refused_or_read_right(reader: str, tmp_path: Path) -> None:
    count = {"read": 0, "refused": 0}
    for number in range(BUDGET[reader]):
        made = mutant(reader, CAMPAIGN, number)
        try:
            count[outcome(made, tmp_path, outputs=number % OUTPUTS == 0)] += 1
        except Exception as error:
            how = f"python -m tests.fuzz --campaign {CAMPAIGN} --write {reader} {number} FILE"
            raise Broken(f"{made.seed}, {made.how}: {error} ({how} writes it)") from error
    assert min(count.values()) > BUDGET[reader] // 20, "most are neither all refused nor all read"


@pytest.mark.parametrize("reader", READERS)
def test_whole_files_are_read_right(reader: str, tmp_path: Path) -> None:
    for seed in seeds(reader):
        made = mutant(reader, CAMPAIGN, 0)._replace(seed=seed.name, data=seed.data)
        assert outcome(made, tmp_path, outputs=True) == "read"


def test_a_number_names_the_same_mutant_again() -> None:
    for reader in READERS:
        assert mutant(reader, CAMPAIGN, 7) == mutant(reader, CAMPAIGN, 7)
        assert mutant(reader, CAMPAIGN, 7).data != mutant(reader, CAMPAIGN + 1, 7).data
