"""The card of a mode of several ranks: W stands beside what of it is no waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.report import load
from launchscope.dashboard.opened_report import open_bands
from launchscope.dashboard.page.cards import cards

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"


def test_work_waiting_and_what_is_left_of_it() -> None:
    eager, _ = cards(open_bands(load(CAPTURES / "degrees" / "ranks-2.zip")))
    facts = {fact.label: fact.value for fact in eager.facts}
    assert (facts["GPU work W"], facts["but waiting"], facts["waiting"]) == ("36.0 ±0.1 ms", "1.97 ms", "19.9 ms")


@pytest.mark.parametrize("name", ["degrees/ranks-1.zip", "llama_1b.zip"])
def test_one_rank_waits_for_nobody(name: str) -> None:
    for card in cards(open_bands(load(CAPTURES / name))):
        assert not {"but waiting", "waiting"} & {fact.label for fact in card.facts}
