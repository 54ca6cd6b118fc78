"""What to do next, ranked: with evidence, a range, and one line that tries it."""

from __future__ import annotations

from functools import cache
from pathlib import Path

import launchscope
import pytest
from launchscope.analysis.model.document import ActionDoc, ProfileDoc, VerdictDoc
from launchscope.analysis.report import load

CAPTURES = Path(launchscope.__file__).parent / "fixtures" / "captures"
SHIPPED_BESIDE = Path(__file__).parents[3] / "fixtures" / "captures"


@cache
def profile_of(path: Path) -> ProfileDoc:
    found = load(path).document.profile
    assert found is not None
    return found


def verdict(path: Path, mode: str | None = None) -> VerdictDoc:
    profile = profile_of(path)
    found = profile.verdict if mode is None else profile.modes[mode].verdict
    assert found is not None
    return found


def kinds(actions: list[ActionDoc]) -> list[str | None]:
    return [action.kind for action in actions]


def test_what_was_measured_first_then_by_what_it_saves() -> None:
    """torch.compile was measured, and does what the fusion advisor finds: that is no proposal any more."""
    actions = verdict(CAPTURES / "llama_1b.zip").actions
    assert kinds(actions) == ["graph", "fused_graph", "few_streams", "left"]
    assert [action.basis for action in actions] == ["measured", "measured", "predicted", "measured"]


def test_without_a_compiled_run_the_fusions_are_proposed() -> None:
    item = SHIPPED_BESIDE / "regressions" / "serve_item.zip"
    actions = verdict(item).actions
    assert kinds(actions)[:3] == ["graph", "fuse:residual_norm", "fuse:rope_kv"]
    saves = [action.saves_ns for action in actions if action.saves_ns is not None]
    assert saves == sorted(saves, reverse=True)
    for action in actions:
        assert action.how
        assert action.evidence or (action.detail or "").startswith("first: ")
        if action.saves_ns is not None:
            assert action.high_ns is None or action.saves_ns <= action.high_ns
    norm = actions[1]
    assert "in a graph" in (norm.detail or "")
    assert "llama.py(68): forward" in (norm.evidence or "")
    assert norm.how == "torch.nn.functional.rms_norm, or torch.compile of the norm"


def test_what_stands_in_the_way_of_a_graph_says_how_it_goes() -> None:
    actions = verdict(SHIPPED_BESIDE / "regressions" / "serve_item.zip").actions
    assert actions[0].kind == "graph"
    assert (actions[0].how or "").startswith("keep the value on the GPU (torch.where, a mask)")
    assert "waits_in_step" not in kinds(actions)  # told with the graph


@pytest.mark.parametrize("mode", ["graph", "fused_graph"])
def test_other_modes_are_told_what_is_theirs(mode: str) -> None:
    """Of a graph a fusion is worth its GPU work and node gaps; none is proposed that torch.compile was seen to do."""
    actions = verdict(CAPTURES / "llama_1b.zip", mode).actions
    assert not [action for action in actions if (action.kind or "").startswith("fuse:residual")]
