"""A fixed budget of damaged files for every reader: no traceback, and what is read closes and is what it should be.

The long campaign is ``python -m tests.fuzz``; docs/robustness.md has its figures.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Final

import pytest
from launchscope.analysis.inputs.readers import read_trace

from .judge import is_proven_whole
from .mutants import mutant, outcome
from .promises import Broken
from .results import nothing_else_opened
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


@pytest.mark.parametrize("reader", READERS[:5])
def test_what_is_whole_is_proven_and_what_is_cut_is_not(reader: str) -> None:
    for seed in seeds(reader):
        if seed.name != "truncated file":
            opened = read_trace(seed.data, "x")
            assert is_proven_whole(seed.data, opened), seed.name
            assert not is_proven_whole(seed.data[:-2], opened), seed.name


def test_what_is_opened_elsewhere_is_seen(tmp_path: Path) -> None:
    inside, outside = tmp_path / "inside", tmp_path / "outside"
    inside.mkdir()
    with nothing_else_opened(inside):
        (inside / "x").write_bytes(b"")
    with pytest.raises(Broken, match=r"opened: .*outside"), nothing_else_opened(inside):
        outside.write_bytes(b"")
    with pytest.raises(Broken, match=r"opened: .*subprocess\.Popen"), nothing_else_opened(inside):
        subprocess.run([sys.executable, "-c", ""], check=True)


def test_a_number_names_the_same_mutant_again() -> None:
    for reader in READERS:
        assert mutant(reader, CAMPAIGN, 7) == mutant(reader, CAMPAIGN, 7)
        assert mutant(reader, CAMPAIGN, 7).data != mutant(reader, CAMPAIGN + 1, 7).data
