"""Recorded steps, simulated: they give what they start from, and what another mode of the capture measured."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.predict.recorded_steps import plan_steps
from launchscope.analysis.predict.simulator import simulate
from launchscope.analysis.predict.whatif import what_if, whatif
from launchscope.analysis.report import Report, load
from launchscope.analysis.step_model import Knobs
from launchscope.fixtures.builder import trace

from ..captures import shipped


@cache
def llama() -> Report:
    return shipped("llama_1b.zip")


def measured(mode: str) -> float:
    profile = llama().document.profile
    assert profile is not None
    found = profile.modes[mode].step_ns
    assert found is not None
    return found.median


@pytest.mark.parametrize("mode", ["eager", "graph", "fused", "fused_graph"])
def test_what_was_recorded_comes_out(mode: str) -> None:
    for analysis in llama().analyses:
        planned = plan_steps(analysis.context.trace, analysis.context.steps, analysis.context.steps.kept_rows)
        if analysis.context.mode != mode or planned is None:
            continue
        device = analysis.document.headline_device
        assert device is not None
        simulated = planned.step_ns(simulate(planned.plan))
        assert simulated == pytest.approx(analysis.context.periods_ns, rel=0.002)


@pytest.mark.parametrize(
    ("mode", "least"), [("eager", 0.005), ("graph", 0.01), ("fused", 0.005), ("fused_graph", 0.005)]
)
def test_the_unprofiled_step_time_is_met(mode: str, least: float) -> None:
    """Where the host sets the pace by construction: its times are scaled to the unprofiled ones."""
    told = what_if(llama(), Knobs(), mode)
    assert told.unprofiled_error is not None
    assert abs(told.unprofiled_error) < least
    assert told.low_ns <= told.predicted_ns <= told.high_ns
    assert told.half_error is not None
    assert told.half_difference is not None
    assert abs(told.half_error) <= max(0.03, 2 * abs(told.half_difference))


@pytest.mark.parametrize(("mode", "graph"), [("eager", "graph"), ("fused", "fused_graph")])
def test_a_graph_is_predicted_from_the_mode_without_one(mode: str, graph: str) -> None:
    told = what_if(llama(), Knobs(graph=True), mode)
    assert told.predicted_ns == pytest.approx(measured(graph), rel=0.015)
    assert told.low_ns < measured(graph) < told.high_ns


def test_a_step_by_hand(tmp_path: Path) -> None:
    """Ten launches of 5 µs, 5 µs apart, each with an op of 2 µs: 100 µs per step, and 200 µs on half the host.

    Launched by a host that takes no time, the ops follow each other after 1 µs (no gap of a busy stream is known).
    """
    building = trace()
    for step in range(6):
        building.step(step, 100 * step, 100)
        for place in range(10):
            at = 100 * step + 10 * place
            building.launch(at, 5).kernel(at + 4, 2)
    building.write(tmp_path / "steps.json")
    report = load(tmp_path / "steps.json")
    told = what_if(report, Knobs())
    assert (told.recorded_ns, told.simulated_ns, told.recorded_error) == (100_000, 100_000, 0)
    assert (told.unprofiled_ns, told.host_factor, told.mode) == (None, 1.0, None)
    assert what_if(report, Knobs(host=2.0)).predicted_ns == 200_000
    tau_ns = 95_000 / 10  # from a step's first launch to the end of its last
    assert what_if(report, Knobs(tau_ns=2 * tau_ns)).predicted_ns == pytest.approx(200_000)
    assert what_if(report, Knobs(host=1e-9)).predicted_ns == pytest.approx(30_000, rel=1e-3)
    with pytest.raises(LaunchscopeError, match="--graph takes what graphs cost on the machine"):
        what_if(report, Knobs(graph=True))


def test_a_step_that_waits_for_the_gpu_is_met_without_its_profiler() -> None:
    """Its host takes 21 ms as recorded, 13.4 ms without; two calls of each step wait until the GPU is done."""
    item = Path(__file__).parents[3] / "fixtures" / "captures" / "regressions" / "serve_item.zip"
    told = what_if(load(item), Knobs())
    assert told.unprofiled_ns == pytest.approx(13.4e6, rel=0.01)
    assert told.unprofiled_error == pytest.approx(0, abs=0.015)


def test_a_step_that_waits_for_a_replay_is_met() -> None:
    """Recorded, the host takes 0.5 ms in each graph launch while the GPU is idle; unprofiled 6 µs by calibration."""
    told = what_if(shipped("serve_graph.zip"), Knobs())
    assert told.recorded_ns == pytest.approx(2.65e6, rel=0.01)
    assert told.unprofiled_ns == pytest.approx(2.09e6, rel=0.01)
    assert told.unprofiled_error == pytest.approx(0, abs=0.01)


def test_a_mode_that_was_not_measured_is_told() -> None:
    with pytest.raises(LaunchscopeError, match="no mode as_written was measured; there are eager, graph"):
        what_if(llama(), Knobs(), "as_written")


def test_a_slower_host_makes_an_eager_step_longer_and_a_graph_no_longer() -> None:
    eager, graph = (
        [what_if(llama(), Knobs(host=factor), mode).predicted_ns for factor in (1.0, 2.0)]
        for mode in ("eager", "graph")
    )
    assert eager[1] == pytest.approx(2 * eager[0], rel=0.02)
    assert graph[1] == pytest.approx(graph[0], rel=0.001)
    assert np.isfinite(eager).all()


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"host": -1.0}, "host is -1.0: it takes a number above 0 and up to 1e+06"),
        ({"host": 0}, "host is 0: "),
        ({"host": float("inf")}, "host is inf: "),
        ({"host": "fast"}, "host is 'fast': "),
        ({"gpu": float("nan")}, "gpu is nan: "),
        ({"bandwidth": {"matmul": 0.0}}, "bandwidth is 0.0: "),
        ({"flops": 0.0}, "flops is 0.0: "),
        ({"tau": -5.0}, "tau is -5.0: it takes a number from 0 up to 1e+18"),
        ({"tau": float("nan")}, "tau is nan: "),
        ({"delay": 1e300}, "delay is 1e+300: "),
        ({"all_reduce": -1.0, "tensor_parallel": 2}, "all_reduce is -1.0: "),
        ({"weights": -5.0}, "weights is -5.0: "),
        ({"batch": 2.5}, "batch is 2.5: it takes a whole number from 1 up to 1e+09"),
        ({"tensor_parallel": 0}, "tensor_parallel is 0: "),
        ({"tau": 1.0, "host": 2.0}, "tau and host both set the host's time"),
        ({"tau": 1.0, "graph": True}, "tau is of launches one by one"),
    ],
)
def test_a_value_that_no_machine_could_have(knobs: dict[str, Any], said: str) -> None:
    with pytest.raises(LaunchscopeError, match=re.escape(said)):
        whatif(llama(), **knobs)


def test_one_graph_is_launched_by_the_host_that_was_asked_for() -> None:
    """A thousand times as slow: the host's cost of one launch is all there is to see."""
    told = what_if(llama(), Knobs(graph=True, host=1000.0))
    profile = llama().document.profile
    assert profile is not None
    assert profile.calibration is not None
    costs, ops = profile.calibration, profile.modes["eager"].gpu_ops
    assert costs.graph_launch_ns is not None
    assert costs.graph_launch_per_node_ns is not None
    assert ops is not None
    launch_ns = costs.graph_launch_ns + costs.graph_launch_per_node_ns * ops
    assert told.predicted_ns == pytest.approx(1000 * launch_ns, rel=0.001)
