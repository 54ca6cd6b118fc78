"""The simulator: exact where a step can be worked out by hand, and never better than what bounds it."""

from __future__ import annotations

import time
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.model.trace import NONE
from launchscope.analysis.predict.simulator import Plan, simulate


def launches(
    count: int,
    *,
    before: float = 0.0,
    call: float = 0.0,
    op: float = 0.0,
    latency: float = 0.0,
    gap: float = 0.0,
    streams: int = 1,
    queue: int = 1024,
) -> Plan:
    """One thread that launches one op per call; ns."""
    return Plan(
        thread=np.zeros(count, np.int64),
        before_ns=np.full(count, before),
        call_ns=np.full(count, call),
        blocks=np.zeros(count, np.bool_),
        op_call=np.arange(count),
        stream=np.arange(count) % streams,
        op_ns=np.full(count, op),
        latency_ns=np.full(count, latency),
        gap_ns=np.full(count, gap),
        after=np.full(count, NONE),
        lag_ns=np.zeros(count),
        queue=queue,
    )


def test_a_launch_bound_step_is_paced_by_the_host() -> None:
    """Calls start at 3, 13, 23 and return 7 later; each op starts 5 after its call and is done before the next."""
    run = simulate(launches(3, before=3, call=7, op=2, latency=5))
    assert run.call_start_ns.tolist() == [3, 13, 23]
    assert run.op_start_ns.tolist() == [8, 18, 28]
    assert run.makespan_ns == 30


def test_a_gpu_bound_step_is_paced_by_its_ops() -> None:
    """The first op starts at 1 + 5, the others follow back to back, 1 apart."""
    run = simulate(launches(4, before=1, call=1, op=10, latency=5, gap=1))
    assert run.op_start_ns.tolist() == [6, 17, 28, 39]
    assert run.call_end_ns.tolist() == [2, 4, 6, 8]


def test_streams_run_beside_each_other_and_wait_where_told() -> None:
    plan = launches(2, call=1, op=10, streams=2)
    assert simulate(plan).op_start_ns.tolist() == [0, 1]
    waits = replace(plan, after=np.array([NONE, 0]))
    assert simulate(waits).op_start_ns.tolist() == [0, 10]
    assert simulate(replace(waits, lag_ns=np.array([0.0, 2.0]))).op_start_ns.tolist() == [0, 12]


def test_a_full_queue_holds_the_host_up() -> None:
    """Room for one launch: the third call waits until the second op has started, at 10."""
    run = simulate(launches(3, call=1, op=10, queue=1))
    assert run.call_start_ns.tolist() == [0, 1, 10]


def test_a_blocking_call_ends_when_everything_before_it_is_done() -> None:
    plan = launches(3, call=1, op=10, latency=2)
    plan = replace(
        plan,
        blocks=np.array([False, True, False]),
        op_call=np.array([0, 2]),
        stream=np.zeros(2, np.int64),
        op_ns=np.full(2, 10.0),
        latency_ns=np.full(2, 2.0),
        gap_ns=np.zeros(2),
        after=np.full(2, NONE),
        lag_ns=np.zeros(2),
    )
    run = simulate(plan)
    assert run.call_end_ns.tolist() == [1, 13, 14]  # the op ends at 12, the call takes 1 more
    assert run.op_start_ns.tolist() == [2, 15]


def test_of_two_threads_the_one_that_is_ready_first_launches_first() -> None:
    plan = replace(launches(2, op=10), thread=np.array([0, 1]), before_ns=np.array([5.0, 1.0]))
    run = simulate(plan)
    assert run.call_start_ns.tolist() == [5, 1]
    assert run.op_start_ns.tolist() == [11, 1]


DURATIONS = st.floats(0, 1e5)


@given(st.integers(1, 60), DURATIONS, DURATIONS, DURATIONS, DURATIONS, DURATIONS, st.integers(1, 4), st.floats(1, 5))
@settings(deadline=None)
def test_it_is_never_below_the_bound_and_monotone_in_the_host_s_time(
    count: int, before: float, call: float, op: float, latency: float, gap: float, queue: int, factor: float
) -> None:
    plan = launches(count, before=before, call=call, op=op, latency=latency, gap=gap, queue=queue)
    makespan = simulate(plan).makespan_ns
    bound = max(count * op, count * (before + call))
    assert makespan >= bound * (1 - 1e-9)
    assert simulate(plan.with_host(factor)).makespan_ns >= makespan * (1 - 1e-9)


def test_100_000_kernels_take_less_than_two_seconds() -> None:
    plan = launches(100_000, before=1e3, call=5e3, op=4e3, latency=4e3, gap=1e3)
    begun = time.perf_counter()
    simulate(plan)
    assert time.perf_counter() - begun < 2


def test_nothing_takes_no_time() -> None:
    assert simulate(launches(0)).makespan_ns == pytest.approx(0)
