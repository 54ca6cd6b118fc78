"""The card of a mode of several ranks: W stands beside what of it is no waiting."""

from __future__ import annotations

from pathlib import Path

import pytest
from launchscope.analysis.report import analyze, load
from launchscope.dashboard.opened_report import open_bands
from launchscope.dashboard.page.cards import cards

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"


def test_work_waiting_and_what_is_left_of_it() -> None:
    eager, _ = cards(open_bands(load(CAPTURES / "degrees" / "ranks-2.zip")))
    facts = {fact.label: fact.value for fact in eager.facts}
    assert facts["GPU work W"] == "36.0 ±0.1 ms"
    assert (facts["W without waiting"], facts["waiting"]) == ("1.97 ms", "19.9 ms")


def test_a_rank_that_others_recorded_has_the_work_of_its_verdict() -> None:
    found = {card.title: card for card in cards(open_bands(analyze(CAPTURES / "ranks")))}
    first = found["eager-cuda-rank0.json.gz"]
    facts = {fact.label: fact.value for fact in first.facts}
    assert (facts["GPU work W"], facts["W without waiting"]) == ("30.2 ms", "1.98 ms")
    assert "the GPU works 1.81 ms" in str(first.verdict)
    assert "collectives transfer for 173 µs" in str(first.verdict)


@pytest.mark.parametrize("name", ["degrees/ranks-1.zip", "llama_1b.zip"])
def test_one_rank_waits_for_nobody(name: str) -> None:
    for card in cards(open_bands(load(CAPTURES / name))):
        assert not {"W without waiting", "waiting"} & {fact.label for fact in card.facts}
