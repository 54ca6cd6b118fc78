"""One trace through every analysis: its document adds up, and says what the tiny trace holds."""

from __future__ import annotations

from collections.abc import Iterator
from math import isfinite

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.analysis.model.capture import Calibration
from launchscope.analysis.model.document import TAXES, TraceDoc
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES
from ..captures import graph_trace


def analyze(builder: TraceBuilder) -> TraceAnalysis:
    return analyze_trace(builder.build(), name="tiny")


def numbers(value: object) -> Iterator[float]:
    """Every number of a JSON document."""
    if isinstance(value, dict):
        for item in value.values():
            yield from numbers(item)
    elif isinstance(value, list):
        for item in value:
            yield from numbers(item)
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        yield value


def check_accounts(document: TraceDoc) -> None:
    """What must hold for any trace."""
    covered = document.coverage
    assert covered.linked + covered.unlinked == covered.gpu_ops
    assert sum(document.launches.by_api.values()) == covered.launches
    for device in document.devices:
        for scope in (device, device.steady):
            if scope is None or scope.busy_ns is None or scope.idle_ns is None or scope.gaps is None:
                continue
            assert scope.busy_ns + scope.idle_ns == scope.window_ns
            assert 0 <= scope.idle_fraction <= 1
            assert scope.gaps.total_ns == scope.idle_ns
            assert sum(cause.ns for cause in scope.gaps.by_cause.values()) == scope.idle_ns
            assert tuple(scope.gaps.taxes_ns) == TAXES
            assert sum(scope.gaps.taxes_ns.values()) == scope.idle_ns
            assert all(ns >= 0 for ns in scope.gaps.taxes_ns.values())
    assert all(isfinite(number) for number in numbers(msgspec.to_builtins(document)))
    assert msgspec.json.decode(msgspec.json.encode(document), type=TraceDoc) == document
    for name in ("headline_device", "steps", "bound"):
        assert (getattr(document, name) is None) == (name in document.withheld)


times = st.integers(0, 400)
durations = st.integers(0, 60)


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(times, durations, times, durations, st.integers(0, 1), st.integers(1, 3)), max_size=14),
    st.lists(st.tuples(times, durations, st.integers(1, 2)), max_size=4),
    st.lists(times, max_size=4, unique=True),
)
def test_any_trace_adds_up(
    work: list[tuple[int, int, int, int, int, int]], syncs: list[tuple[int, int, int]], steps: list[int]
) -> None:
    builder = trace()
    for number, (at, until) in enumerate(zip(sorted(steps), [*sorted(steps)[1:], 500], strict=False)):
        builder.step(number, at, until - at)
    for index, (at, dur, start, length, device, kernels) in enumerate(work):
        builder.graph_launch(at, dur) if kernels > 1 else builder.launch(at, dur, thread=1 + index % 2)
        for node in range(kernels):
            builder.kernel(start + 70 * node, length, device=device, name=f"k{node}")
    for at, dur, thread in syncs:
        builder.sync(at, dur, thread=thread)
    check_accounts(analyze(builder).document)


def test_an_empty_file_has_no_headline_and_no_verdict() -> None:
    document = analyze(NAMED_CASES["empty"]()).document
    assert (document.headline_device, document.devices, document.bound) == (None, [], None)
    assert document.verdict.verdict_class == "insufficient"
    assert "no GPU op" in document.verdict.reason


def test_eager_steps_by_hand() -> None:
    """Five steps of 100 µs: four ops of 3, 3, 3 and 2 µs; the last step has no successor, so four periods."""
    analysis = analyze(NAMED_CASES["eager steps"]())
    document = analysis.document
    assert document.steps is not None
    assert document.steps.count == 5
    assert document.steps.period_ns is not None
    assert (document.steps.period_ns.median, document.steps.period_ns.count) == (100_000, 4)
    assert (document.steps.busy_ns.median, document.steps.gpu_ops.median, document.steps.kernels.median) == (
        11_000,
        4,
        3,
    )
    assert (document.steps.memcpys.median, document.steps.blocking_calls.median) == (1, 1)
    steady = document.devices[0].steady
    assert steady is not None
    assert (steady.window_ns, steady.busy_ns, steady.idle_ns) == (400_000, 44_000, 356_000)
    assert analysis.context.blocking_words == ("cudaStreamSynchronize in aten::copy_",)


def test_the_traces_own_tau_leaves_blocking_calls_out() -> None:
    """A step's launches reach from 6 to 60 µs; the sync from 61 on is behind the last: 54 µs over 4 launches."""
    bound = analyze(NAMED_CASES["eager steps"]()).document.bound
    assert bound is not None
    assert (bound.basis, bound.host_submit_ns, bound.tau_ns) == ("trace", 54_000, 13_500)
    assert (bound.bound_ns, bound.serial_ns, bound.step_ns) == (54_000, 65_000, 100_000)


def test_a_sync_between_two_launches_is_not_submitting() -> None:
    """Launches from 0 to 47 µs, 29 of them in a sync."""
    bound = analyze(NAMED_CASES["sync in the step"]()).document.bound
    assert bound is not None
    assert bound.host_submit_ns == 47_000 - 29_000


def test_the_slowest_thread_submits_the_step() -> None:
    builder = trace().step(0, 0, 200)
    for thread, dur in ((1, 10), (2, 30)):
        builder.launch(0, dur, thread=thread).kernel(60, 10).launch(50, dur, thread=thread).kernel(90, 10)
    bound = analyze(builder).document.bound
    assert bound is not None
    assert bound.host_submit_ns == 80_000


def test_a_lone_step_takes_its_own_window() -> None:
    """No period: first op start 10 → last op end 54."""
    bound = analyze(NAMED_CASES["one eager step"]()).document.bound
    assert bound is not None
    assert (bound.step_ns, bound.gpu_work_ns) == (44_000, 12_000)


def test_without_launches_there_is_no_bound_but_a_reason() -> None:
    document = analyze(NAMED_CASES["missing launches"]()).document
    assert document.bound is None
    assert "no launch" in document.withheld["bound"]
    assert document.verdict.verdict_class == "insufficient"


def test_the_headline_is_the_busiest_device() -> None:
    builder = trace(device_names={0: "a", 1: "b"}).step(0)
    builder.launch(0, 2).kernel(10, 10, device=0).launch(4, 2).kernel(10, 30, device=1)
    assert analyze(builder).document.headline_device == 1


def test_tau_step_replaces_the_launch_overhead_where_the_host_was_timed() -> None:
    """Four launches of graph replays: one launch per step, 9 µs to submit it unprofiled."""
    builder = NAMED_CASES["graph replay"]()
    told = analyze_trace(builder.build(), name="tiny", host_submit_ns=9_000).document.short_kernels
    assert (told.tau_ns, told.tau_source) == (9_000, "tau_step")
    told = analyze(builder).document.short_kernels
    assert (told.tau_ns, told.tau_source) == (8_000, "median launch overhead")


def test_a_step_that_syncs_has_no_tau_step() -> None:
    told = analyze_trace(NAMED_CASES["eager steps"]().build(), name="tiny", host_submit_ns=9_000).document.short_kernels
    assert told.tau_source == "median launch overhead"


def launch_bound_steps() -> TraceBuilder:
    """Five steps of 20 kernels of 2 µs, 20 µs apart: of 400 µs the GPU works 40."""
    builder = trace()
    for step in range(5):
        builder.step(step, 400 * step, 395)
        for index in range(20):
            at = 400 * step + 20 * index
            builder.launch(at, 6).kernel(at + 8, 2)
    return builder


def test_a_launch_bound_trace_is_called_so() -> None:
    verdict = analyze(launch_bound_steps()).document.verdict
    assert (verdict.verdict_class, verdict.basis) == ("launch-bound", "trace")
    assert verdict.reason.startswith("the GPU works 40.0 µs ± 22.6 µs of a 400 µs step, as profiled (10 %)")
    assert verdict.actions[0].what == "replay the step as one CUDA graph"


def test_the_node_gap_of_the_machine_that_recorded_it_is_used() -> None:
    """360 µs idle, 10 of them between steps: 350 − 19 × 0.1."""
    machine = Calibration(node_gap_ns=100)
    act = analyze_trace(launch_bound_steps().build(), name="tiny", calibration=machine).document.verdict.actions[0]
    assert (act.saves_ns, act.detail) == (pytest.approx(348_100), "as profiled")


def test_launch_calls_of_replays_are_the_profilers_in_our_own_captures_only() -> None:
    """Of 30 µs idle a step, 25 lie in the launch call of a replay, 3.1 before it and 1.9 between nodes."""
    told = analyze_trace(graph_trace().build(), name="tiny", trace_pass="cuda").document.verdict
    assert "25.0 µs of that stand before graph replays: mostly the profiler's own cost" in told.reason
    assert told.actions == []
    foreign = analyze_trace(graph_trace().build(), name="tiny").document.verdict
    assert "profiler" not in foreign.reason
    assert foreign.actions[0].what == "launch the next replay while this one still runs"
