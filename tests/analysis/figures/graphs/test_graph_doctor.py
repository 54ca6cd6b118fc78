"""The graph doctor on traces built by hand, and on captures of an H200."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model.advisor_documents import (
    BetweenDoc,
    FallbackDoc,
    FindingDoc,
    GraphDoctorDoc,
    GraphLaunchDoc,
    GraphStepDoc,
    OutsideDoc,
)
from launchscope.analysis.model.capture import Calibration
from launchscope.fixtures.builder import TraceBuilder, trace

from ....cases import NAMED_CASES
from ...captures import shipped
from ...test_accounting import builders


def replaying(
    steps: int = 4, kernels: int = 10, more: Callable[[TraceBuilder, int], object] = lambda *_: None
) -> TraceBuilder:
    """Steps of 100 µs: a graph launch of 4 µs at 10, its kernels of 5 µs each from 20 on, back to back."""
    builder = trace()
    for step in range(steps):
        at = 100 * step
        builder.step(step, at, 95).graph_launch(at + 10, 4)
        for index in range(kernels):
            builder.kernel(at + 20 + 5 * index, 5, name=f"k{index}")
        more(builder, at)
    return builder


def doctor(builder: TraceBuilder, **more: object) -> GraphDoctorDoc:
    found = analyze_trace(builder.build(), name="tiny", **more).document.graph_doctor  # type: ignore[arg-type]
    assert found is not None
    return found


def finding(found: GraphDoctorDoc, code: str) -> FindingDoc:
    (one,) = [each for each in found.findings if each.code == code]
    return one


def test_all_in_one_replay_a_step_is_well() -> None:
    found = doctor(replaying())
    assert (found.engaged, found.scope, found.replays, found.kernels_per_replay) == ("all", "steps", 4, [10, 10, 10])
    assert (found.kernels, found.kernels_in_graphs, found.kernel_ns, found.kernel_ns_in_graphs) == (
        (40, 40, 200_000, 200_000)
    )
    assert found.steps[0] == GraphStepDoc(
        step="ProfilerStep#0",
        replays=1,
        kernels=10,
        kernels_in_graphs=10,
        kernel_ns=50_000,
        kernel_ns_in_graphs=50_000,
        launches_outside=0,
    )
    assert (found.outside, found.between, found.fallback) == ([], [], None)


def test_a_launch_is_exposed_where_the_gpu_is_idle_during_the_call() -> None:
    """The GPU is idle from 70 to the next step's 120, so during the whole call, in each of the three periods."""
    found = doctor(replaying())
    assert found.graph_launch == GraphLaunchDoc(
        count=4, per_step=1, nodes=10, host_ns=4_000, as_profiled_ns=4_000, source="as profiled", exposed_ns=4_000
    )
    exposed = finding(found, "launch_exposed")
    assert (exposed.cost_ns, exposed.basis) == (4_000, "inferred")
    assert exposed.evidence == [
        "one launch takes the host 4.00 µs (as profiled) for 10 nodes, 1 per step",
        "a profiler makes such calls many times as long: unprofiled it is less, or nothing",
    ]


def test_a_calibrated_launch_that_is_exposed_is_measured() -> None:
    machine = Calibration(graph_launch_ns=3_000, graph_launch_per_node_ns=50)
    exposed = finding(doctor(replaying(), trace_pass="cuda", calibration=machine), "launch_exposed")
    assert (exposed.cost_ns, exposed.basis) == (3_500, "measured")


def test_in_our_own_captures_the_calibration_stands_in_the_place_of_the_profilers_cost() -> None:
    """1 µs + 10 × 0.05: 1.5 µs of each call, as the host begins it when the GPU has been idle for long."""
    machine = Calibration(graph_launch_ns=1_000, graph_launch_per_node_ns=50)
    found = doctor(replaying(), trace_pass="cuda", calibration=machine)
    assert found.graph_launch is not None
    launch = found.graph_launch
    assert (launch.source, launch.host_ns, launch.as_profiled_ns, launch.exposed_ns) == (
        ("calibration", 1_500, 4_000, 1_500)
    )
    assert found.findings == []


def test_a_launch_that_fits_behind_the_replay_before_it_is_hidden_but_for_the_profiler() -> None:
    """CUPTI makes each call 60 µs long, so that the GPU waits; unprofiled, 1.5 µs fit behind 50 µs of work."""
    builder = trace()
    for step in range(4):
        at = 100 * step
        builder.step(step, at, 95).graph_launch(at + 20, 60)
        for index in range(10):
            builder.kernel(at + 85 + 5 * index, 5, name=f"k{index}")
    machine = Calibration(graph_launch_ns=1_000, graph_launch_per_node_ns=50)
    launch = doctor(builder, trace_pass="cuda", calibration=machine).graph_launch
    assert launch is not None
    assert (launch.host_ns, launch.exposed_ns) == (1_500, 0)
    foreign = doctor(builder).graph_launch
    assert foreign is not None
    assert foreign.exposed_ns == 45_000


def test_without_a_calibration_our_own_captures_withhold_it() -> None:
    launch = doctor(replaying(), trace_pass="cuda").graph_launch
    assert launch is not None
    assert (launch.host_ns, launch.as_profiled_ns, launch.exposed_ns) == (None, 4_000, None)


def sampled(builder: TraceBuilder, at: int) -> None:
    """Two kernels of 5 µs after the replay, launched one by one."""
    builder.python("model.py(7): sample", at + 72, 20)
    for index in range(2):
        builder.op("aten::argmax", at + 74 + 8 * index, 6)
        builder.launch(at + 75 + 8 * index, 2).kernel(at + 78 + 8 * index, 5, name="argmax")


def test_what_is_launched_beside_the_replays_is_told_with_operator_and_line() -> None:
    found = doctor(replaying(more=sampled))
    assert (found.engaged, found.launches_outside) == ("part", 8)
    assert found.outside == [
        OutsideDoc(
            api="cudaLaunchKernel",
            operator="aten::argmax",
            line="model.py(7): sample",
            launches=8,
            kernels=8,
            kernel_ns=40_000,
            launches_per_step=2,
        )
    ]
    told = finding(found, "outside_replays")
    assert told.what == "8 of 48 (17 %) kernels of the steps that replay are launched one by one beside the replays"
    assert told.line == "model.py(7): sample"
    assert told.evidence == [
        "17 % of the kernels' time",
        "cudaLaunchKernel in aten::argmax, at model.py(7): sample (2 per step)",
    ]


def falling_back(kernels: int, prefix: str) -> TraceBuilder:
    """Seven steps; the fourth launches its kernels of 5 µs one by one and takes 200 µs instead of 100."""
    builder, at = trace(), 0
    for step in range(7):
        fell = step == 3
        builder.step(step, at, 195 if fell else 95)
        for index in range(kernels if fell else 10):
            if fell or not index:
                builder.launch(at + 10 + index, 1, "cudaLaunchKernel" if fell else "cudaGraphLaunch")
            builder.kernel(at + 20 + 5 * index, 5, name=f"{prefix if fell else 'k'}{index}")
        at += 200 if fell else 100
    return builder


def test_a_step_that_fell_back_does_the_same_work_one_by_one() -> None:
    found = doctor(falling_back(10, "k"))
    assert found.fallback == FallbackDoc(
        steps=["ProfilerStep#3"],
        of=7,
        kernels=10,
        period_ns=200_000,
        replayed_kernels=10,
        replayed_period_ns=100_000,
        shared_kernels=1.0,
    )
    told = finding(found, "fell_back")
    assert (told.what, told.basis) == (
        "1 of 7 (14 %) steps launch kernel by kernel while the others replay",
        "measured",
    )
    assert told.cost_ns == pytest.approx(100_000 / 7)
    assert found.engaged == "part"
    assert found.outside == []


def test_a_step_of_other_work_may_be_prefill() -> None:
    told = finding(doctor(falling_back(12, "prefill")), "fell_back")
    assert (told.basis, told.cost_ns) == ("inferred", None)
    assert "prefill" in told.how


def test_shapes_tell_a_step_that_fell_back_from_those_that_replay() -> None:
    """Both copy their tokens in; thirteen rows have no graph. What only one kind calls says nothing."""
    builder, at = trace(), 0
    for step in range(4):
        fell, rows = step == 2, 13 if step == 2 else 8
        builder.step(step, at, 95)
        builder.op("aten::copy_", at + 1, 2, shapes=[[rows, 1], [rows, 1]])
        builder.op("aten::ones", at + 4, 1, shapes=[[1]])
        for index in range(10):
            if fell or not index:
                builder.launch(at + 10 + index, 1, "cudaLaunchKernel" if fell else "cudaGraphLaunch")
                builder.op("aten::mm" if fell else "graph", at + 10 + index, 1, shapes=[[rows, 64], [64, 64]])
            builder.kernel(at + 20 + 5 * index, 5, name=f"{'big' if fell else 'k'}{index}")
        at += 100
    told = doctor(builder).fallback
    assert told is not None
    assert told.other_shapes == ["aten::copy_ of [[13,1],[13,1]], in a step that replays of [[8,1],[8,1]]"]
    found = finding(doctor(builder), "fell_back")
    assert found.how.startswith("capture a graph for these shapes, or pad")
    assert "other shapes: aten::copy_ of" in " ".join(found.evidence)


def waiting(builder: TraceBuilder, at: int) -> None:
    """A copy of 2 µs back behind the replay, and a wait for it that ends at 80."""
    builder.op("aten::copy_", at + 14, 4).launch(at + 15, 1, "cudaMemcpyAsync").memcpy(at + 70, 2)
    builder.op("aten::item", at + 29, 53).sync(at + 30, 50)


def test_waits_and_copies_between_replays() -> None:
    """The GPU is idle from 72 to the next step's 120, 4 µs of it in the graph launch: 44 in three periods."""
    found = doctor(replaying(more=waiting))
    assert found.between == [
        BetweenDoc(
            what="sync",
            name="cudaStreamSynchronize",
            operator="aten::item",
            line=None,
            count=4,
            count_per_step=1,
            ns=200_000,
            idle_ns_per_step=44_000,
        ),
        BetweenDoc(
            what="copy",
            name="Memcpy HtoD (Pinned -> Device)",
            operator="aten::copy_",
            line=None,
            count=4,
            count_per_step=1,
            ns=8_000,
        ),
    ]
    told = finding(found, "sync_between_replays")
    assert told.what == "the host waits for the GPU once per step between replays"
    assert told.evidence[0] == "the GPU is idle around it for 44.0 µs per step (44 % of it)"
    assert told.how.startswith("keep the value on the GPU")
    copies = finding(found, "copy_between_replays")
    assert copies.cost_ns == 2_000


def test_a_replay_that_lacks_records_is_no_fallback() -> None:
    builder = trace()
    for step in range(6):
        at = 100 * step
        builder.step(step, at, 95).graph_launch(at + 10, 4)
        for index in range(40 if step != 2 else 39):
            builder.kernel(at + 20 + index, 1, name=f"k{index}")
    found = doctor(builder)
    assert (found.under_recorded, found.fallback, found.engaged) == (1, None, "all")
    assert found.kernels_per_replay == [39, 40, 40]


def test_an_eager_step_that_waits_could_not_be_captured() -> None:
    builder = trace()
    for step in range(3):
        at = 100 * step
        builder.step(step, at, 95).launch(at + 5, 2).kernel(at + 10, 20)
        builder.python("model.py(3): check", at + 28, 12).op("aten::_local_scalar_dense", at + 29, 10).sync(at + 30, 5)
    found = doctor(builder)
    assert (found.engaged, found.outside, found.steps) == ("none", [], [])
    told = finding(found, "waits_in_step")
    assert told.what == "the step waits for the GPU once, which no capture can hold"
    assert told.line == "model.py(3): check"


def check_counts(found: GraphDoctorDoc) -> None:
    """Everything that adds up."""
    assert 0 <= found.kernels_in_graphs <= found.kernels
    assert found.kernel_ns_in_graphs <= found.kernel_ns
    outside = sum(row.kernels for row in found.outside)
    if found.steps:
        assert sum(step.kernels for step in found.steps) == found.kernels
        assert sum(step.kernels_in_graphs for step in found.steps) == found.kernels_in_graphs
        assert sum(step.replays for step in found.steps) == found.replays
        assert sum(step.launches_outside for step in found.steps) == found.launches_outside
        fell = sum(step.kernels for step in found.steps if not step.replays)
        assert outside == (found.kernels - found.kernels_in_graphs - fell if found.kernels_in_graphs else 0)
    elif found.kernels_in_graphs:
        assert outside == found.kernels - found.kernels_in_graphs
    assert (found.fallback is not None) == any(step.kernels and not step.replays for step in found.steps)
    assert (found.graph_launch is not None) == (found.replays > 0)
    if found.graph_launch is not None and found.graph_launch.exposed_ns is not None:
        assert found.graph_launch.exposed_ns >= 0


@pytest.mark.parametrize("name", NAMED_CASES)
def test_counts_close_on_every_case(name: str) -> None:
    found = analyze_trace(NAMED_CASES[name]().build(), name=name).document.graph_doctor
    assert (found is None) == (name == "empty")
    if found is not None:
        check_counts(found)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(builders(), st.sampled_from([None, "cuda"]))
def test_counts_close_on_any_trace(builder: TraceBuilder, trace_pass: str | None) -> None:
    machine = Calibration(graph_launch_ns=1_000, graph_launch_per_node_ns=50)
    document = analyze_trace(builder.build(), name="any", trace_pass=trace_pass, calibration=machine).document
    if document.graph_doctor is not None:
        check_counts(document.graph_doctor)


@cache
def recorded(name: str) -> dict[tuple[str | None, str | None, int | None], GraphDoctorDoc]:
    traces = shipped(name).document.traces
    return {(t.mode, t.trace_pass, t.repeat): t.graph_doctor for t in traces if t.graph_doctor is not None}


def test_a_serving_step_on_an_h200() -> None:
    """721 kernels in one replay, three copies and one wait beside it; the launch costs what the calibration says."""
    found = recorded("serve_graph.zip")[None, "cuda", 0]
    assert (found.engaged, found.kernels_per_replay, found.launches_outside) == ("all", [721, 721, 721], 33)
    assert [(row.what, row.count_per_step) for row in found.between] == [("sync", 1), ("copy", 1), ("copy", 2)]
    launch = found.graph_launch
    assert launch is not None
    assert (launch.nodes, launch.source) == (722, "calibration")
    assert launch.host_ns == pytest.approx(2698.5 + 722 * 4.71875)
    assert launch.as_profiled_ns > 100 * (launch.host_ns or 0.0)
    assert found.findings == []


def test_the_line_of_a_wait_on_an_h200() -> None:
    found = recorded("regressions/serve_item.zip")
    told = finding(found["eager", "stacks", 2], "waits_in_step")
    assert told.line == "serve_loop.py(41): check"
    assert told.how.startswith("keep the value on the GPU")
    assert finding(found["eager", "cuda", 0], "waits_in_step").line is None


def test_a_good_model_on_an_h200_has_nothing_to_find() -> None:
    found = recorded("llama_1b.zip")
    assert {key: doc.findings for key, doc in found.items() if doc.findings} == {}
    assert {key[0]: doc.engaged for key, doc in found.items()} == {
        "eager": "none",
        "graph": "all",
        "fused": "none",
        "fused_graph": "all",
    }
