"""Steps by each source in turn, who owns which op, and which steps don't count."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter

import numpy as np
import pytest
from launchscope.analysis.facts.context import Context
from launchscope.analysis.facts.step_parts import normalised_name
from launchscope.analysis.facts.step_repetition import find_repetition
from launchscope.analysis.facts.steps import Steps
from launchscope.analysis.inputs.readers import open_trace
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.model.trace import NONE
from launchscope.fixtures.builder import TraceBuilder, trace

from ...cases import NAMED_CASES

US = 1000
TRACES = Path(__file__).parents[3] / "fixtures" / "traces"


def loop(steps: int, launches: int = 1, *, annotate: str | None = None, period: int = 100) -> TraceBuilder:
    """Steps of `launches` different kernels, 5 µs every 10 µs, each step `period` µs after the last."""
    builder = trace()
    for step in range(steps):
        begin = step * period
        if annotate is not None:
            builder.annotation(annotate.format(step), begin, launches * 10)
        for index in range(launches):
            builder.launch(at=begin + index * 10, dur=2).kernel(at=begin + index * 10 + 4, dur=5, name=f"k{index}")
    return builder


def found(builder: TraceBuilder, **options: object) -> Steps:
    return Context(builder.build(), **options).steps  # type: ignore[arg-type]


def marks(count: int, *, period: int = 100, length: int = 90, shift: int = 0) -> list[tuple[int, int]]:
    return [((i * period + shift) * US, (i * period + length + shift) * US) for i in range(count)]


class TestSources:
    def test_capture_marks_come_first_and_the_first_is_sacrificed(self) -> None:
        steps = found(loop(4, 3, annotate="decode#{}"), marks_ns=marks(4))
        assert (steps.source, steps.found, steps.dropped, steps.kept.tolist()) == (
            "capture",
            4,
            1,
            [False, True, True, True],
        )
        assert steps.reasons[0].startswith("sacrificed")
        assert steps.launch_step.tolist() == [0, 0, 0, 1, 1, 1, 2, 2, 2, 3, 3, 3]

    def test_marks_of_another_clock_are_refused(self) -> None:
        steps = found(loop(4, 3, annotate="decode#{}"), marks_ns=marks(4, shift=10_000))
        assert (steps.source, [notice.code for notice in steps.notices]) == ("annotation", ["marks_disagree"])

    def test_marks_that_cut_through_steps_are_refused(self) -> None:
        uneven = [(0, 100 * US), (100 * US, 115 * US), (115 * US, 300 * US), (300 * US, 400 * US)]
        assert found(loop(4, 3), marks_ns=uneven).notices[0].code == "marks_disagree"

    def test_profiler_steps_win_over_annotations_inside(self) -> None:
        builder = loop(4, 2, annotate="decode#{}")
        for step in range(4):
            builder.annotation(f"ProfilerStep#{step + 3}", step * 100, 90)
        steps = found(builder)
        assert (steps.source, steps.names[0], steps.found, steps.dropped) == ("profiler_step", "ProfilerStep#3", 4, 0)

    def test_annotations_of_one_name_but_for_their_number(self) -> None:
        builder = loop(5, 2)
        for step in range(2, 5):
            builder.annotation(f"decode_step#{step}", step * 100, 90)
        steps = found(builder)
        assert (steps.source, steps.found, steps.dropped) == ("annotation", 3, 0)
        assert steps.launch_step.tolist() == [-1] * 4 + [0, 0, 1, 1, 2, 2]

    def test_annotations_that_hold_too_few_launches_are_not_steps(self) -> None:
        builder = loop(4, 9)
        for step in range(4):
            builder.annotation("sample", step * 100 + 40, 10)
        assert found(builder).source == "repetition"

    def test_the_outer_of_two_names_that_hold_the_same_launches(self) -> None:
        builder = loop(3, 2, annotate="decode#{}")
        for step in range(3):
            builder.annotation("half", step * 100, 10).annotation("half", step * 100 + 10, 10)
        assert found(builder).names == ("decode#0", "decode#1", "decode#2")

    def test_an_annotation_inside_one_of_its_name_is_not_a_step(self) -> None:
        builder = loop(3, 2, annotate="decode {}")
        for step in range(3):
            builder.annotation(f"decode {step} 0", step * 100, 10)
        assert found(builder).names == ("decode 0", "decode 1", "decode 2")

    def test_a_lone_annotation_serves_when_nothing_else_does(self) -> None:
        builder = trace().annotation("execute(1)", 0, 100).launch(at=10, dur=2).kernel(at=14, dur=5)
        assert (found(builder).source, found(builder).found) == ("annotation", 1)

    def test_repetition_of_eight_launches_or_more(self) -> None:
        steps = found(loop(5, 8))
        assert (steps.source, steps.found, steps.dropped) == ("repetition", 5, 0)
        assert steps.count_kept(steps.launch_step).tolist() == [8] * 5

    def test_a_shorter_repetition_without_graphs_is_no_step(self) -> None:
        steps = found(loop(5, 7))
        assert (steps.source, steps.found, len(steps)) == ("none", 0, 0)
        assert (steps.op_step == -1).all()
        assert [notice.code for notice in steps.notices] == ["no_steps"]

    def test_layers_repeat_but_the_step_is_longer(self) -> None:
        builder = trace()
        for step in range(3):
            for position, name in enumerate(["embed"] + ["norm", "gemm", "act"] * 6 + ["head"]):
                at = step * 500 + position * 10
                builder.launch(at=at, dur=2).kernel(at=at + 4, dur=5, name=name)
        steps = found(builder)
        assert (steps.source, steps.count_kept(steps.launch_step).tolist()) == ("repetition", [20, 20, 20])

    def test_one_graph_replayed_again_and_again_is_a_step_each(self) -> None:
        builder = trace()
        for step in range(4):
            builder.graph_launch(at=step * 100, dur=5)
            for node in range(3):
                builder.kernel(at=step * 100 + 10 + node * 10, dur=8, name=f"k{node}")
        steps = found(builder)
        assert (steps.source, steps.found, steps.count_kept(steps.op_step).tolist()) == ("repetition", 4, [3] * 4)

    def test_a_layer_of_a_piecewise_graph_is_no_step(self) -> None:
        builder = trace().annotation("execute_8_context_0(sq1(2))_generation_8(x)", 0, 1000)
        pieces = [["embed", "qkv"], *[["out", "mlp", "qkv"]] * 5, ["out", "mlp"]]
        for index, piece in enumerate(pieces):
            builder.graph_launch(at=index * 100, dur=5)
            for node, name in enumerate(piece):
                builder.kernel(at=index * 100 + 10 + node * 10, dur=8, name=name)
            builder.launch(at=index * 100 + 50, dur=2).kernel(at=index * 100 + 60, dur=5, name="attention")
        steps = found(builder)
        assert (steps.source, steps.found) == ("annotation", 1)

    def test_the_files_edges_cut_repetitions_off(self) -> None:
        builder = loop(5, 9, period=1000)
        whole = builder.build()
        partly = trace()
        for event in builder.events():
            if 40 <= event["ts"] < 4040:
                partly.raw(event)
        assert Context(whole).steps.found == 5
        steps = found(partly)
        assert (steps.found, steps.dropped, sorted(steps.reasons)) == (5, 2, [0, 4])
        assert "start of the file" in steps.reasons[0]
        assert "end of the file" in steps.reasons[4]

    def test_an_expression_of_the_user_overrides(self) -> None:
        builder = loop(4, 2, annotate="ProfilerStep#{}")
        for step in range(4):
            builder.annotation(f"mine {step}", step * 100, 10)
        steps = found(builder, step_regex=r"^mine \d")
        assert (steps.source, steps.names[1], steps.count_kept(steps.launch_step).tolist()) == (
            "annotation",
            "mine 1",
            [1] * 4,
        )

    def test_an_expression_that_matches_nothing_is_told(self) -> None:
        steps = found(loop(4, 2, annotate="decode#{}"), step_regex="absent")
        assert (steps.source, steps.notices[0].code) == ("annotation", "step_regex_unmatched")

    def test_a_broken_expression_is_the_users_to_fix(self) -> None:
        with pytest.raises(LaunchscopeError, match="not a regular expression"):
            found(loop(3), step_regex="(")


ENGINE_STEPS = [
    ("execute_context_1(512)_generation_8(8)", "execute_context_0(0)_generation_8(8)"),  # vLLM
    ("execute_8192_context_9(sq8155sk8430)_generation_37(sq37)", "execute_8_context_0(sqsk)_generation_8(sq8)"),
    ("execute_new_2_cached_6", "execute_new_0_cached_8"),  # vLLM of 2025
    ("step[EXTEND bs=8 toks=4096]", "step[DECODE bs=8]"),  # SGLang
    ("scheduler.run_batch", "scheduler.run_batch"),
]


def served(prefill: str, decode: str, steps: int = 5) -> TraceBuilder:
    """Forward passes of 3 launches inside an annotation, one to sample outside, one more in every second step."""
    builder = trace()
    for step in range(steps):
        at = 100 * step
        builder.annotation("scheduler.recv_requests", at - 5, 2).annotation(decode if step % 2 else prefill, at, 30)
        for index, offset in enumerate((0, 10, 20, 50, 60) if step % 2 else (0, 10, 20, 50)):
            builder.launch(at + offset, 2).kernel(at + offset + 4, 5, name=f"k{index}{step % 2}")
    return builder


class TestEngines:
    @pytest.mark.parametrize(("prefill", "decode"), ENGINE_STEPS)
    def test_a_step_reaches_to_the_next_annotation_with_its_sampling(self, prefill: str, decode: str) -> None:
        """The annotations hold 15 of 21 launches, and prefill and decode don't take turns for long enough to repeat."""
        steps = found(served(prefill, decode))
        assert (steps.source, steps.names[:2]) == ("annotation", (prefill, decode))
        assert steps.count_kept(steps.launch_step).tolist() == [4, 5, 4, 5, 4]
        assert (steps.op_step != NONE).all()

    @pytest.mark.parametrize(("prefill", "decode"), ENGINE_STEPS)
    def test_two_serve_when_nothing_else_does(self, prefill: str, decode: str) -> None:
        steps = found(served(prefill, decode, steps=2))
        assert (steps.source, steps.count_kept(steps.launch_step).tolist()) == ("annotation", [4, 5])

    def test_sglangs_batches_come_before_the_forward_passes_inside(self) -> None:
        builder = served("step[EXTEND bs=8 toks=4096]", "step[DECODE bs=8]")
        for step in range(5):
            builder.annotation("scheduler.run_batch", 100 * step - 2, 55)
        steps = found(builder)
        assert (steps.names, steps.start_ns[:2].tolist()) == (("scheduler.run_batch",) * 5, [-2 * US, 98 * US])

    def test_annotations_that_hold_the_launches_are_taken_as_they_are(self) -> None:
        builder = loop(4, 3, annotate="step[DECODE bs={}]")
        assert found(builder).end_ns.tolist() == [30 * US, 130 * US, 230 * US, 330 * US]

    def test_others_names_are_no_engines(self) -> None:
        assert found(served("my step[1]", "my step[2]")).source == "none"


@pytest.mark.parametrize(
    ("name", "normalised"),
    [
        ("decode_step#12", "decode_step#"),
        ("execute_8192_context_9(sq8155(sk8430)sqsq7)_generation_37(sq37)", "execute__context__generation_"),
        ("generate_masks 0 1 0", "generate_masks"),
        ("run(a, (b)) at 0x7f3a", "run at"),
        ("execute_4(sq1, cut sho", "execute_"),
    ],
)
def test_names_lose_their_numbers_and_arguments(name: str, normalised: str) -> None:
    assert normalised_name(name) == normalised


PHASES = (("prepare", 0, 10, 1), ("forward", 10, 30, 20), ("sample", 40, 10, 1), ("copy back", 50, 10, 1))


def in_phases(steps: int, launches: dict[str, int] | None = None) -> TraceBuilder:
    """Steps of which only the phases are annotated: name, start, length, launches."""
    builder = trace()
    for step in range(steps):
        for name, at, length, count in PHASES:
            builder.annotation(name, 100 * step + at, length)
            for index in range((launches or {}).get(name, count)):
                start = 100 * step + at + index + 1
                builder.launch(start, 1).kernel(start + 1, 1, name=f"{name}{index}")
    return builder


class TestPhases:
    def test_a_step_begins_where_the_order_of_phases_does(self) -> None:
        """Forward holds 20 of 23 launches a step, or 1 of 4, and is no step in either case."""
        for launches in ({}, {"forward": 1}):
            steps = found(in_phases(4, launches))
            assert (steps.source, steps.names) == ("annotation", ("prepare",) * 4)
            assert steps.start_ns.tolist() == [0, 100 * US, 200 * US, 300 * US]
            assert (steps.launch_step != NONE).all()

    def test_a_range_around_them_is_the_step(self) -> None:
        builder = in_phases(4)
        for step in range(4):
            builder.annotation("decode step", 100 * step - 5, 70)
        assert found(builder).names == ("decode step",) * 4

    def test_one_phase_alone_is_a_step_like_any_range(self) -> None:
        steps = found(loop(4, 3, annotate="forward"))
        assert (steps.names, steps.end_ns[0]) == (("forward",) * 4, 30 * US)


class TestOwnership:
    def test_an_op_belongs_to_the_step_of_its_launch_however_late_it_runs(self) -> None:
        builder = (
            trace()
            .step(0, at=0, dur=50).launch(at=10, dur=5).kernel(at=120, dur=30)
            .step(1, at=100, dur=50).launch(at=110, dur=5).kernel(at=150, dur=30)
        )  # fmt: skip
        steps = found(builder)
        assert steps.op_step.tolist() == [0, 1]

    def test_an_op_without_a_launch_belongs_to_the_window_that_holds_its_start(self) -> None:
        builder = (
            trace()
            .kernel(at=20, dur=5, launch=False)  # before the first step's first op
            .step(0, at=0, dur=50).launch(at=10, dur=5).kernel(at=120, dur=10)
            .kernel(at=140, dur=5, launch=False)  # step 1 has begun on the host, not on the GPU
            .step(1, at=100, dur=50).launch(at=110, dur=5).kernel(at=150, dur=10)
            .kernel(at=500, dur=5, launch=False)  # long after
        )  # fmt: skip
        assert found(builder).op_step.tolist() == [-1, 0, 0, 1, -1]

    def test_blocking_calls_belong_to_the_step_they_begin_in(self) -> None:
        builder = loop(3, 1, annotate="step {}").sync(at=5, dur=3).sync(at=60, dur=3).sync(at=205, dur=3)
        assert found(builder).blocking_step.tolist() == [0, -1, 2]

    def test_launches_of_other_threads_count_to_the_step_they_fall_in(self) -> None:
        builder = loop(3, 1, annotate="step {}").launch(at=101, dur=2, thread=9).kernel(at=120, dur=5)
        assert found(builder).count_kept(found(builder).launch_step).tolist() == [1, 2, 1]


class TestDropped:
    def test_a_step_without_gpu_work(self) -> None:
        steps = found(loop(4, 1, annotate="step {}").annotation("step 9", 350, 10))
        assert (steps.dropped, steps.reasons) == (1, {4: "no GPU work in it"})

    def test_the_last_step_with_fewer_launches_than_the_others(self) -> None:
        builder = (
            loop(3, 4, annotate="step {}").annotation("step 3", 300, 20).launch(at=300, dur=2).kernel(at=304, dur=5)
        )
        assert found(builder).reasons == {3: "cut off by the end of the file: 1 launches, 1 GPU ops"}

    def test_a_step_in_the_middle_may_launch_less(self) -> None:
        builder = (
            loop(2, 4, annotate="step {}").annotation("step 2", 200, 20).launch(at=200, dur=2).kernel(at=204, dur=5)
        )
        for step in (3, 4):
            builder.annotation(f"step {step}", step * 100, 40)
            for index in range(4):
                builder.launch(at=step * 100 + index * 10, dur=2).kernel(at=step * 100 + index * 10 + 4, dur=5)
        assert found(builder).dropped == 0

    def test_a_step_that_compiles(self) -> None:
        builder = loop(4, 1, annotate="step {}").annotation("_compile.compile_inner (dynamo_timed)", 1, 5)
        assert found(builder).reasons == {0: "compiles or captures"}

    def test_leading_steps_that_launch_more_or_take_far_longer(self) -> None:
        builder = trace().annotation("step 0", 0, 100)
        for index in range(9):
            builder.launch(at=index * 10, dur=2).kernel(at=index * 10 + 4, dur=5)
        for step in range(1, 5):
            builder.annotation(f"step {step}", step * 1000, 600 if step == 1 else 100)
            for index in range(3):
                builder.launch(at=step * 1000 + index * 10, dur=2).kernel(at=step * 1000 + index * 10 + 4, dur=5)
        steps = found(builder)
        assert steps.reasons == {
            0: "warm-up: 9 launches, the others at most 3",
            1: "warm-up: 6 times the others' host time",
        }


class TestFigures:
    def test_steady_windows_reach_to_the_first_op_of_the_step_after_each_run(self) -> None:
        builder = loop(6, 1, annotate="step {}").annotation("compile_fx_inner", 201, 3)  # step 2 is dropped
        context = Context(builder.build())
        assert context.windows[0] == [(4 * US, 204 * US), (304 * US, 504 * US)]
        assert context.periods_ns.tolist() == [100 * US] * 4

    def test_a_lone_step_has_no_window(self) -> None:
        builder = trace().step(0).launch(at=0, dur=2).kernel(at=4, dur=5)
        context = Context(builder.build())
        assert context.windows[0] == []
        assert context.periods_ns.tolist() == []

    def test_a_steps_busy_time_is_the_union_of_its_own_ops(self) -> None:
        builder = (
            trace()
            .step(0, at=0, dur=50).launch(at=10, dur=2).kernel(at=20, dur=10)
            .launch(at=14, dur=2).kernel(at=25, dur=10, stream=8)  # 5 µs of it overlap
            .launch(at=18, dur=2).kernel(at=22, dur=1, stream=9)  # within
            .step(1, at=100, dur=50).launch(at=110, dur=2).kernel(at=30, dur=40)
        )  # fmt: skip
        assert Context(builder.build()).step_busy_ns[0].tolist() == [15 * US, 40 * US]

    def test_a_stray_record_of_1970_leaves_other_steps_busy_time_alone(self) -> None:
        builder = trace()
        for step in range(40):
            at = 1_700_000_000_000_000 + 100 * step
            builder.step(step, at, 90).launch(at + 1, 2).kernel(0 if step == 20 else at + 4, 30)
        assert set(Context(builder.build()).step_busy_ns[0].tolist()) == {30 * US}

    def test_devices_have_windows_of_their_own(self) -> None:
        builder = loop(3, 1, annotate="step {}")
        for step in range(3):
            builder.launch(at=step * 100 + 6, dur=1).kernel(at=step * 110 + 20, dur=5, device=1)
        context = Context(builder.build())
        assert context.windows[1] == [(20 * US, 240 * US)]
        with pytest.raises(KeyError):
            context.windows[3]


CASES = {
    "empty": ("none", 0),
    "missing launches": ("none", 0),
    "eager steps": ("profiler_step", 5),
    "graph replay": ("profiler_step", 4),
    "graph captured before profiling": ("profiler_step", 2),
    "truncated file": ("profiler_step", 5),
}  # every other case is one ProfilerStep


@pytest.mark.parametrize("case", NAMED_CASES)
def test_named_cases(case: str) -> None:
    recorded = NAMED_CASES[case]().build()
    context = Context(recorded)
    steps = context.steps
    assert (steps.source, steps.found) == CASES.get(case, ("profiler_step", 1))
    assert (steps.dropped, len(steps.reasons), int((~steps.kept).sum())) == (0, 0, 0)
    linked = recorded.gpu_ops.launch_row != NONE
    assert (steps.op_step[linked] == steps.launch_step[recorded.gpu_ops.launch_row[linked]]).all()
    for device in recorded.devices:
        periods = context.period_ns[device]
        assert sum(end - start for start, end in context.windows[device]) == periods[periods != NONE].sum()
        assert len(context.step_busy_ns[device]) == steps.found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("hta_event_sync_multi_stream", ("none", 0, [])),
        ("leimao_trace_with_manual_capture", ("profiler_step", 7, [40] * 7)),  # 4 launches and a graph of 36
        ("torchao_quantize_vit_bfloat16", ("annotation", 5, [186] * 5)),  # a copy and a graph of 185
    ],
)
def test_recorded_traces(name: str, expected: tuple[str, int, list[int]]) -> None:
    recorded = open_trace(TRACES / f"{name}.json.gz")
    steps = Context(recorded).steps
    assert (steps.source, steps.found, steps.count_kept(steps.op_step).tolist()) == expected


def test_a_long_trace_is_quick() -> None:
    """100,000 launches of an unannotated loop: the repetition is found in well under a second."""
    tokens = np.tile(np.concatenate([[900], np.tile(np.arange(40), 18), [901]]), 139)[:100_000]
    began = perf_counter()
    found_repetition = find_repetition(tokens)
    assert found_repetition is not None
    assert (found_repetition.period, found_repetition.start) == (722, 0)
    assert perf_counter() - began < 3
