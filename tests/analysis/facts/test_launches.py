"""Times of launches, who made them, and the queue in front of the GPU."""

from __future__ import annotations

from launchscope.analysis.facts.context import Context
from launchscope.analysis.facts.launches import queue_depth
from launchscope.analysis.model.document import OperatorDoc, QueueDepthDoc
from launchscope.fixtures.builder import trace

US = 1000


def test_overhead_latency_and_queue_time_of_the_earliest_op() -> None:
    builder = trace().graph_launch(at=10, dur=5).kernel(at=40, dur=3, stream=8).kernel(at=30, dur=3)
    times = Context(builder.build()).launch_times
    assert times.overhead_ns.tolist() == [5 * US]
    assert times.latency_ns.tolist() == [20 * US]
    assert times.queue_ns.tolist() == [15 * US]
    assert times.first_op.tolist() == [0]


def test_an_op_that_starts_before_the_call_returns_has_a_negative_queue_time() -> None:
    times = Context(trace().launch(at=10, dur=20).kernel(at=25, dur=3).build()).launch_times
    assert (times.latency_ns.tolist(), times.queue_ns.tolist()) == ([15 * US], [-5 * US])


def test_an_op_that_starts_before_the_call_starts_has_a_negative_latency() -> None:
    assert Context(trace().launch(at=10, dur=2).kernel(at=7, dur=3).build()).launch_times.latency_ns.tolist() == [
        -3 * US
    ]


def test_counts_by_api_name_most_first() -> None:
    builder = trace().launch(at=0, dur=1, api="cuLaunchKernelEx").kernel(at=2, dur=1)
    for at in (10, 20):
        builder.launch(at=at, dur=1).kernel(at=at + 2, dur=1)
    assert list(Context(builder.build()).launches.by_api.items()) == [("cudaLaunchKernel", 2), ("cuLaunchKernelEx", 1)]


def test_rows_by_operator_and_stack() -> None:
    builder = trace().python("m.py(3): forward", 0, 100).op("aten::linear", 10, 30).op("aten::mm", 12, 20)
    builder.launch(at=15, dur=2).memset(at=20, dur=1).kernel(at=22, dur=1)
    builder.launch(at=20, dur=2).kernel(at=25, dur=1)
    builder.op("aten::add", 50, 10).launch(at=52, dur=2).kernel(at=60, dur=1)
    builder.annotation("decode#3", 70, 20).launch(at=72, dur=2).kernel(at=80, dur=1)  # no operator around it
    assert Context(builder.build()).launches.by_operator == [
        OperatorDoc(operator="aten::mm", launches=2, kernels=2, stack=["m.py(3): forward", "aten::linear", "aten::mm"]),
        OperatorDoc(operator="aten::add", launches=1, kernels=1, stack=["m.py(3): forward", "aten::add"]),
        OperatorDoc(operator=None, launches=1, kernels=1, stack=["m.py(3): forward"]),
    ]


def test_rows_per_step_are_over_kept_steps_alone() -> None:
    """The first of five steps launches twice as much, and is dropped as a warm-up; one of four copies."""
    builder = trace()
    for number in range(5):
        builder.step(number, 100 * number, 90)
        for index in range(20 if number else 40):
            at = 100 * number + 2 * index
            builder.op("aten::mm", at, 2).launch(at=at, dur=1).kernel(at=at + 1, dur=1)
        if number == 2:
            builder.op("aten::item", 280, 8).launch(at=281, dur=2, api="cudaMemcpyAsync").memcpy(285, 1)
    rows = Context(builder.build()).launches.by_operator
    assert [(row.operator, row.launches, row.launches_per_step, row.kernels_per_step) for row in rows] == [
        ("aten::mm", 120, 20.0, 20.0),
        ("aten::item", 1, 0.25, 0.0),
    ]


def test_operators_of_another_thread_are_not_around_a_launch() -> None:
    builder = trace().op("aten::mm", 0, 100, thread=2).launch(at=10, dur=2).kernel(at=20, dur=1)
    assert Context(builder.build()).launches.by_operator == [
        OperatorDoc(operator=None, launches=1, kernels=1, stack=[])
    ]


def test_without_launches_the_document_has_nulls() -> None:
    doc = Context(trace().kernel(at=0, dur=5, launch=False).build()).launches
    assert (doc.overhead_ns.median, doc.latency_ns.count, doc.by_api, doc.by_operator) == (None, 0, {}, [])


class TestQueueDepth:
    def test_median_over_time_and_maximum(self) -> None:
        builder = (
            trace()
            .launch(at=0, dur=1).kernel(at=10, dur=30)
            .launch(at=11, dur=1).kernel(at=40, dur=5)  # waits from 12 to 40
            .launch(at=13, dur=1).kernel(at=45, dur=5)  # from 14 to 45
        )  # fmt: skip
        # in the window 10–50: 0 for 2 + 5 µs, 1 for 2 + 5, 2 for 26
        assert queue_depth(builder.build(), 0) == QueueDepthDoc(median=2.0, max=2, max_launches=2)

    def test_a_replay_waits_as_its_ops_but_as_one_launch_until_its_first_starts(self) -> None:
        builder = trace().graph_launch(at=0, dur=5).kernel(at=10, dur=10).kernel(at=20, dur=10).kernel(at=30, dur=10)
        assert queue_depth(builder.build(), 0, [(0, 40 * US)]) == QueueDepthDoc(median=1.0, max=3, max_launches=1)

    def test_only_in_the_windows(self) -> None:
        builder = trace().launch(at=0, dur=1).kernel(at=10, dur=1).launch(at=20, dur=1).kernel(at=21, dur=1)
        assert queue_depth(builder.build(), 0, [(12 * US, 22 * US)]).max == 0

    def test_unknown_without_launches(self) -> None:
        assert queue_depth(trace().kernel(at=0, dur=5, launch=False).build(), 0) == QueueDepthDoc(median=None, max=None)
