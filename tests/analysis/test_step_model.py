"""The closed-form model, with numbers that add up in the head."""

from __future__ import annotations

from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st
from launchscope.analysis.model.capture import Calibration, Floor
from launchscope.analysis.step_model import (
    Knobs,
    StepBytes,
    StepModel,
    bound_ns,
    floor_ns,
    graph_launch_cost_ns,
    predict,
    predict_graph_ns,
    serial_ns,
    turning_kernels,
    turning_tau_ns,
)

MACHINE = Calibration(
    graph_launch_ns=1_000,
    graph_launch_per_node_ns=10,
    replay_gap_ns=500,
    node_gap_ns=300,
    bandwidth_bytes_per_s=1e12,  # 1 byte = 0.001 ns
    flops_per_s={"bf16": 1e15},
)
STEP = StepModel(
    gpu_work_ns=100_000,
    gpu_ops=101,
    launches=101,
    tau_ns=2_000,
    costs=MACHINE,
    reads=StepBytes(  # 60 µs of reads, 1 ns of arithmetic
        weights=40_000_000,
        caches=20_000_000,
        flops=1_000_000,
        bandwidth=1e12,
        peak=1e15,
        batch_size=1,
        weight_width=2,
    ),
)


def test_bound_is_the_larger_and_serial_the_sum() -> None:
    assert bound_ns(2_000, 10, 300) == 3_000
    assert bound_ns(4_000, 10, 300) == 4_000
    assert serial_ns(2_000, 10, 300) == 5_000


def test_floor_is_the_larger_of_reads_and_arithmetic() -> None:
    assert floor_ns(Floor(bytes=2_000_000, flops=1_000_000_000, dtype="bf16"), MACHINE) == pytest.approx(2_000)
    assert floor_ns(Floor(bytes=2_000_000, flops=9_000_000_000, dtype="bf16"), MACHINE) == pytest.approx(9_000)


def test_floor_uses_what_is_known() -> None:
    assert floor_ns(Floor(bytes=2_000_000), MACHINE) == pytest.approx(2_000)
    assert floor_ns(Floor(flops=1_000_000_000, dtype="fp8"), MACHINE) is None
    assert floor_ns(Floor(bytes=2_000_000), Calibration()) is None


def test_graph_is_work_and_node_gaps_and_the_replay_gap() -> None:
    assert graph_launch_cost_ns(100, MACHINE) == 2_000
    assert predict_graph_ns(100_000, 101, MACHINE) == 100_000 + 100 * 300 + 500


def test_graph_of_tiny_kernels_is_bound_by_its_launch() -> None:
    machine = Calibration(graph_launch_ns=9_000, graph_launch_per_node_ns=10, replay_gap_ns=0, node_gap_ns=100)
    assert predict_graph_ns(1_000, 10, machine) == 9_100


@pytest.mark.parametrize("missing", ["graph_launch_ns", "graph_launch_per_node_ns", "replay_gap_ns", "node_gap_ns"])
def test_graph_needs_the_whole_calibration(missing: str) -> None:
    known = {"graph_launch_ns": 1.0, "graph_launch_per_node_ns": 1.0, "replay_gap_ns": 1.0, "node_gap_ns": 1.0}
    del known[missing]
    assert predict_graph_ns(1_000, 10, Calibration(**known)) is None


def test_no_knob_gives_the_measured_step() -> None:
    told = predict(STEP)
    assert told.gpu_work_ns == pytest.approx(100_000)
    assert told.floor_ns == pytest.approx(60_000)
    assert told.eager_ns == pytest.approx(202_000)
    assert told.serial_ns == pytest.approx(302_000)
    assert told.graph_ns == pytest.approx(130_500)


@pytest.mark.parametrize(
    ("knobs", "work", "eager"),
    [
        (Knobs(tau_ns=500), 100_000, 100_000),  # the host is out of the way: W
        (Knobs(bandwidth={"all": 2.0}), 70_000, 202_000),  # the floor halves: 30 + 40 over it
        (Knobs(kernels=50.5), 80_000, 101_000),  # half the kernels: 60 + 20 over the floor, half the launches
        (Knobs(batch_size=3), 140_000, 202_000),  # 40 MB of weights once, 20 MB of cache three times
        (Knobs(weights=10_000_000), 70_000, 202_000),  # int4: 10 + 20 MB, and 40 over the floor
        (Knobs(weights="int4"), 70_000, 202_000),
        (Knobs(bandwidth={"attention": 2.0}), 90_000, 202_000),  # 40 + 10, and 40 over the floor
        (Knobs(host=0.5), 100_000, 101_000),
        (Knobs(delay_ns=1_000), 100_000, 303_000),
    ],
)
def test_a_knob_moves_what_it_should(knobs: Knobs, work: float, eager: float) -> None:
    told = predict(STEP, knobs)
    assert told.gpu_work_ns == pytest.approx(work)
    assert told.eager_ns == pytest.approx(eager)


def test_without_a_floor_work_stays() -> None:
    step = StepModel(gpu_work_ns=100, gpu_ops=10, launches=10, tau_ns=30, costs=Calibration())
    told = predict(step, Knobs(kernels=5, bandwidth={"all": 2.0}))
    assert (told.gpu_work_ns, told.floor_ns, told.eager_ns, told.graph_ns) == (100, None, 150, None)


def test_launching_stops_being_the_limit_where_it_takes_as_long_as_the_work() -> None:
    assert turning_tau_ns(STEP) == pytest.approx(100_000 / 101)
    assert turning_tau_ns(STEP, Knobs(kernels=50.5)) == pytest.approx(80_000 / 50.5)
    # k kernels work 60 µs and 40/101 µs each over the floor, and launch in 2 µs each
    assert turning_kernels(STEP) == pytest.approx(101 * 60 / (202 - 40))
    assert turning_kernels(STEP, Knobs(tau_ns=4_000)) == pytest.approx(101 * 60 / (404 - 40))


@pytest.mark.parametrize("knobs", [Knobs(), Knobs(bandwidth={"all": 0.5}), Knobs(tau_ns=7_000, batch_size=4)])
def test_at_the_turning_points_both_take_the_same_time(knobs: Knobs) -> None:
    kernels, tau = turning_kernels(STEP, knobs), turning_tau_ns(STEP, knobs)
    assert kernels is not None
    assert tau is not None
    for turned in (replace(knobs, kernels=kernels), replace(knobs, tau_ns=tau)):
        told = predict(STEP, turned)
        assert told.gpu_work_ns == pytest.approx(told.launch_ns)


def test_launches_cheaper_than_what_a_kernel_has_over_the_floor_never_are_the_limit() -> None:
    assert turning_kernels(STEP, Knobs(tau_ns=300)) is None
    assert turning_tau_ns(replace(STEP, launches=0)) is None


@given(st.floats(0, 1e9), st.integers(0, 10_000), st.floats(0, 1e6))
def test_bound_never_exceeds_serial_nor_falls_under_its_parts(work: float, launches: int, tau: float) -> None:
    bound = bound_ns(work, launches, tau)
    assert work <= bound <= serial_ns(work, launches, tau) <= 2 * bound
