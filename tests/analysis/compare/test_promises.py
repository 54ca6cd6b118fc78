"""How much of an advice came true, on captures of an H200 and by hand."""

from __future__ import annotations

from pathlib import Path

import launchscope
import pytest
from launchscope.analysis.compare.compare_story import promise
from launchscope.analysis.compare.compared_paths import Comparison, compare
from launchscope.analysis.compare.documents import KeptPromiseDoc

CAPTURES = Path(__file__).parents[3] / "fixtures" / "captures"
LLAMA = Path(launchscope.__file__).parent / "fixtures" / "captures" / "llama_1b.zip"


@pytest.fixture(scope="module")
def merged() -> Comparison:
    """The plain model, and the one whose projections were merged by hand."""
    return compare(LLAMA, CAPTURES / "fusion" / "llama_1b_fused.zip")


def of(comparison: Comparison, name: str) -> KeptPromiseDoc | None:
    return next(each.promise for each in comparison.document.comparisons if each.name == name)


def test_merged_projections_gave_what_was_promised_of_a_graph(merged: Comparison) -> None:
    kept = of(merged, "graph")
    assert kept is not None
    assert kept.done == ["QKV projection in 16 of 16", "gate + up projection in 16 of 16"]
    assert kept.promised_ns == pytest.approx(214_000, abs=3_000)
    assert kept.came_ns == pytest.approx(220_000, abs=3_000)
    assert kept.promised_ns is not None
    assert kept.share == pytest.approx(kept.came_ns / kept.promised_ns)
    assert kept.launches_promised is None


def test_eager_the_launches_went_and_the_noise_is_told(merged: Comparison) -> None:
    kept = of(merged, "eager")
    assert kept is not None
    assert (kept.launches_promised, kept.launches_came) == (48, 48)
    assert kept.promised_ns == pytest.approx(48 * 12_700, rel=0.01)
    assert not kept.told
    assert "too few processes to tell it from noise" in " ".join(promise(kept))


def test_a_compiled_mode_has_no_promise_of_the_eager_advisor(merged: Comparison) -> None:
    assert of(merged, "fused") is None


def test_a_graph_that_came_is_held_against_its_prediction() -> None:
    """An .item() kept the step from its graph; without it T falls from 13.4 to 2.05 ms."""
    regressions = CAPTURES / "regressions"
    comparison = compare(regressions / "serve_item.zip", regressions / "serve.zip")
    kept = comparison.document.comparisons[0].promise
    assert kept is not None
    assert kept.done == ["replay the step as one CUDA graph"]
    assert kept.promised_ns is not None
    assert kept.came_ns == pytest.approx(11.35e6, rel=0.01)
    assert kept.share == pytest.approx(1, abs=0.05)
    assert kept.launches_promised is None


def test_nothing_done_is_nothing_promised() -> None:
    item = CAPTURES / "regressions" / "serve_item.zip"
    assert [each.promise for each in compare(item, item).document.comparisons] == [None]


def test_the_words_by_hand() -> None:
    kept = KeptPromiseDoc(
        done=["a"], promised_ns=2e6, promised_low_ns=1e6, promised_high_ns=3e6, came_ns=1.5e6, share=0.75, told=True,
        launches_promised=10.0, launches_came=9.0,
    )  # fmt: skip
    assert list(promise(kept)) == [
        "a",
        "2.00 ms (1.00–3.00) predicted · 1.50 ms of the step time went, 75 % of it",
        "10 launches predicted to go · 9 went",
    ]
