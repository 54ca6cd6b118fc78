"""One step of 1,000 µs, and what decides its class."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.figures.verdict import StepFacts, largest_tax, verdict
from launchscope.analysis.model import units
from launchscope.analysis.model.document import TAXES, ActionDoc, VerdictDoc

US = 1_000.0


def taxes(**us: float) -> dict[str, float]:
    return {tax: us.get(tax, 0.0) * US for tax in TAXES}


EAGER = StepFacts(
    basis="profile",
    step_ns=1_000 * US,
    gpu_work_ns=200 * US,
    gpu_ops=100,
    launches=100,
    tau_ns=9.5 * US,
    taxes_ns=taxes(launch=700, other=100),
    node_gap_ns=300,
)


@pytest.mark.parametrize(
    ("split", "name"),
    [
        (taxes(launch=400, sync=400), "launch-bound"),  # half is enough; the first of two equals
        (taxes(launch=300, node=500), "node-bound"),
        (taxes(sync=800), "sync-bound"),
        (taxes(stall=500, launch=300), "stall-bound"),
        (taxes(between_steps=700, launch=100), "between-steps-bound"),
        (taxes(other=700, launch=100), "mixed"),  # the largest tax names no cause
        (taxes(launch=300, sync=250, node=250), "mixed"),  # none makes half
        (None, "mixed"),
    ],
)
def test_the_largest_tax_names_the_class(split: dict[str, float] | None, name: str) -> None:
    assert verdict(replace(EAGER, taxes_ns=split)).verdict_class == name


def test_gpu_bound_comes_before_every_tax() -> None:
    busy = replace(EAGER, gpu_work_ns=850 * US, taxes_ns=taxes(launch=150))
    assert verdict(busy).verdict_class == "gpu-bound"
    assert verdict(replace(busy, gpu_work_ns=849 * US)).verdict_class == "launch-bound"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"unreliable": ("12 % of the GPU ops have no launch",)}, "12 % of the GPU ops have no launch"),
        ({"gpu_ops": 0}, "no GPU op"),
        ({"has_steps": False, "gpu_ops": 99}, "99 GPU ops and no steps"),
        ({"step_ns": None}, "step time"),
    ],
)
def test_too_little_to_judge_by(change: dict[str, object], words: str) -> None:
    told = verdict(replace(EAGER, **change))  # type: ignore[arg-type]
    assert told.verdict_class == "insufficient"
    assert words in told.reason
    assert told.actions == []


def test_a_hundred_ops_without_steps_are_enough() -> None:
    told = verdict(replace(EAGER, has_steps=False))
    assert told.verdict_class == "launch-bound"
    assert "of a 1.00 ms window" in told.reason


def test_the_reason_holds_the_numbers_that_decided() -> None:
    assert verdict(EAGER).reason == (
        "the GPU works 200 µs of a 1.00 ms step (20 %); 88 % of its idle time (700 µs of 800 µs) is waiting for "
        "launches; 100 launches × 9.50 µs = 950 µs of host time"
    )


def test_a_trace_says_that_it_was_profiled() -> None:
    assert "1.00 ms step, as profiled (20 %)" in verdict(replace(EAGER, basis="trace")).reason


@pytest.mark.parametrize(("work_us", "edge"), [(809, False), (811, True), (889, True), (891, False)])
def test_on_the_edge_within_the_uncertainty(work_us: float, edge: bool) -> None:
    told = verdict(replace(EAGER, gpu_work_ns=work_us * US, work_uncertainty_ns=40 * US))
    assert told.on_the_edge is edge
    assert ("on the edge" in told.reason) is edge


@pytest.mark.parametrize(
    ("change", "edge"),
    [
        ({"gpu_work_ns": 860 * US}, "W ÷ T is 0.86, below 0.85 it is launch-bound"),
        ({"gpu_work_ns": 830 * US}, "W ÷ T is 0.83, 0.85 is gpu-bound"),
        ({"taxes_ns": taxes(launch=408, node=392)}, "launch tax ÷ idle is 0.51, below 0.5 it is mixed"),
        (
            {"taxes_ns": taxes(between_steps=392, node=208, launch=200)},
            "between steps tax ÷ idle is 0.49, 0.5 is",
        ),
        ({"taxes_ns": taxes(launch=500, node=300)}, None),
    ],
)
def test_the_edge_names_the_class_on_the_other_side(change: dict[str, object], edge: str | None) -> None:
    told = verdict(replace(EAGER, **change))  # type: ignore[arg-type]
    assert told.reason.partition("; on the edge: ")[2].startswith(edge or "")
    assert told.on_the_edge is (edge is not None)


def test_whole_µs_tell_no_tax_below_their_error() -> None:
    """100 launches of 150 ops: 50 node gaps of ±2 µs, 100 launches of ±2."""
    coarse = replace(EAGER, gpu_ops=150, clock_ns=US, taxes_ns=taxes(node=100), gpu_work_ns=200 * US)
    assert verdict(coarse).verdict_class == "insufficient"
    assert verdict(coarse).reason.endswith("is within the error of 100 µs")
    assert verdict(replace(coarse, taxes_ns=taxes(node=101))).verdict_class == "node-bound"
    assert verdict(replace(coarse, taxes_ns=taxes(launch=200))).verdict_class == "insufficient"


def only(told: VerdictDoc) -> ActionDoc:
    assert len(told.actions) == 1
    return told.actions[0]


@pytest.mark.parametrize(
    ("tau_us", "told"),
    [
        (9.5, "at most 50.0 µs of it while this rank's own launches take 950 µs of host time"),
        (2.0, None),  # 200 µs of host time: all of the waiting is the late rank's
    ],
)
def test_what_a_late_rank_alone_can_give_back_is_limited_by_the_own_host(tau_us: float, told: str | None) -> None:
    waits = replace(EAGER, gpu_work_ns=800 * US, waiting_ns=700 * US, taxes_ns=taxes(launch=200), tau_ns=tau_us * US)
    (act,) = (action for action in verdict(waits).actions if action.kind == "wait")
    assert act.high_ns == 700 * US
    assert act.detail == told


def test_a_graph_saves_down_to_its_prediction() -> None:
    act = only(verdict(replace(EAGER, taxes_ns=taxes(launch=800), predicted_graph_ns=230 * US, work_uncertainty_ns=13)))
    assert act.what == "replay the step as one CUDA graph"
    assert (act.saves_ns, act.share, act.step_ns) == (770 * US, 0.77, 230 * US)
    assert (act.low_ns, act.high_ns) == (770 * US - 13, 770 * US + 13)


def test_a_graph_without_prediction_saves_the_launch_tax_but_pays_node_gaps() -> None:
    act = only(verdict(replace(EAGER, taxes_ns=taxes(launch=800), gpu_ops=101, node_gap_ns=None)))
    assert act.saves_ns == 800 * US - 100 * 350
    assert (act.low_ns, act.high_ns) == (800 * US - 100 * 520, 800 * US - 100 * 40)
    assert "not this machine" in (act.detail or "")


def test_what_waits_must_leave_the_step_before_it_is_captured() -> None:
    """No capture holds a sync; an obstacle that a capture met says more."""
    facts = replace(EAGER, taxes_ns=taxes(launch=800), blocking=("cudaStreamSynchronize in aten::item",))
    first = "first: take cudaStreamSynchronize in aten::item out of the step: no capture holds a call that waits"
    assert only(verdict(facts)).detail == first
    assert only(verdict(replace(facts, predicted_graph_ns=230 * US))).detail == first
    met = replace(facts, predicted_graph_ns=230 * US, graph_obstacle="step.py:7 copies to the host")
    assert only(verdict(met)).detail == "first: step.py:7 copies to the host"


def test_the_profilers_part_of_the_launch_tax_is_told_and_saves_nothing() -> None:
    """Of 700 µs launch tax 660 are the profiler's: 40 are left, too few for an action."""
    told = verdict(replace(EAGER, basis="trace", observer_ns=660 * US))
    assert told.verdict_class == "launch-bound"
    assert (
        "(700 µs of 800 µs) is waiting for launches, but 660 µs of that stand before graph replays: mostly the "
        "profiler's own cost"
    ) in told.reason
    assert told.actions == []
    act = only(verdict(replace(EAGER, basis="trace", gpu_ops=101, observer_ns=400 * US)))
    assert act.saves_ns == 300 * US - 100 * 300  # the node gaps come to 30 µs


def test_profiled_host_time_is_called_so() -> None:
    assert verdict(replace(EAGER, host_as_profiled=True)).reason.endswith("= 950 µs of host time, as profiled")
    lone = replace(EAGER, launches=1, host_as_profiled=True)
    assert verdict(lone).reason.endswith("1 launch takes 9.50 µs of host time, as profiled")


def test_a_sync_saves_only_what_the_host_leaves() -> None:
    facts = replace(EAGER, taxes_ns=taxes(sync=800), tau_ns=6 * US, blocking=("cudaStreamSynchronize in aten::item",))
    act = only(verdict(facts))
    assert act.what == "take the blocking calls out of the step (cudaStreamSynchronize in aten::item)"
    assert (act.saves_ns, act.low_ns, act.high_ns) == (800 * US, 400 * US, 800 * US)


def test_a_stall_leaves_one_launch_interval_in_twenty() -> None:
    act = only(verdict(replace(EAGER, taxes_ns=taxes(stall=800))))
    assert (act.saves_ns, act.high_ns) == (760 * US, 800 * US)


def test_small_taxes_are_not_worth_an_action() -> None:
    told = verdict(replace(EAGER, taxes_ns=taxes(sync=751, launch=49)))
    assert [a.what.split()[0] for a in told.actions] == ["take"]


def test_a_busy_gpu_has_its_floor_left() -> None:
    told = verdict(replace(EAGER, gpu_work_ns=900 * US, taxes_ns=taxes(launch=40, node=60), floor_ns=600 * US))
    assert [a.what.split(":")[0] for a in told.actions] == ["fuse kernels", "give the GPU less to do"]
    assert (told.actions[1].saves_ns, told.actions[1].high_ns) == (None, 300 * US)
    assert "floor of 600 µs" in told.reason
    assert told.actions[1].how == "launchscope whatif CAPTURE --weights int4 --graph, or --batch 8"


def test_where_bytes_were_not_counted_the_line_that_tries_it_takes_none() -> None:
    told = verdict(replace(EAGER, gpu_work_ns=900 * US, taxes_ns=taxes(launch=40, node=60)))
    assert told.actions[-1].kind == "less_work"
    assert told.actions[-1].how == "launchscope whatif PATH --gpu matmul=0.5"


def test_a_measured_graph_replaces_the_predicted_one() -> None:
    act = ActionDoc(
        what="replay it as one CUDA graph", saves_ns=1, share=1, low_ns=1, high_ns=1, basis="measured", mode="graph"
    )
    assert verdict(replace(EAGER, measured=(act,))).actions[0] == act
    assert [a.basis for a in verdict(replace(EAGER, measured=(act,))).actions if "graph" in a.what] == ["measured"]


@given(st.lists(st.floats(0, 1e6), min_size=6, max_size=6), st.floats(0, 1e6), st.floats(0, 1e6))
def test_every_figure_of_a_verdict_is_finite_and_in_order(split: list[float], work: float, tau: float) -> None:
    told = verdict(replace(EAGER, taxes_ns=dict(zip(TAXES, split, strict=True)), gpu_work_ns=work, tau_ns=tau))
    assert told.verdict_class in {
        "gpu-bound", "launch-bound", "node-bound", "sync-bound", "stall-bound", "between-steps-bound", "mixed"
    }  # fmt: skip
    for act in told.actions:
        if act.saves_ns is not None:
            assert act.low_ns is not None
            assert act.high_ns is not None
            assert 0 <= act.low_ns <= act.saves_ns <= act.high_ns


def test_words_for_numbers() -> None:
    assert [units.duration(ns) for ns in (850, 25_800, 2_020_000, 19_000_000, 480_000, 3.1e10)] == [
        "850 ns", "25.8 µs", "2.02 ms", "19.0 ms", "480 µs", "31.0 s"
    ]  # fmt: skip
    assert [units.share(share) for share in (0.885, 0.9996, 1, 1.004, 0, 0.0004, 0.003, -0.5)] == [
        "88 %", "99.9 %", "100 %", "100 %", "0 %", "<0.1 %", "0.3 %", "−50 %"
    ]  # fmt: skip
    assert largest_tax({}) == ("other", 0.0)


def test_no_graph_is_proposed_to_what_is_in_one() -> None:
    """38 of 40 kernels run in a replay: the host's 400 µs before it are of the two launches beside."""
    facts = replace(EAGER, taxes_ns=taxes(launch=400), launches=3, graph_launches=1, in_graphs=0.95, tau_ns=10 * US)
    told = verdict(replace(facts, beside_replays=("2 cudaMemcpyAsync",)))
    assert [action.kind for action in told.actions] == ["before_replay"]
    assert "the host first makes 2 cudaMemcpyAsync" in told.actions[0].what
    assert [action.kind for action in verdict(replace(facts, in_graphs=0.5)).actions] == ["graph"]


def test_one_kernel_that_makes_the_step_is_told_nothing_of_weights() -> None:
    told = verdict(replace(EAGER, gpu_work_ns=950 * US, gpu_ops=1, launches=1, taxes_ns=taxes(launch=50)))
    assert [action.kind for action in told.actions if action.kind != "next_replay"][-1] == "one_kernel"
    assert "nothing of it is in the recording" in told.actions[-1].what
