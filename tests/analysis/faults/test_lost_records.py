"""Recordings that lack records, of a known truth: what is lost, what is cut and left out, what may still be told."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.fixtures.builder import TraceBuilder, trace

from ...nsys_builder import ExportBuilder, export

STEPS = 24
NODES = 20


def analysed(recording: TraceBuilder | ExportBuilder) -> TraceAnalysis:
    return analyze_trace(recording.build(), name="x")


def eager(lost: Callable[[int], bool] = lambda launch: False, *, synced: bool = False) -> TraceBuilder:
    """Ten marked steps of 12 launches, each with a kernel, but those that are told by their number of all 120."""
    builder = trace()
    for launch in range(120):
        at = 120.25 * (launch // 12) + 9.5 * (launch % 12)
        if launch % 12 == 0:
            builder.step(launch // 12, at, 118)
        builder.launch(at + 1, 4)
        if not lost(launch):
            builder.kernel(at + 6.5, 3, name=f"k{launch % 12}")
    return builder.sync(1203, 1, "cudaDeviceSynchronize") if synced else builder


def copying(*lost: int) -> TraceBuilder:
    """Ten kernels, and a copy after each but those that are told: they were empty, or their records are lost."""
    builder = trace()
    for index in range(10):
        builder.launch(20 * index, 2).kernel(20 * index + 3.5, 4).launch(20 * index + 8, 2, "cudaMemcpyAsync")
        if index not in lost:
            builder.memcpy(20 * index + 11, 1)
    return builder


def replaying(
    lost: Callable[[int, int], bool] = lambda replay, node: False,
    *,
    marked: bool,
    launched_from: int = 0,
    streams: int = 1,
) -> TraceBuilder:
    """24 replays of 20 nodes, 100.25 µs apart, but the nodes that are told; the first launches may be absent."""
    builder = trace()
    for replay in range(STEPS):
        at = 100.25 * replay
        if marked:
            builder.step(replay, at, 99)
        correlation = 1000 + replay
        if replay >= launched_from:
            builder.launch(at + 1, 8, "cudaGraphLaunch", correlation=correlation)
        for node in range(NODES):
            if not lost(replay, node):
                stream = 7 + node % streams
                builder.kernel(at + 10 + 3 * node, 2, name=f"n{node}", stream=stream, correlation=correlation)
    return builder


@pytest.mark.parametrize(
    ("recording", "code", "kept", "reliable"),
    [
        (eager(), None, 10, True),
        (eager(lambda launch: launch == 50), "lost_ops", 9, True),  # 0.8 % of 120
        (eager(lambda launch: launch in (50, 70)), "lost_ops", 8, False),
        (eager(lambda launch: 48 <= launch < 60), "lost_ops", 9, False),  # a step whole
        (eager(lambda launch: launch < 30), "lost_first", 7, True),
        (eager(lambda launch: launch >= 90), "lost_last", 7, True),
        (eager(lambda launch: launch >= 90, synced=True), "lost_ops", 7, False),  # the host saw the GPU done
    ],
)
def test_calls_without_a_gpu_op(recording: TraceBuilder, code: str | None, kept: int, reliable: bool) -> None:
    found = analysed(recording)
    assert {each.code for each in found.document.warnings} - {"whole_us"} == ({code} if code else set())
    assert (len(found.context.steps.kept_rows), found.document.coverage.reliable) == (kept, reliable)
    assert (found.document.verdict.verdict_class == "launch-bound") is reliable


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize(
    "recorded",
    [(3, 9, 10, 17), (0, 1, 2, 3), (20, 21, 22, 23), (*range(7), *range(8, 24))],
    ids=["here and there", "the first", "the last", "all but one"],
)
def test_whole_replays_without_a_record(recorded: tuple[int, ...], marked: bool) -> None:
    found = analysed(replaying(lambda replay, node: replay not in recorded, marked=marked)).document
    assert (found.coverage.reliable, found.verdict.verdict_class) == (False, "insufficient")


@pytest.mark.parametrize("marked", [False, True])
@pytest.mark.parametrize("streams", [1, 2])
@pytest.mark.parametrize(
    ("lost", "launched_from"),
    [
        (lambda replay, node: replay == 0 and node < 7, 0),
        (lambda replay, node: replay == 0 and node < 7, 1),
        (lambda replay, node: replay == 23 and node > 12, 0),
    ],
    ids=["begins inside", "begins after the launch", "ends inside"],
)
def test_a_cut_replay_is_left_out(
    lost: Callable[[int, int], bool], launched_from: int, streams: int, marked: bool
) -> None:
    """The rest: 40 µs of work a step, 17 of pauses between nodes on one stream, and none on two."""
    found = analysed(replaying(lost, marked=marked, launched_from=launched_from, streams=streams))
    document = found.document
    assert "cut_replay" in {each.code for each in document.warnings}
    assert (document.coverage.reliable, document.verdict.verdict_class) == (True, "between-steps-bound")
    assert (len(document.graphs.replays), document.graphs.replays[0].ops_min) == (1, NODES)
    assert document.steps is not None
    assert (document.steps.count, document.steps.busy_ns.p10) == (23, 40_000)


@pytest.mark.parametrize("replay", [9, 23])
def test_a_node_lost_inside_a_replay_is_not_cut(replay: int) -> None:
    found = analysed(replaying(lambda each, node: (each, node) == (replay, 4), marked=True)).document
    assert "under_recorded" in {each.code for each in found.warnings}
    assert not found.coverage.reliable


def test_copies_are_counted_where_such_calls_have_ops() -> None:
    found = analysed(copying(4)).document
    told = next(each for each in found.warnings if each.code == "lost_ops")
    assert told.message.startswith("1 of 20 (5 %)")
    nowhere = analysed(copying(*range(10))).document  # empty ones, for all that is known
    assert "lost_ops" not in {each.code for each in nowhere.warnings}
    assert nowhere.coverage.reliable


@pytest.mark.parametrize(
    "api", ["hipExtLaunchMultiKernelMultiDevice", "cudaLaunch", "hipModuleLaunchCooperativeKernel"]
)
def test_a_call_that_has_ops_elsewhere_enqueues_work(api: str) -> None:
    builder = trace()
    for index in range(40):
        builder.launch(20 * index, 5, api)
        if index != 20:
            builder.kernel(20 * index + 7, 4.5)
    assert analysed(builder).document.coverage.unreliable == [
        "1 of 40 (2 %) launch calls have no GPU op: records were lost"
    ]


def test_what_enqueues_nothing_is_not_lost() -> None:
    """A host function, a driver call that seems to outlast the one around it by a µs, a capture that began before."""
    builder = trace()
    for index in range(10):
        builder.launch(20 * index, 3, "cudaLaunchKernelExC").api("cuLaunchKernelEx", 20 * index, 4)
        builder.kernel(20 * index + 7, 4).api("cudaLaunchHostFunc", 20 * index + 5, 1)
    builder.api("cudaLaunchKernel", 96, 1, thread=2).api("cudaStreamEndCapture", 98, 1, thread=2)
    assert not {"lost_ops", "lost_first", "lost_last"} & {each.code for each in analysed(builder).document.warnings}


def test_each_process_has_its_own_first_and_last_launch() -> None:
    builder = eager(lambda launch: launch >= 90)
    for index in range(30):
        builder.launch(1300 + 10 * index, 4, process=101).kernel(1306 + 10 * index, 3, device=1, name="other")
    found = analysed(builder).document
    assert {"lost_first", "lost_ops", "lost_last"} & {each.code for each in found.warnings} == {"lost_last"}


def test_replays_queued_before_the_recording_are_no_orphans_that_count() -> None:
    """Four of 24 replays lack their launch: 17 % of the GPU ops, all of them before the first that has one."""
    found = analysed(replaying(marked=False, launched_from=4)).document
    assert (found.coverage.unlinked, found.coverage.reliable) == (4 * NODES, True)


def whole_replays(replay: int, between: int) -> ExportBuilder:
    """20 steps of one kernel of 5 µs and a replay that nsys recorded as a whole, and so much between them."""
    builder, period = export(), 20 + replay + between
    for step in range(20):
        at = period * step
        builder.launch(at, 4).kernel(at + 5, 5).graph_launch(at + 6, 8).graph_trace(at + 15, replay)
    return builder


def test_a_replay_recorded_as_a_whole_is_work_at_most() -> None:
    """5 + 80 of 145 µs; 10 of the 60 that are left pass before the replay, so no tax has half of T."""
    found = analysed(whole_replays(80, 45)).document
    assert found.steps is not None
    assert found.bound is not None
    assert (found.steps.period_ns.median, found.bound.gpu_work_ns, found.coverage.kernels) == (145_000, 85_000, 20)
    assert (found.coverage.reliable, found.verdict.verdict_class) == (True, "insufficient")
    assert "the GPU works at most 85.0 µs of a 145 µs step (59 %)" in found.verdict.reason
    assert found.memory_ops.ns == 0
    assert found.short_kernels.below_10us is None
    assert found.withheld["short_kernels.below_10us"] == "graph replays were recorded as a whole"


def test_a_class_of_whole_replays_where_one_tax_is_half_of_the_step() -> None:
    found = analysed(whole_replays(80, 400)).document
    assert found.verdict.verdict_class == "between-steps-bound"
    assert "the GPU works at most 85.0 µs of a 500 µs step" in found.verdict.reason


def test_a_whole_replay_that_took_no_time_has_no_step_time() -> None:
    found = analysed(export().graph_launch(0, 5).graph_trace(9, 0)).document
    assert found.verdict.verdict_class == "insufficient"
