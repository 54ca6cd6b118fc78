"""Serving steps of captures recorded on an H200 (fixtures/captures/README.md)."""

from __future__ import annotations

from functools import cache

import pytest
from launchscope.analysis.model.document import ServingKindDoc, TraceDoc

from ...captures import shipped


@cache
def traces(name: str) -> list[TraceDoc]:
    return [trace for trace in shipped(name).document.traces if trace.trace_pass != "stacks"]


def only_kind(trace: TraceDoc) -> ServingKindDoc:
    assert trace.serving is not None
    (kind,) = trace.serving.kinds
    return kind


SERVE_LOOPS = ["serve_graph.zip", "regressions/serve.zip", "regressions/serve_item.zip"]


@pytest.mark.parametrize("name", SERVE_LOOPS)
def test_accounts_close_with_the_rest_of_the_report(name: str) -> None:
    for trace in traces(name):
        kind, device = only_kind(trace), trace.devices[0]
        assert trace.steps is not None
        assert trace.steps.period_ns is not None
        assert device.steady is not None
        assert kind.period_ns == trace.steps.period_ns
        assert sum(phase.gpu_idle_ns.total for phase in kind.phases) == device.steady.idle_ns
        assert sum(phase.gpu_busy_ns.total for phase in kind.phases) == kind.gpu_busy_ns.total
        assert kind.gpu_busy_ns.median == pytest.approx(trace.steps.busy_ns.median, rel=0.01)
        assert sum(phase.host_ns.total for phase in kind.phases if phase.host_ns) == kind.host_ns.total
        assert kind.host_ns.total == pytest.approx(kind.period_ns.total, rel=0.01)  # one starts as the other does


def test_a_replay_that_samples_and_a_wait_for_it() -> None:
    """serve_loop.py with graph=true: two copies in, a replay of 717 kernels and sampling, one copy out."""
    for trace in traces("serve_graph.zip"):
        phases = {phase.phase: phase for phase in only_kind(trace).phases}
        assert list(phases) == ["prepare", "forward", "sample", "copy_back", "between_steps"]
        assert [phases[name].launches.median for name in ("prepare", "forward", "copy_back")] == [2, 1, 1]
        forward, copy_back = phases["forward"], phases["copy_back"]
        assert forward.in_replays is not None
        assert (forward.in_replays.kernels.median, phases["sample"].host_ns) == (717, None)
        assert copy_back.blocked_ns is not None
        assert copy_back.host_ns is not None
        assert copy_back.blocked_ns.total > 0.9 * copy_back.host_ns.total  # the host waits while the replay runs


def test_sampling_outside_of_a_graph_and_an_item_in_mid_step() -> None:
    """The copy and the wait of .item() come before the last matrix product: they are the forward's."""
    for trace in traces("regressions/serve_item.zip"):
        phases = {phase.phase: phase for phase in only_kind(trace).phases}
        assert [phases[name].launches.median for name in ("prepare", "forward", "sample", "copy_back")] == [
            2,
            724,
            4,
            1,
        ]
        assert phases["forward"].in_replays is None
        assert phases["forward"].blocked_ns is not None
        assert phases["forward"].blocked_ns.total > 0


def test_a_bare_decode_step_is_none_of_an_engine() -> None:
    assert [trace.serving for trace in traces("llama_1b.zip")] == [None] * len(traces("llama_1b.zip"))
