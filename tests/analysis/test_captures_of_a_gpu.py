"""The captures that ship: recorded on an H200 by `launchscope profile` (fixtures/captures/README.md)."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from statistics import median

import pytest
from launchscope.analysis.model.capture import open_capture
from launchscope.analysis.model.document import ModeDoc, ProfileDoc
from launchscope.analysis.report import Report

from .captures import shipped

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"


@cache
def report(name: str) -> Report:
    return shipped(f"{name}.zip")


def profile(name: str) -> ProfileDoc:
    found = report(name).document.profile
    assert found is not None
    return found


def modes() -> dict[str, ModeDoc]:
    return profile("llama_1b").modes


def test_t_is_the_median_of_the_processes_medians() -> None:
    record = open_capture(CAPTURES / "llama_1b.zip").manifest.modes["graph"]
    samples = [process.samples_ns for process in record.processes]
    assert [len(s) for s in samples] == [40, 40, 40]
    step = modes()["graph"].step_ns
    assert step is not None
    assert step.median == median(median(s) for s in samples)


def test_a_graph_replays_what_eager_launches() -> None:
    eager, graph = modes()["eager"], modes()["graph"]
    assert (eager.launches, eager.gpu_ops, eager.kernels) == (718, 718, 717)
    assert (graph.launches, graph.gpu_ops, graph.kernels) == (1, 718, 717)
    assert (modes()["fused"].launches, modes()["fused_graph"].gpu_ops) == (247, 247)


def test_eager_and_graph_do_the_same_work() -> None:
    """Within 3 %: the profiler stretches a replay's kernels a little."""
    assert modes()["graph"].gpu_work_ns == pytest.approx(modes()["eager"].gpu_work_ns, rel=0.03)


def test_the_graph_time_is_predicted_from_eager() -> None:
    """Off by at most 4 % of T, or 30 % of T − W where that is more."""
    for source, target in (("eager", "graph"), ("fused", "fused_graph")):
        predicted, graph = modes()[source].predicted_graph_ns, modes()[target]
        assert predicted is not None
        assert graph.step_ns is not None
        assert graph.exposed_idle_ns is not None
        allowed = max(0.04 * graph.step_ns.median, 0.3 * graph.exposed_idle_ns)
        assert abs(predicted - graph.step_ns.median) <= allowed


def test_the_observer_effect_of_a_graph_is_small_and_has_a_range() -> None:
    effect = modes()["graph"].observer_effect["cuda"]
    assert effect.low is not None
    assert effect.high is not None
    assert 1.0 < effect.low <= effect.median <= effect.high < 1.15


def test_every_output_is_eagers() -> None:
    assert [mode.output_matches_eager for mode in modes().values()] == [None, True, True, True]


def test_eager_is_launch_bound_and_the_rest_is_told() -> None:
    verdict = profile("llama_1b").verdict
    assert verdict is not None
    assert (verdict.verdict_class, verdict.basis) == ("launch-bound", "profile")
    measured = {action.mode: action.basis for action in verdict.actions if action.mode}
    assert measured == {"graph": "measured", "fused_graph": "measured"}


def test_every_recording_can_be_trusted_and_closes() -> None:
    for name in ("llama_1b", "serve_graph", "live"):
        for trace in report(name).document.traces:
            assert trace.coverage.step_source == "capture", trace.name
            assert trace.coverage.reliable, trace.name
            assert trace.coverage.linked == trace.coverage.gpu_ops, trace.name
            for device in trace.devices:
                assert device.busy_ns + device.idle_ns == device.window_ns
                assert sum(cause.ns for cause in device.gaps.by_cause.values()) == device.idle_ns
                assert sum(device.gaps.taxes_ns.values()) == device.idle_ns


def test_a_serve_loop_waits_between_its_steps() -> None:
    """Each step ends with a wait for its token, and begins with two copies to the GPU: all of it is between-steps."""
    trace = next(t for t in report("serve_graph").document.traces if t.trace_pass == "cuda")
    assert trace.mode is None
    assert trace.steps is not None
    assert (trace.steps.blocking_calls.median, trace.steps.graph_launches.median) == (1, 1)
    assert trace.steps.memcpys.median == 3
    steady = trace.devices[0].steady
    assert steady is not None
    sync = steady.gaps.by_cause["sync"]
    assert sync.ns == sync.boundary_ns > 0
    assert steady.gaps.taxes_ns["sync"] == 0
    assert steady.gaps.taxes_ns["between_steps"] > sync.ns


def test_most_of_the_launch_part_before_a_replay_is_the_profilers() -> None:
    trace = next(t for t in report("serve_graph").document.traces if t.trace_pass == "cuda")
    steady = trace.devices[0].steady
    assert steady is not None
    launch = steady.gaps.by_cause["launch"]
    assert launch.before_replay_ns > 0.9 * launch.ns


def test_modes_that_shared_a_session_are_told_apart() -> None:
    """Twelve steps of six kernels each, per mode; two of the steps are no figures."""
    traces = {trace.mode: trace for trace in report("live").document.traces}
    assert {mode: trace.coverage.gpu_ops for mode, trace in traces.items()} == dict.fromkeys(
        ("eager", "graph", "fused", "fused_graph"), 72
    )
    covered = {mode: trace.graphs.coverage_by_count for mode, trace in traces.items()}
    assert covered == {"eager": 0.0, "graph": 1.0, "fused": 0.0, "fused_graph": 1.0}
    assert [mode.launches for mode in profile("live").modes.values()] == [6, 1, 6, 1]
