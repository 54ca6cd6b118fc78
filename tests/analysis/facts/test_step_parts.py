"""Layers, blocks and micro-batches repeat inside a step; what holds whole steps is none either."""

from __future__ import annotations

import pytest
from launchscope.analysis.facts.context import Context
from launchscope.fixtures.builder import TraceBuilder, trace

LAYER = [f"kernel_{index}" for index in range(9)]


def layers(builder: TraceBuilder, at: int, count: int = 12, *, each: str | None = None) -> TraceBuilder:
    """An embedding, so many layers of nine launches 10 µs apart, and a head: 20 µs + 90 µs a layer."""
    builder.launch(at, 4).kernel(at + 5, 3.5, name="embed")
    for layer in range(count):
        begin = at + 10 + 90 * layer
        if each is not None:
            builder.annotation(each.format(layer), begin, 89)
        for index, name in enumerate(LAYER):
            builder.launch(begin + 10 * index, 4).kernel(begin + 10 * index + 5, 3.5, name=name)
    end = at + 10 + 90 * count
    return builder.launch(end, 4).kernel(end + 5, 3.5, name="head")


def found(builder: TraceBuilder) -> tuple[str, int]:
    """How the steps were found, and how many."""
    steps = Context(builder.build()).steps
    return steps.source, len(steps)


class TestLayers:
    """One pass of twelve layers is one step, or none: never twelve."""

    def test_in_a_lone_step_of_an_engine(self) -> None:
        builder = layers(trace().annotation("execute_context_1(128)_generation_0(0)", 0, 1200), 10)
        assert found(builder) == ("annotation", 1)

    def test_in_one_annotation(self) -> None:
        assert found(layers(trace().annotation("forward", 0, 1200), 10)) == ("annotation", 1)

    @pytest.mark.parametrize("each", ["layer", "layer {}", "FSDP::pre_forward (layers.{})"])
    def test_annotated_in_one_annotation(self, each: str) -> None:
        builder = layers(trace().annotation("forward", 0, 1200), 10, each=each)
        assert found(builder) == ("annotation", 1)

    @pytest.mark.parametrize("each", ["layer", "layer {}", "mlp", "Torch-Compiled Region: 0/0", "FSDP::forward"])
    @pytest.mark.parametrize("passes", [1, 2])
    def test_annotated_in_steps_of_an_engine_or_passes(self, each: str, passes: int) -> None:
        for step in ("execute_context_1(128)_generation_0(0)", "forward", "generate_token"):
            builder = trace()
            for index in range(passes):
                layers(builder.annotation(step, 2000 * index, 1200), 2000 * index + 10, each=each)
            assert found(builder) == ("annotation", passes)

    @pytest.mark.parametrize(
        "each", ["layer", "layer {}", "blocks.{}", "transformer.h.{}", "LlamaDecoderLayer {}", "micro_batch"]
    )
    def test_called_so(self, each: str) -> None:
        assert found(layers(trace(), 10, each=each)) == ("none", 0)
        assert found(layers(trace().annotation("generate", 0, 1200), 10, each=each)) == ("annotation", 1)

    def test_numbered_again_and_again(self) -> None:
        builder = trace()
        for layer in range(24):
            builder.annotation(f"h.{layer % 8}", 100 * layer, 95)
            for index, name in enumerate(LAYER):
                builder.launch(100 * layer + 10 * index, 4).kernel(100 * layer + 10 * index + 5, 3.5, name=name)
        assert found(builder) == ("none", 0)

    def test_that_are_gathered_one_by_one(self) -> None:
        """FSDP annotates what precedes each layer: it holds one launch of ten."""
        builder = trace()
        for layer in range(12):
            at = 110 * layer
            builder.annotation(f"FSDP::pre_forward (layers.{layer})", at, 18).launch(at + 2, 4).kernel(at + 10, 5.5)
            for index, name in enumerate(LAYER):
                builder.launch(at + 20 + 10 * index, 4).kernel(at + 25 + 10 * index, 3.5, name=name)
        assert found(builder) == ("none", 0)

    def test_that_are_the_outermost_modules(self) -> None:
        builder = layers(trace(), 10)
        for layer in range(12):
            builder.python(f"nn.Module: LlamaDecoderLayer_{layer}", 20 + 90 * layer, 89)
        assert found(builder) == ("none", 0)

    @pytest.mark.parametrize("cuts", [("attention",), ("attention", "experts")])
    def test_of_piecewise_graphs(self, cuts: tuple[str, ...]) -> None:
        """One pass: a first piece, for each layer an eager kernel and a piece, or two of each, and a last piece."""
        builder, at = trace().graph_launch(0, 4).kernel(5, 2, name="embed").kernel(8, 2, name="qkv"), 20
        for _ in range(12):
            for cut in cuts:
                builder.launch(at, 4).kernel(at + 5, 3, name=cut)
                builder.graph_launch(at + 20, 4).kernel(at + 25, 2, name="out").kernel(at + 28, 2, name=f"after {cut}")
                at += 40
        builder.graph_launch(at, 4).kernel(at + 5, 2, name="norm").kernel(at + 8, 2, name="head")
        assert found(builder) == ("none", 0)

    def test_in_one_call_of_a_module(self) -> None:
        builder = layers(trace().python("nn.Module: LlamaForCausalLM_0", 0, 1200), 10)
        assert found(builder) == ("annotation", 1)

    def test_in_one_pass(self) -> None:
        builder = layers(trace().python("model.py(30): main", 0, 1300).python("model.py(12): forward", 5, 1200), 10)
        assert found(builder) == ("none", 0)

    def test_in_half_of_the_launches_or_of_the_time(self) -> None:
        builder = layers(trace(), 0)
        for index in range(111):
            builder.launch(2000 + 10 * index, 4).kernel(2005 + 10 * index, 3.5, name=f"other_{index}")
        assert found(builder) == ("none", 0)
        assert found(layers(trace().launch(2000, 4).kernel(2005, 400, name="gemm"), 0)) == ("none", 0)


class TestSteps:
    """Four passes of twelve layers are four steps."""

    def passes(self, builder: TraceBuilder, *, each: str | None = None, around: str | None = None) -> TraceBuilder:
        for step in range(4):
            if around is not None:
                builder.python(around, 2000 * step - 5, 1200)
            layers(builder, 2000 * step, each=each)
        return builder

    @pytest.mark.parametrize("loop", ["generate", "epoch 3", "decode loop", "train", "ProfilerStep*"])
    def test_in_what_is_a_loop_by_name(self, loop: str) -> None:
        builder = trace().annotation(loop, -100, 9000)
        for step in range(4):
            layers(builder.annotation("decode", 2000 * step - 5, 1200), 2000 * step)
        assert found(builder) == ("annotation", 4)

    @pytest.mark.parametrize(
        ("outer", "inner"),
        [
            ("request", "execute_context_0(0)_generation_8(8)"),
            ("generate", "decode"),
            ("run", "nn.Module: LlamaForCausalLM_0"),
        ],
    )
    def test_several_in_each_of_another(self, outer: str, inner: str) -> None:
        builder = trace()
        for step in range(6):
            if step % 2 == 0:
                builder.annotation(outer, 2000 * step - 10, 3900)
            add = builder.python if inner.startswith("nn.Module") else builder.annotation
            layers(add(inner, 2000 * step - 5, 1200), 2000 * step)
        assert found(builder) == ("annotation", 6)

    def test_of_an_engine_beside_other_names(self) -> None:
        builder = trace()
        for step in range(2):
            layers(builder.annotation("execute_context_1(128)_generation_0(0)", 2000 * step, 1200), 2000 * step + 10)
        for index in range(3):
            builder.annotation("sample", 5000 + 50 * index, 40).launch(5010 + 50 * index, 4).kernel(
                5020 + 50 * index, 5
            )
        assert found(builder) == ("annotation", 2)

    def test_two_calls_of_a_module_in_one_annotation(self) -> None:
        builder = trace().annotation("generate", 0, 3900)
        for step in range(2):
            layers(builder.python("nn.Module: LlamaForCausalLM_0", 2000 * step + 5, 1200), 2000 * step + 10)
        assert found(builder) == ("annotation", 2)

    def test_that_are_blocks_of_tokens(self) -> None:
        builder = trace()
        for step in range(4):
            layers(builder.annotation(f"denoise block {step}", 2000 * step - 5, 1200), 2000 * step)
        assert found(builder) == ("annotation", 4)

    def test_that_are_called_steps(self) -> None:
        builder = trace().annotation("inference", -100, 9000)
        for step in range(4):
            layers(builder.annotation(f"decode_step#{step}", 2000 * step - 5, 1200), 2000 * step)
        assert found(builder) == ("annotation", 4)

    @pytest.mark.parametrize(
        "each", ["layer {}", "layer", "Torch-Compiled Region: 0/0", "## Call CompiledFxGraph f3 ##"]
    )
    def test_that_nothing_but_layers_tell(self, each: str) -> None:
        assert found(self.passes(trace(), each=each)) == ("repetition", 4)

    def test_with_a_copy_of_blocks_in_each(self) -> None:
        builder = trace()
        for step in range(4):
            layers(builder.annotation("copy_blocks", 2000 * step, 9), 2000 * step)
        assert found(builder) == ("repetition", 4)

    def test_by_calls_of_the_outermost_module(self) -> None:
        builder = trace().python("model.py(30): main", -100, 9000).annotation("run", -50, 8900)
        self.passes(builder, around="nn.Module: LlamaForCausalLM_0")
        for step in range(4):
            for layer in range(12):
                builder.python(f"nn.Module: LlamaDecoderLayer_{layer}", 2000 * step + 10 + 90 * layer, 89)
        assert found(builder) == ("annotation", 4)

    def test_of_a_loop_in_main(self) -> None:
        builder = trace().python("model.py(30): main", -1000, 9900).launch(-900, 4).kernel(-890, 3, name="other")
        assert found(self.passes(builder)) == ("repetition", 4)


def test_a_step_that_never_ended_is_dropped() -> None:
    builder = trace()
    for step in range(5):
        builder.annotation(f"ProfilerStep#{step}", 100 * step, 100 if step < 4 else -400)
        builder.launch(100 * step + 1, 5).kernel(100 * step + 10, 5)
    steps = Context(builder.build()).steps
    assert (steps.found, steps.reasons) == (5, {4: "never ended"})


def test_a_step_waits_by_its_own_threads() -> None:
    """A helper thread that waits for a copy launches nothing: the step does not wait with it."""
    builder = trace()
    for step in range(4):
        at = 100 * step
        builder.step(step, at, 90).launch(at + 1, 5).kernel(at + 10, 20).sync(at + 8, 25)
        builder.sync(at + 9, 60, thread=77)
    figures = Context(builder.build()).step_figures
    assert figures is not None
    assert figures.blocking_calls.median == 1
