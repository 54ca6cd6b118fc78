"""One target on several numbers of ranks: which rank's figure stands in a row, by hand."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import launchscope
import msgspec
import pytest
from launchscope.analysis.model.document import ModeDoc, ProfileDoc, RankDoc, RanksDoc, RanksOfStepDoc, StepTimeDoc
from launchscope.analysis.predict import sweep_story
from launchscope.analysis.predict.sweep import Measured, ranks_rows, sweep_document

from ..captures import shipped

ONE = Path(launchscope.__file__).parent / "fixtures" / "captures" / "llama_1b.zip"
UNKNOWN: dict[str, Any] = {
    name: None for name in RankDoc.__struct_fields__ if name not in ("rank", "traces", "straggler", "error", "withheld")
}


def rank(number: int, **figures: Any) -> RankDoc:
    return RankDoc(**(UNKNOWN | {"rank": number, "traces": [], "straggler": False} | figures))


def together(step_ns: float | None, *ranks: RankDoc) -> RanksOfStepDoc:
    return RanksOfStepDoc(
        basis="profile",
        ranks=list(ranks),
        step_ns=None if step_ns is None else StepTimeDoc(median=step_ns, ci_low=None, ci_high=None),
        step_spread=None,
        stragglers=[],
        launch_skew_ns=None,
        alignment="same_host",
        steps_by=None,
        steps=0,
        collectives=0,
        groups=[],
        refused=[],
    )


@pytest.fixture(scope="module")
def one() -> ProfileDoc:
    profile = shipped("llama_1b.zip").document.profile
    assert profile is not None
    return profile


def test_one_rank_waits_for_nobody(one: ProfileDoc) -> None:
    eager, graph, *_ = ranks_rows(1, one)
    mode: ModeDoc = one.modes["eager"]
    assert (eager.ranks, eager.mode, eager.step_ns, eager.launches) == (1, "eager", mode.step_ns, mode.launches)
    assert eager.gpu_work_ns == eager.gpu_work_without_waiting_ns == mode.gpu_work_ns
    assert (eager.waiting_ns, eager.transfer_ns, eager.graph_speedup) == (None, None, None)
    assert eager.step_ns is not None
    assert graph.step_ns is not None
    assert graph.graph_speedup == eager.step_ns.median / graph.step_ns.median


def test_the_rank_that_pays_and_the_one_that_waits(one: ProfileDoc) -> None:
    slow = rank(0, launch_tax_ns=80.0, gpu_work_ns=20.0, gpu_work_without_waiting_ns=20.0, waiting_of_step_ns=0.0)
    fast = rank(1, launch_tax_ns=5.0, gpu_work_ns=95.0, gpu_work_without_waiting_ns=22.0, waiting_of_step_ns=73.0)
    ranks = RanksDoc(
        count=2,
        hosts=["a"],
        told=0,
        modes={"eager": together(100.0, slow, fast), "graph": together(None, rank(0), rank(1, error="out of memory"))},
    )
    profile = msgspec.structs.replace(one, modes={name: one.modes[name] for name in ("eager", "graph")}, ranks=ranks)
    eager, graph = ranks_rows(2, profile)
    assert eager.step_ns == StepTimeDoc(median=100.0, ci_low=None, ci_high=None)
    assert (eager.launch_tax_ns, eager.launch_share) == (80, pytest.approx((0.8 + 0.78) / 2))
    assert (eager.gpu_work_ns, eager.gpu_work_without_waiting_ns, eager.waiting_ns) == (95, 21, 73)
    assert (graph.step_ns, graph.graph_speedup, graph.launch_share) == (None, None, None)
    assert graph.error == "out of memory"


def test_a_sweep_over_ranks_is_a_table_of_its_own() -> None:
    document = sweep_document([Measured(1, ONE, None, "ranks"), Measured(4, None, "4 ranks can't share 2", "ranks")])
    assert (document.rows, document.knees, document.unmeasured) == ([], {}, {})
    assert [(row.ranks, row.mode) for row in document.ranks][:2] == [(1, "eager"), (1, "graph")]
    assert document.unmeasured_ranks == {4: "4 ranks can't share 2"}
    text = sweep_story.render_terminal(document, width=80, color=False, verbose=False)
    assert "4 ranks: 4 ranks can't share 2" in text
    assert "batch" not in text
