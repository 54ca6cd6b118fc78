"""Plans with other launches: what stands where, worked out by hand."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from launchscope.analysis.model.document import CalibrationDoc
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.model.trace import NONE
from launchscope.analysis.predict.plan_changes import as_graph, spread_evenly, with_ops_after, without_ops
from launchscope.analysis.predict.recorded_steps import plan_steps
from launchscope.analysis.predict.simulator import Plan, simulate
from launchscope.analysis.report import load
from launchscope.fixtures.builder import trace


def alone(count: int = 3) -> Plan:
    """So many calls of 4 ns, 2 apart, each with one op of 10 ns that follows the one before after 1."""
    return Plan(
        thread=np.zeros(count, np.int64),
        before_ns=np.full(count, 2.0),
        call_ns=np.full(count, 4.0),
        blocks=np.zeros(count, np.bool_),
        op_call=np.arange(count),
        stream=np.zeros(count, np.int64),
        op_ns=np.full(count, 10.0),
        latency_ns=np.full(count, 3.0),
        gap_ns=np.full(count, 1.0),
        after=np.full(count, NONE),
        lag_ns=np.zeros(count),
    )


def test_further_ops_have_calls_of_their_own() -> None:
    """Two after the first op, one after the last: six ops of six calls, the new ones of 5 ns."""
    plan, origin = with_ops_after(replace(alone(), after=np.array([NONE, NONE, 1])), np.array([0, 0, 2]), 5.0)
    assert origin.tolist() == [0, 0, 0, 1, 2, 2]
    assert plan.op_call.tolist() == [0, 1, 2, 3, 4, 5]
    assert plan.op_ns.tolist() == [10, 5, 5, 10, 10, 5]
    assert plan.after.tolist() == [NONE, NONE, NONE, NONE, 3, NONE]
    assert plan.call_ns.tolist() == [4.0] * 6
    run = simulate(replace(plan, after=np.full(6, NONE)))
    assert run.call_start_ns.tolist() == [2, 8, 14, 20, 26, 32]
    assert run.op_start_ns.tolist() == [5, 16, 22, 28, 39, 50]


def test_further_ops_of_a_replay_are_nodes_of_it() -> None:
    """One call with three ops becomes one call with five; the call after it stays the call after it."""
    plan = replace(alone(4), thread=np.zeros(2, np.int64), before_ns=np.full(2, 2.0), call_ns=np.full(2, 4.0),
                   blocks=np.zeros(2, np.bool_), op_call=np.array([0, 0, 0, 1]))  # fmt: skip
    longer, origin = with_ops_after(plan, np.array([1, 1]), 5.0)
    assert longer.op_call.tolist() == [0, 0, 0, 0, 0, 1]
    assert origin.tolist() == [0, 1, 1, 1, 2, 3]
    assert len(longer.thread) == 2
    assert simulate(longer).op_start_ns.tolist() == [5, 16, 27, 33, 39, 50]


def test_ops_that_go_take_their_calls_along() -> None:
    """Of four the second and third: two calls of 4 ns, 2 apart; the last waited for the first and still does."""
    plan, origin = without_ops(replace(alone(4), after=np.array([NONE, 0, 1, 0])), np.array([1, 2]))
    assert origin.tolist() == [0, 3]
    assert plan.op_call.tolist() == [0, 1]
    assert plan.after.tolist() == [NONE, 0]
    assert simulate(plan).call_start_ns.tolist() == [2, 8]
    lost, _ = without_ops(replace(alone(4), after=np.array([NONE, NONE, NONE, 1])), np.array([1]))
    assert lost.after.tolist() == [NONE, NONE, NONE]


def test_nodes_that_go_leave_their_replay() -> None:
    graph = replace(alone(4), thread=np.zeros(1, np.int64), before_ns=np.zeros(1), call_ns=np.full(1, 4.0),
                    blocks=np.zeros(1, np.bool_), op_call=np.zeros(4, np.int64))  # fmt: skip
    plan, origin = without_ops(graph, np.array([0, 3]))
    assert (plan.op_call.tolist(), origin.tolist(), len(plan.thread)) == ([0, 0], [1, 2], 1)


def test_ops_go_at_even_distances_in_every_step() -> None:
    step = np.repeat([0, 1], 5)
    may = np.array([True, True, False, True, True] * 2)
    assert spread_evenly(step, may, 2).tolist() == [0, 4, 5, 9]
    assert spread_evenly(step, may, 9).tolist() == [0, 1, 3, 4, 5, 6, 8, 9]


def test_a_graph_is_one_launch_per_step() -> None:
    """Two steps of two ops: launched in 100 + 2 × 5 ns each; 3 between nodes, 7 between replays."""
    costs = CalibrationDoc(
        tau_floor_ns=None, graph_launch_ns=100, graph_launch_per_node_ns=5, replay_gap_ns=7, node_gap_ns=3,
        bandwidth_bytes_per_s=None, flops_per_s={},
    )  # fmt: skip
    plan = as_graph(alone(4), np.array([0, 0, 1, 1]), costs)
    assert plan.call_ns.tolist() == [110, 110]
    run = simulate(plan)
    assert run.op_start_ns.tolist() == [0, 13, 110, 123]
    with pytest.raises(LaunchscopeError, match="calibrate"):
        as_graph(alone(), np.zeros(3, np.int64), None)


def test_an_op_that_waited_for_another_stream_waits_in_the_plan(tmp_path: Path) -> None:
    """A copy of 50 µs on stream 8, launched at 10, and a kernel on stream 7, launched at 20, that starts 2 after it.

    The kernel's own launch took no more than 5 µs to arrive: the copy is what it waited for. When the copy takes half
    the time, the kernel starts 25 µs sooner.
    """
    building = trace()
    for step in range(3):
        at = 100 * step
        building.step(step, at, 100)
        building.launch(at + 10, 2).memcpy(at + 14, 50, stream=8)
        building.launch(at + 20, 2).kernel(at + 66, 10, stream=7)
    building.write(tmp_path / "two.json")
    analysis = load(tmp_path / "two.json").analyses[0]
    planned = plan_steps(analysis.context.trace, analysis.context.steps, analysis.context.steps.kept_rows)
    assert planned is not None
    assert planned.plan.after.tolist() == [NONE, 0, NONE, 2, NONE, 4]
    assert planned.plan.lag_ns.tolist() == [0, 2_000, 0, 2_000, 0, 2_000]
    recorded = simulate(planned.plan).op_start_ns
    assert (recorded[1] - recorded[0]) == 52_000
    halved = replace(planned.plan, op_ns=np.where(planned.plan.op_ns == 50_000, 25_000, planned.plan.op_ns))
    sooner = simulate(halved).op_start_ns
    assert (sooner[1] - sooner[0]) == 27_000
