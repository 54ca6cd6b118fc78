"""Steps of several kinds are judged each by itself; their mean adds up with the window."""

from __future__ import annotations

import pytest
from launchscope.analysis.facts.context import Context
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.figures.step_kinds import STEP_KINDS
from launchscope.analysis.model.document import TraceDoc
from launchscope.fixtures.builder import TraceBuilder, trace

from ..captures import CAPTURES


def in_turn(names: tuple[str, str] = ("decode", "decode"), pairs: int = 6) -> TraceBuilder:
    """A replay of 20 nodes of 4 µs every 100 µs, then 20 launches 15 µs apart of the same: 300 µs, and so on.

    A replay begins 10 µs after its step, a first kernel 10 µs after its launch: periods of 100 and 300 µs.
    """
    builder = trace()
    for pair in range(pairs):
        at = 400 * pair
        builder.annotation(names[0], at, 99).graph_launch(at, 5)
        for node in range(20):
            builder.kernel(at + 10 + 4 * node, 4, name=f"k{node}")
        builder.annotation(names[1], at + 100, 299)
        for launch in range(20):
            builder.launch(at + 100 + 15 * launch, 5).kernel(at + 110 + 15 * launch, 4, name=f"k{launch}")
    return builder


def document(builder: TraceBuilder) -> TraceDoc:
    return analyze_trace(builder.build(), name="x").document


def test_each_kind_by_itself_and_the_mean_of_all() -> None:
    """11 periods: 6 of 100 µs and 5 of 300; 80 µs of work in each."""
    found = document(in_turn())
    graph, eager = STEP_KINDS.read(found) or []
    assert [graph.kind, eager.kind] == ["decode, graph", "decode, eager"]
    assert [(kind.steps, kind.step_ns, kind.gpu_work_ns) for kind in (graph, eager)] == [
        (6, 100_000, 80_000),
        (6, 300_000, 80_000),
    ]
    assert eager.share_of_time == pytest.approx(1500 / 2100)
    assert found.bound is not None
    assert found.bound.step_ns == pytest.approx(2_100_000 / 11)
    assert found.bound.gpu_work_ns == 80_000
    assert eager.verdict is not None
    assert eager.verdict.verdict_class == "launch-bound"
    assert found.verdict.actions[0].what.startswith("in the 6 steps of kind decode, eager: replay the step as one")
    assert found.verdict.actions[0].saves_ns == eager.saves_ns


def test_idle_of_the_window_is_what_the_mean_says() -> None:
    found = document(in_turn())
    assert found.bound is not None
    steady = found.devices[0].steady
    assert steady is not None
    assert steady.idle_fraction == pytest.approx(1 - 80 / (2100 / 11))


@pytest.mark.parametrize(
    ("names", "kinds"),
    [
        (("step[EXTEND bs=1 toks=9]", "step[DECODE bs=8]"), ("prefill, graph", "decode, eager")),
        (("forward", "forward"), ("graph", "eager")),
    ],
)
def test_what_they_are_called(names: tuple[str, str], kinds: tuple[str, str]) -> None:
    assert Context(in_turn(names).build()).step_kinds.names == kinds


def test_steps_that_launch_far_more_are_another_kind() -> None:
    builder, at = trace(), 0
    for count in (40, 10, 40, 10, 44, 12):
        builder.annotation("forward", at, 10 * count)
        for index in range(count):
            builder.launch(at + 10 * index, 4).kernel(at + 10 * index + 5, 3)
        at += 10 * count
    assert Context(builder.build()).step_kinds.names == ("eager, 40 launches", "eager, 10 launches")


def test_alike_steps_are_of_one_kind() -> None:
    builder = trace()
    for step in range(6):
        builder.step(step, 100 * step, 95)
        for index in range(8 + step % 3):
            builder.launch(100 * step + 10 * index, 4).kernel(100 * step + 10 * index + 5, 3)
    found = document(builder)
    assert STEP_KINDS.read(found) is None
    assert not Context(builder.build()).step_kinds.are_several


def test_empty_steps_count_to_the_one_before() -> None:
    """Every second of ten steps of 50 µs is empty: T is 100 µs, W 30."""
    builder = trace()
    for step in range(10):
        builder.annotation(f"ProfilerStep#{step}", 50 * step, 50)
        if step % 2 == 0:
            for index in range(10):
                builder.launch(50 * step + 4 * index, 2).kernel(50 * step + 4 * index + 3, 3)
    found = document(builder)
    assert found.bound is not None
    assert (found.bound.step_ns, found.bound.gpu_work_ns) == (100_000, 30_000)
    assert found.verdict.verdict_class != "gpu-bound"
    assert [warning.code for warning in found.warnings if warning.code == "empty_steps"] == ["empty_steps"]


@pytest.mark.parametrize(
    ("name", "kinds"),
    [
        ("full-prefill", {"prefill, eager": 1, "decode, graph": 5}),
        ("piece-prefill", {"prefill, eager": 1, "decode, graph": 5}),
        ("full", {"": 12}),
        ("eager", {"": 12}),
        ("server-worker", {"prefill, eager": 1, "mixed, eager": 1, "decode, graph": 31}),
    ],
)
def test_of_a_real_engine(name: str, kinds: dict[str, int]) -> None:
    from launchscope.analysis.inputs.readers import open_trace

    found = Context(open_trace(CAPTURES / "vllm" / f"{name}.json.gz")).step_kinds
    counts = {kind: int((found.kind == place).sum()) for place, kind in enumerate(found.names)}
    assert (counts if found.are_several else {"": sum(counts.values())}) == kinds
