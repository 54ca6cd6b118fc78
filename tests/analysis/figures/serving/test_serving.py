"""The anatomy of a serving step, on traces whose numbers add up in the head. Times are µs."""

from __future__ import annotations

from collections.abc import Callable
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.figures.serving.anatomy import NO_RANGE
from launchscope.analysis.figures.serving.host_phases import IN_REPLAY, NO_COPY_IN, NO_SAMPLING, TWO_SAMPLINGS
from launchscope.analysis.model.document import PHASES, ServingDoc, ServingKindDoc, ServingPhaseDoc, Summary, TraceDoc
from launchscope.fixtures.builder import TraceBuilder, trace

from ....cases import NAMED_CASES

TO_HOST = "Memcpy DtoH (Device -> Pinned)"
ARGMAX = "void at::native::reduce_kernel<512, 1, at::native::ReduceOp<float, at::native::ArgMaxOps<float>>>"
PERIOD = 200


def found(builder: TraceBuilder) -> ServingDoc | None:
    return analyze_trace(builder.build(), name="t").document.serving


def serving(builder: TraceBuilder) -> ServingDoc:
    document = found(builder)
    assert document is not None
    return document


def only_kind(builder: TraceBuilder) -> ServingKindDoc:
    (kind,) = serving(builder).kinds
    return kind


def phases(kind: ServingKindDoc) -> dict[str, ServingPhaseDoc]:
    return {phase.phase: phase for phase in kind.phases}


def us(summary: Summary | None) -> float | None:
    """Per step."""
    return None if summary is None else round(summary.total / summary.count / 1000, 6)


def host_us(kind: ServingKindDoc) -> dict[str, float | None]:
    return {phase.phase: us(phase.host_ns) for phase in kind.phases}


def busy_us(kind: ServingKindDoc) -> dict[str, float | None]:
    return {phase.phase: us(phase.gpu_busy_ns) for phase in kind.phases if us(phase.gpu_busy_ns)}


def idle_us(kind: ServingKindDoc) -> dict[str, float | None]:
    return {phase.phase: us(phase.gpu_idle_ns) for phase in kind.phases if us(phase.gpu_idle_ns)}


def copy_in(builder: TraceBuilder, at: int) -> None:
    """An operator of 10 µs: its copy arrives at 14."""
    builder.op("aten::copy_", at + 5, 10).launch(at + 8, 4, "cudaMemcpyAsync").memcpy(at + 14, 1)


def sample(builder: TraceBuilder, at: int) -> None:
    builder.op("aten::argmax", at + 32, 8).launch(at + 34, 3).kernel(at + 60, 4, name=ARGMAX)


def copy_out(builder: TraceBuilder, at: int) -> None:
    builder.op("aten::copy_", at + 42, 8).launch(at + 44, 3, "cudaMemcpyAsync").memcpy(at + 66, 1, name=TO_HOST)
    builder.sync(at + 52, 16)


def loop(
    steps: int = 4, sampling: Callable[[TraceBuilder, int], None] = sample, copies_in: bool = True
) -> TraceBuilder:
    """Copy in, a replay of two matrix products, sampling, copy out and wait until 68; then the scheduler until 200."""
    builder = trace()
    for step in range(steps):
        at = PERIOD * step
        builder.step(step, at, PERIOD)
        if copies_in:
            copy_in(builder, at)
        builder.graph_launch(at + 20, 10).kernel(at + 25, 10, name="gemm").kernel(at + 36, 20, name="gemm")
        sampling(builder, at)
        copy_out(builder, at)
    return builder


def no_sampling(builder: TraceBuilder, at: int) -> None:
    builder.op("aten::add", at + 32, 8).launch(at + 34, 3).kernel(at + 60, 4, name="add")


def closes(document: ServingDoc) -> None:
    for kind in document.kinds:
        for whole, figure in (("host_ns", "host_ns"), ("gpu_busy_ns", "gpu_busy_ns"), ("gpu_idle_ns", "gpu_idle_ns")):
            parts = [getattr(phase, figure) for phase in kind.phases]
            assert sum(part.total for part in parts if part is not None) == getattr(kind, whole).total
        for phase in kind.phases:
            if phase.in_replays is not None and phase.outside is not None and phase.host_ns is not None:
                assert phase.in_replays.host_ns.total + phase.outside.host_ns.total == phase.host_ns.total
                assert phase.in_replays.gpu_busy_ns.total + phase.outside.gpu_busy_ns.total == phase.gpu_busy_ns.total


def test_a_step_in_phases() -> None:
    kind = only_kind(loop())
    assert (kind.count, us(kind.host_ns), us(kind.period_ns)) == (3, 200, 200)
    assert host_us(kind) == {"prepare": 20, "forward": 12, "sample": 10, "copy_back": 26, "between_steps": 132}
    assert busy_us(kind) == {"prepare": 1, "forward": 30, "sample": 4, "copy_back": 1}
    assert {phase.phase: us(phase.blocked_ns) for phase in kind.phases if us(phase.blocked_ns)} == {"copy_back": 16}
    assert {phase.evidence for phase in kind.phases} == {"structure"}


def test_what_the_gpu_waited_for() -> None:
    """15–20 for the replay to be asked for, 20–25 inside that call, 35–36 from node to node; 56–60 and 64–66 nothing of
    the host's; from 67 on a microsecond of the wait, the scheduler, 12 of preparation until the copy is launched and 2
    until it starts.
    """
    kind = only_kind(loop())
    assert idle_us(kind) == {"forward": 6, "sample": 4, "copy_back": 3, "between_steps": 132, "prepare": 19}
    assert us(kind.gpu_idle_ns) == 164


def test_the_forward_inside_and_outside_of_replays() -> None:
    """An attention kernel of 3 µs between two replays, as in piecewise graphs."""
    builder = trace()
    for step in range(4):
        at = PERIOD * step
        builder.step(step, at, PERIOD)
        copy_in(builder, at)
        builder.graph_launch(at + 16, 4).kernel(at + 20, 10, name="gemm").launch(at + 21, 2).kernel(
            at + 30, 3, name="fmha"
        )
        builder.graph_launch(at + 24, 6).kernel(at + 36, 20, name="gemm")
        sample(builder, at)
        copy_out(builder, at)
    forward = phases(only_kind(builder))["forward"]
    assert forward.in_replays is not None
    assert forward.outside is not None
    assert (us(forward.host_ns), us(forward.gpu_busy_ns)) == (16, 33)
    inside, outside = forward.in_replays, forward.outside
    assert (us(inside.host_ns), us(inside.gpu_busy_ns), inside.kernels.median, inside.launches.median) == (10, 30, 2, 2)
    assert (us(outside.host_ns), us(outside.gpu_busy_ns), outside.kernels.median) == (6, 3, 1)


def test_sampling_inside_the_replay_has_gpu_time_and_no_host_time() -> None:
    kind = only_kind(loop(sampling=lambda b, at: b.kernel(at + 60, 4, name=ARGMAX)))  # type: ignore[arg-type]
    sampling = phases(kind)["sample"]
    assert (sampling.host_ns, us(sampling.gpu_busy_ns), sampling.reason) == (None, 4, IN_REPLAY)
    assert host_us(kind) == {
        "prepare": 20,
        "forward": 22,  # until the copy out
        "sample": None,
        "copy_back": 26,
        "between_steps": 132,
    }


def test_without_copies_in_the_preparation_can_t_be_told() -> None:
    kind = only_kind(loop(copies_in=False))
    prepare = phases(kind)["prepare"]
    assert (prepare.host_ns, prepare.reason) == (None, NO_COPY_IN)
    assert host_us(kind)["forward"] == 32


def test_a_loop_that_does_not_sample_is_no_serving_loop() -> None:
    assert found(loop(sampling=no_sampling)) is None


def test_training_that_looks_at_its_accuracy_is_none_either() -> None:
    """The backward pass has matrix products after the argmax."""

    def backward(builder: TraceBuilder, at: int) -> None:
        sample(builder, at)
        builder.op("aten::mm", at + 40, 2).launch(at + 40, 1).kernel(at + 64, 1, name="gemm")

    assert found(loop(sampling=backward)) is None


def test_training_with_named_phases_is_none() -> None:
    builder = loop(sampling=no_sampling)
    for step in range(4):
        builder.annotation("prepare", PERIOD * step, 16).annotation("forward", PERIOD * step + 17, 20)
        builder.annotation("wait", PERIOD * step + 41, 29)
    assert found(builder) is None


def test_phases_that_are_annotated_are_taken_as_they_are() -> None:
    """The innermost where two hold; what no annotation holds is told by structure, and behind the last is between."""
    builder = trace()
    for step in range(4):
        at = PERIOD * step
        builder.step(step, at, PERIOD)
        builder.annotation("prepare", at + 2, 15).annotation("forward", at + 18, 13).annotation("sample", at + 31, 10)
        builder.annotation("wait", at + 41, 29).annotation("wait for tokens", at + 60, 5)
        copy_in(builder, at)
        builder.graph_launch(at + 20, 10).kernel(at + 25, 10, name="gemm").kernel(at + 36, 20, name="gemm")
        sample(builder, at)
        copy_out(builder, at)
    kind = only_kind(builder)
    assert host_us(kind) == {"prepare": 18, "forward": 13, "sample": 10, "copy_back": 29, "between_steps": 130}
    evidence = {phase.phase: phase.evidence for phase in kind.phases}
    assert evidence == {
        "prepare": "annotation, structure",  # 0 to 2, 17 to 18
        "forward": "annotation",
        "sample": "annotation",
        "copy_back": "annotation",
        "between_steps": "structure",
    }


def vllm(name: str, builder: TraceBuilder, at: int, scopes: bool = True) -> None:
    """A step as vLLM annotates it: sampling follows outside of its own range."""
    builder.annotation(name, at + 1, 30)
    if scopes:
        builder.annotation("gpu_model_runner: preprocess", at + 2, 14).annotation(
            "gpu_model_runner: forward", at + 17, 10
        )
        builder.annotation("gpu_model_runner: postprocess", at + 27, 3).annotation(
            "gpu_model_runner: sample", at + 31, 9
        )
        builder.annotation("gpu_model_runner: bookkeep", at + 40, 29)
    copy_in(builder, at)


def engine_loop(names: list[str], annotate: Callable[[str, TraceBuilder, int], None]) -> TraceBuilder:
    builder = trace()
    for step, name in enumerate(names):
        at = PERIOD * step
        annotate(name, builder, at)
        builder.graph_launch(at + 20, 10).kernel(at + 25, 10, name="gemm").kernel(at + 36, 20, name="gemm")
        sample(builder, at)
        copy_out(builder, at)
    return builder


VLLM_NAMES = [
    "execute_context_1(512)_generation_0(0)",
    "execute_context_0(0)_generation_4(4)",
    "execute_context_0(0)_generation_4(4)",
    "execute_context_1(64)_generation_4(4)",
    "execute_context_0(0)_generation_5(5)",
    "execute_context_0(0)_generation_5(5)",
]


def test_vllm_with_its_scopes() -> None:
    """Steps begin with execute_context at 1."""
    document = serving(engine_loop(VLLM_NAMES, vllm))
    assert (document.engine, document.steps) == ("vLLM", 5)
    assert [(kind.kind, kind.count, kind.evidence) for kind in document.kinds] == [
        ("prefill", 1, "annotation"),
        ("mixed", 1, "annotation"),
        ("decode", 3, "annotation"),
    ]
    for kind in document.kinds:
        assert host_us(kind) == {"prepare": 16, "forward": 14, "sample": 9, "copy_back": 29, "between_steps": 132}
    closes(document)


def test_vllm_without_them_by_structure() -> None:
    document = serving(engine_loop(VLLM_NAMES, lambda name, b, at: vllm(name, b, at, scopes=False)))
    decode = document.kinds[-1]
    assert host_us(decode) == {"prepare": 19, "forward": 12, "sample": 10, "copy_back": 26, "between_steps": 133}


def sglang(name: str, builder: TraceBuilder, at: int) -> None:
    """The scheduler picks the next batch between two steps."""
    builder.annotation("scheduler.run_batch", at, 41).annotation(name, at + 17, 14)
    builder.annotation("scheduler.process_batch_result", at + 41, 30)
    builder.annotation("scheduler.recv_requests", at + 80, 10).annotation(
        "scheduler.get_next_batch_to_run", at + 100, 50
    )
    copy_in(builder, at)


def test_sglang_with_its_scheduler() -> None:
    names = ["step[EXTEND bs=1 toks=512]", *["step[DECODE bs=4]"] * 4]
    document = serving(engine_loop(names, sglang))
    assert document.engine == "SGLang"
    assert [(kind.kind, kind.count) for kind in document.kinds] == [("prefill", 1), ("decode", 3)]
    for kind in document.kinds:
        assert host_us(kind) == {
            "schedule": 70,  # 80 to 150
            "prepare": 17,
            "forward": 15,
            "sample": 9,
            "copy_back": 30,
            "between_steps": 59,  # 71 to 80 and 150 to 200, nobody's
        }
    closes(document)


def test_a_kind_that_replays_and_one_that_does_not() -> None:
    """Steps 0 and 3 launch two larger matrix products one by one: prefill; the others replay."""
    builder = trace()
    for step in range(7):
        at = PERIOD * step
        builder.step(step, at, PERIOD)
        copy_in(builder, at)
        if step in (0, 3):
            builder.op("aten::mm", at + 17, 5).launch(at + 18, 3).kernel(at + 22, 13, name="big_gemm")
            builder.op("aten::mm", at + 23, 6).launch(at + 24, 4).kernel(at + 36, 40, name="big_gemm")
            builder.op("aten::argmax", at + 32, 8).launch(at + 34, 3).kernel(at + 77, 4, name=ARGMAX)
            builder.op("aten::copy_", at + 42, 8).launch(at + 44, 3).memcpy(at + 82, 1, name=TO_HOST)
            builder.sync(at + 52, 32)
        else:
            builder.graph_launch(at + 20, 10).kernel(at + 25, 10, name="gemm").kernel(at + 36, 20, name="gemm")
            sample(builder, at)
            copy_out(builder, at)
    document = serving(builder)
    told = [(kind.kind, kind.evidence, kind.count, us(kind.gpu_busy_ns)) for kind in document.kinds]
    assert told == [("prefill", "structure", 2, 59), ("decode", "structure", 4, 36)]
    assert host_us(document.kinds[0])["forward"] == 17
    closes(document)


def eager_loop(scale: dict[int, int], kernels: Callable[[int], str], sampling: Callable[[int], int]) -> TraceBuilder:
    """Ten steps of a matrix product of 20 µs × scale, its kernel and the time of sampling by the number of the step."""
    builder = trace()
    for step in range(10):
        at, work = 300 * step, 20 * scale.get(step, 1)
        builder.step(step, at, 300)
        copy_in(builder, at)
        builder.op("aten::mm", at + 16, 8).launch(at + 18, 3).kernel(at + 22, work, name=kernels(step))
        builder.op("aten::argmax", at + 32, 8).launch(at + 34, 3).kernel(at + 30 + work, sampling(step), name=ARGMAX)
        copied = at + 31 + work + sampling(step)
        builder.op("aten::copy_", at + 42, 8).launch(at + 44, 3).memcpy(copied, 1, name=TO_HOST)
        builder.sync(at + 52, max(copied + 2 - at - 52, 1))
    return builder


@pytest.mark.parametrize(
    ("scale", "kernels", "sampling", "told", "reason"),
    [
        ({2: 3, 6: 2}, {2: "big_gemm", 6: "other_gemm"}, {}, {"prefill": 2, "decode": 7}, None),
        ({2: 3, 6: 2}, {}, {}, {None: 9}, "run the same kernels"),
        ({2: 1.1}, {2: "big_gemm"}, {}, {None: 9}, "too little in GPU work"),
        ({2: 3}, {2: "big_gemm"}, {2: 12}, {None: 9}, "their batch may be larger"),
    ],
)
def test_a_kind_by_kernels_and_gpu_work(
    scale: dict[int, int],
    kernels: dict[int, str],
    sampling: dict[int, int],
    told: dict[str | None, int],
    reason: str | None,
) -> None:
    """A prefill computes more tokens by other kernels, and samples no more; a larger batch samples more."""
    document = serving(eager_loop(scale, lambda step: kernels.get(step, "gemm"), lambda step: sampling.get(step, 4)))
    assert {kind.kind: kind.count for kind in document.kinds} == told
    assert document.kinds_reason is None if reason is None else reason in (document.kinds_reason or "")
    closes(document)


def attention(builder: TraceBuilder, at: int, positions: int) -> None:
    """As PyTorch records it with shapes: query [batch, heads, positions, size] first."""
    dims = [[4, 32, positions, 64], [4, 8, 512, 64], []]
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::scaled_dot_product_attention", "pid": 100, "tid": 1}
    args = {"Input Dims": dims, "Input type": ["c10::BFloat16", "c10::BFloat16", "Scalar"]}
    builder.raw({**event, "ts": at + 16, "dur": 1, "args": args})


def test_a_kind_by_the_shapes_of_attention() -> None:
    """One position a row is a decode, 64 are a prefill, 4 may be speculative decoding."""
    builder = loop(6)
    for step, positions in enumerate((64, 1, 1, 4, 1, 1)):
        attention(builder, PERIOD * step, positions)
    document = serving(builder)
    told = [(kind.kind, kind.evidence, kind.count) for kind in document.kinds]
    assert told == [("prefill", "shapes", 1), ("decode", "shapes", 3), (None, None, 1)]
    assert "run the same kernels" in (document.kinds_reason or "")


def test_steps_that_are_alike_have_no_kind() -> None:
    document = serving(loop())
    assert [kind.kind for kind in document.kinds] == [None]
    assert "run the same kernels" in (document.kinds_reason or "")


def test_a_last_step_that_ends_before_it_begins_withholds_the_figures() -> None:
    """Of traces with negative times; every other step ends where the next one begins."""

    def stepped(lasts: int) -> TraceDoc:
        def annotate(name: str, builder: TraceBuilder, at: int) -> None:
            builder.step(at // PERIOD, at, 100 if at < PERIOD * (len(VLLM_NAMES) - 1) else lasts)
            vllm(name, builder, at)

        return analyze_trace(engine_loop(VLLM_NAMES, annotate).build(), name="t").document

    whole, document = stepped(100), stepped(-50)
    assert (whole.serving is not None, whole.serving_reason) == (True, None)
    assert (document.serving, document.serving_reason) == (None, NO_RANGE)
    assert document.withheld["serving"] == NO_RANGE


def test_the_only_step_has_no_time_between() -> None:
    builder = engine_loop(["execute_context_2(64)_generation_0(0)"], vllm)
    document = serving(builder)
    (kind,) = document.kinds
    between = phases(kind)["between_steps"]
    assert (kind.kind, kind.period_ns, between.host_ns) == ("prefill", None, None)
    assert "no step follows" in (between.reason or "")
    closes(document)


def test_a_draft_model_behind_the_sampling_is_not_taken_for_the_forward() -> None:
    """In an annotated trace the structure abstains for what is not annotated: here for sampling."""
    builder = engine_loop(["step[DECODE bs=1]"] * 4, lambda name, b, at: copy_in(b.annotation(name, at + 1, 28), at))
    for step in range(4):
        builder.op("aten::mm", PERIOD * step + 39, 2).launch(PERIOD * step + 39, 1).kernel(
            PERIOD * step + 64, 1, name="gemm"
        )
    sampling = phases(only_kind(builder))["sample"]
    assert (sampling.host_ns, sampling.reason) == (None, TWO_SAMPLINGS)


def test_an_annotated_step_without_sampling_says_so() -> None:
    builder = engine_loop(["step[DECODE bs=1]"] * 4, lambda name, b, at: copy_in(b.annotation(name, at + 1, 28), at))
    builder.raw({"ph": "M", "name": "process_name", "pid": 100, "args": {"name": "python"}})
    events = [event for event in builder.events() if event["name"] not in ("aten::argmax", ARGMAX)]
    quiet = trace()
    for event in events:
        quiet.raw(event)
    sampling = phases(only_kind(quiet))["sample"]
    assert (sampling.host_ns, sampling.reason) == (None, NO_SAMPLING)


@pytest.mark.parametrize("name", NAMED_CASES)
def test_accounts_close_or_there_is_none(name: str) -> None:
    case = NAMED_CASES[name]()
    if isinstance(case, TraceBuilder):
        document = found(case)
        if document is not None:
            closes(document)


def test_a_mid_forward_wait_does_not_make_all_around_it_a_wait() -> None:
    """Two ranges of one phase, with a matrix product between them."""
    builder = trace()
    for step in range(4):
        at = PERIOD * step
        builder.step(step, at, PERIOD).annotation("forward", at + 16, 4).annotation("wait", at + 22, 2)
        copy_in(builder, at)
        builder.launch(at + 17, 2).kernel(at + 20, 2, name="gemm").launch(at + 26, 2).kernel(at + 30, 20, name="gemm")
        builder.annotation("wait", at + 41, 29)
        sample(builder, at)
        copy_out(builder, at)
    assert host_us(only_kind(builder)) == {
        "prepare": 15,
        "forward": 15,  # 15 to 22 and 24 to 32
        "sample": 9,
        "copy_back": 31,
        "between_steps": 130,
    }


def test_vllms_frames_tell_where_no_scope_does() -> None:
    """Stacks were recorded: what lies between two functions of one phase is of that phase, too."""

    def annotate(name: str, builder: TraceBuilder, at: int) -> None:
        runner = "vllm/v1/worker/gpu_model_runner.py"
        builder.annotation(name, at, 31).python(f"{runner}(3380): execute_model", at, 31)
        builder.python(f"{runner}(1518): _prepare_inputs", at + 2, 13).python(
            f"{runner}(2814): _preprocess", at + 16, 3
        )
        builder.python(f"{runner}(3102): _model_forward", at + 19, 8)
        builder.python("vllm/model_executor/models/gpt_oss.py(1219): compute_logits", at + 27, 4)
        builder.python(f"{runner}(4000): _sample", at + 31, 10).python(
            f"{runner}(4100): _bookkeeping_sync", at + 41, 28
        )
        copy_in(builder, at)

    kind = serving(engine_loop(VLLM_NAMES, annotate)).kinds[-1]
    assert host_us(kind) == {"prepare": 19, "forward": 12, "sample": 10, "copy_back": 28, "between_steps": 131}
    assert {phase.phase: phase.evidence for phase in kind.phases if phase.phase != "between_steps"} == {
        "prepare": "frames, structure",
        "forward": "frames",
        "sample": "frames",
        "copy_back": "frames",
    }


ANY_NAME = ("prepare", "forward", "sample", "copy back", "wait", "step[DECODE bs=1]", "scheduler.run_batch", "prefill")
ANY_KERNEL = ("gemm", ARGMAX, "elementwise", "multinomial")


def anything(random: Random) -> TraceBuilder:
    """Ranges, operators, waits, copies, replays and launches on two threads, as they come."""
    builder = trace()
    for _ in range(random.randint(3, 60)):
        at, thread = random.randint(0, 400), random.choice((1, 1, 1, 2))
        what = random.choice(("range", "operator", "wait", "replay", "copy", "stray", "launch", "launch", "launch"))
        if what == "range":
            builder.annotation(random.choice(ANY_NAME), at, random.randint(0, 80), thread=thread)
        elif what == "operator":
            builder.op(
                random.choice(("aten::mm", "aten::copy_", "aten::argmax")), at, random.randint(0, 60), thread=thread
            )
        elif what == "wait":
            builder.sync(at, random.randint(0, 50), thread=thread)
        elif what == "replay":
            builder.graph_launch(at, random.randint(0, 20), thread=thread)
            for _ in range(random.randint(1, 4)):
                builder.kernel(at + random.randint(0, 60), random.randint(0, 20), name=random.choice(ANY_KERNEL))
        elif what == "copy":
            builder.launch(at, random.randint(0, 9), "cudaMemcpyAsync", thread=thread)
            name = random.choice(("Memcpy HtoD (Pinned -> Device)", TO_HOST))
            builder.memcpy(at + random.randint(0, 30), random.randint(0, 9), name=name, stream=random.choice((7, 8)))
        elif what == "stray":
            builder.kernel(at, random.randint(0, 9), name=random.choice(ANY_KERNEL), launch=False)
        else:
            builder.launch(at, random.randint(0, 9), thread=thread)
            builder.kernel(at + random.randint(-3, 60), random.randint(0, 20), name=random.choice(ANY_KERNEL))
    return builder


@settings(max_examples=80, deadline=None)
@given(st.randoms(use_true_random=False), st.booleans())
def test_accounts_close_on_anything(random: Random, with_steps: bool) -> None:
    """The analysis asserts it of every step; here it must tell of some, and never fail."""
    builder = anything(random)
    for step in range(4 if with_steps else 0):
        builder.step(step, 100 * step, random.randint(50, 100))
    document = found(builder)
    if document is not None:
        closes(document)


def test_the_order_of_phases_is_that_of_a_step() -> None:
    assert PHASES == ("schedule", "prepare", "forward", "sample", "copy_back", "between_steps", "other")
