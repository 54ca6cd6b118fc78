"""Blocking calls by place, and how often a step makes them."""

from __future__ import annotations

from launchscope.analysis.facts.context import Context
from launchscope.analysis.figures.blocking import blocking_calls
from launchscope.analysis.model.document import BlockingCallDoc
from launchscope.fixtures.builder import TraceBuilder, trace

US = 1000


def rows(builder: TraceBuilder) -> list[BlockingCallDoc]:
    return blocking_calls(Context(builder.build()))


def test_counts_per_step_leave_out_calls_outside_of_steps() -> None:
    builder = trace()
    for step in range(3):
        begin = step * 100
        builder.annotation(f"step {step}", begin, 80).launch(at=begin, dur=2).kernel(at=begin + 5, dur=5)
        for at in (20, 40):
            builder.op("aten::item", begin + at - 1, 12).sync(begin + at, 10)
    builder.sync(500, 30, "cudaDeviceSynchronize")
    assert rows(builder) == [
        BlockingCallDoc(
            api="cudaStreamSynchronize", operator="aten::item", stack=["aten::item"], count_per_step=2.0, ns=60 * US
        ),
        BlockingCallDoc(api="cudaDeviceSynchronize", operator=None, stack=[], count_per_step=0.0, ns=30 * US),
    ]


def test_the_same_call_from_two_places_has_two_rows() -> None:
    builder = trace().python("serve.py(1): read", 0, 50).sync(10, 5).python("serve.py(9): wait", 60, 50).sync(70, 9)
    assert [(row.stack, row.ns) for row in rows(builder)] == [
        (["serve.py(9): wait"], 9 * US),
        (["serve.py(1): read"], 5 * US),
    ]


def test_without_steps_the_count_per_step_is_unknown() -> None:
    assert [row.count_per_step for row in rows(trace().sync(0, 5))] == [None]


def test_no_blocking_calls() -> None:
    assert rows(trace()) == []
