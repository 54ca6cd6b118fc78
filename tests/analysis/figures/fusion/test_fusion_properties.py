"""The fusion advisor on any step: it answers, its accounts close, and no operator belongs to two findings."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from typing import Any

from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st
from launchscope.analysis.facts.context import Context
from launchscope.analysis.facts.tensor_shapes import Input, Tensor, inputs_of
from launchscope.analysis.figures.fusion.advisor import Prices, Rates, findings, fusion_doc
from launchscope.analysis.figures.fusion.scan import Already, Finding, Occurrence
from launchscope.analysis.figures.fusion.step import FusionStep, StepOp, fusion_step
from launchscope.fixtures.builder import trace

from . import test_fusion_patterns as patterns
from .fusion_steps import Op, step_of, trace_of

WORDS = """
    mm addmm bmm baddbmm add add_ mul div neg cat copy_ pow mean rsqrt sqrt silu sigmoid gelu index index_copy_
    index_add_ topk _softmax sum argmax sort multinomial where fill_ _int_mm _scaled_mm _weight_int4pack_mm abs amax
    _flash_attention_forward _fused_rms_norm native_layer_norm rotary_embedding triton_red_fused_add_3 embedding
"""
NAMES = st.sampled_from(WORDS.split())
SIZES = st.sampled_from([0, 1, 2, 4, 8, 16])
DIMS = st.lists(SIZES, max_size=5).map(tuple)
TYPES = st.sampled_from(["c10::BFloat16", "float", "signed char", "long int", "bool", "double", None])
TENSORS = st.builds(Tensor, DIMS, TYPES)
INPUTS = st.one_of(TENSORS, TENSORS, st.none(), st.lists(TENSORS, max_size=3).map(tuple))
RATES = st.sampled_from(
    [
        Rates(),
        Rates(5_000.0, "median launch overhead"),
        Rates(5_000.0, "tau_step", 4_000.0, 1e12, 100.0),
        Rates(100.0, "tau_step", 50.0, 1e9, 100.0),
    ]
)


@st.composite
def steps(draw: st.DrawFn) -> FusionStep:
    """Runs of operators that share few inputs, so that shapes fit more often than by chance."""
    pool: list[Input] = draw(st.lists(INPUTS, min_size=1, max_size=4))
    count = draw(st.integers(1, 24))
    ops = tuple(
        StepOp(
            position=position,
            name=draw(st.none() | NAMES | NAMES | NAMES),
            around=tuple(draw(st.lists(st.sampled_from(["scaled_dot_product_attention", "reshape"]), max_size=1))),
            inputs=tuple(draw(st.lists(st.sampled_from(pool), max_size=5))),
            gpu_ops=(position,),
            launches=1,
            ns=float(draw(st.integers(0, 5_000))),
            host_ns=draw(st.none() | st.just(9_000.0)),
            line=draw(st.none() | st.just("model.py(3): forward")),
            are_kernels=draw(st.sampled_from([True, True, True, False])),
        )
        for position in range(count)
    )
    return FusionStep(ops, (None,) * count, None)


MODEL = (
    *patterns.norm(),
    *(Op("mm", [[1, 8], [8, width]]) for width in (8, 4, 4)),
    *patterns.rope(2),
    *patterns.rope(1),
    *(patterns.write(1), patterns.write(1), patterns.attention(2, 1)),
    *patterns.TestAttention().parts(),
    *patterns.TestMixtures().router(),
    *patterns.TestMixtures().expert(),
    *patterns.norm(residual=False),
    *(patterns.TestMlp.up, patterns.TestMlp.act, patterns.TestMlp.up, patterns.TestMlp.mul, patterns.TestMlp.down),
    *patterns.LOGITS,
    *(Op("exponential_", [[1, 1000]]), Op("div", [[1, 1000]] * 2), Op("argmax", [[1, 1000]])),
)


@cache
def model() -> FusionStep:
    return step_of(MODEL)


@st.composite
def damaged(draw: st.DrawFn) -> FusionStep:
    """A step in which every pattern is, with some inputs and names exchanged, and some operators away."""
    whole = model().ops
    changed = list(whole)
    for place in draw(st.lists(st.integers(0, len(whole) - 1), max_size=8)):
        op = changed[place]
        inputs = draw(st.just(()) | st.lists(INPUTS, max_size=4).map(tuple) | st.just(op.inputs[1:]))
        changed[place] = draw(st.sampled_from([replace(op, inputs=inputs), replace(op, name="relu"), whole[place - 1]]))
    begin, end = draw(st.integers(0, len(whole) // 2)), draw(st.integers(len(whole) // 2, len(whole)))
    ops = tuple(replace(op, position=position) for position, op in enumerate(changed[begin:end]))
    return FusionStep(ops, (None,) * len(ops), None)


def takes(finding: Finding) -> bool:
    """Its operators belong to no other."""
    return isinstance(finding, Occurrence) or (isinstance(finding, Already) and finding.takes)


@settings(deadline=None, max_examples=100, suppress_health_check=[HealthCheck.too_slow])
@given(steps() | damaged() | damaged(), RATES)
def test_any_step(step: FusionStep, rates: Rates) -> None:
    found = findings(step)
    taken = [op.position for each in found if takes(each) for op in each.ops]
    assert len(taken) == len(set(taken))
    occurrences = [each for each in found if isinstance(each, Occurrence)]
    assert all(0 <= each.launches_after <= each.launches for each in occurrences)
    document = fusion_doc(step, found, rates, times_from=None)
    assert document.total.launches_saved == sum(each.launches_saved for each in document.candidates)
    assert sum(each.launches_per_step for each in document.candidates) <= document.launches == len(step.ops)
    for each in (*document.candidates, document.total):
        low, middle, high = each.graph_low_ns, each.graph_saves_ns, each.graph_high_ns
        if low is not None and middle is not None:
            assert 0 <= low <= middle + 1e-6
            assert high is None or middle <= high + 1e-6
        if each.eager_saves_ns is not None:
            assert each.eager_saves_ns >= -1e-6
            assert each.eager_low_ns is None or each.eager_low_ns <= each.eager_saves_ns
            assert each.eager_high_ns is None or each.eager_saves_ns <= each.eager_high_ns + 1e-6


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats(allow_nan=False) | st.text(max_size=3),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=2),
    max_leaves=12,
)


@settings(deadline=None, max_examples=100)
@given(VALUES, VALUES)
@example([[[]], [[1]]], ["TensorList", "float"])
@example([[2**47] * 9], ["float"])
@example([[-1]], ["float"])
def test_shapes_of_any_text_are_tensors_or_nothing(dims: Any, types: Any) -> None:
    args = {"Input Dims": dims, "Input type": types}
    event = {"ph": "X", "cat": "cpu_op", "name": "aten::mm", "pid": 1, "tid": 1, "ts": 0, "dur": 9, "args": args}
    for text in trace().raw(event).build().shapes:
        assert all(found is None or isinstance(found, tuple) for found in inputs_of(text))


def test_worth_of_nothing() -> None:
    step = FusionStep((), (), None)
    assert Prices(Rates(5_000.0, "tau_step", 4_000.0, 1e12, 100.0), step).worth([]).graph_saves_ns == 0


def test_a_step_without_shapes_is_none() -> None:
    built = trace().step(0, 0, 90).op("aten::mm", 1, 9).launch(2, 5).kernel(20, 2).build()
    assert fusion_step(Context(built)) is None


def test_already_fused_kernels_of_a_compiled_step() -> None:
    """A compiled step that was recorded with shapes: its kernels are operators, and nothing is proposed for them."""
    name = "triton_red_fused__to_copy_add_mean_mul_pow_rsqrt_3"
    builder = trace()
    for number in range(3):
        builder.step(number, 100 * number, 99).op(name, 100 * number + 1, 20, shapes=[[1, 8], [8]])
        builder.launch(100 * number + 2, 5).kernel(100 * number + 10, 2, name=name)
    built = builder.build()
    step = fusion_step(Context(built))
    assert step is not None
    assert [(each.kind, each.what) for each in findings(step) if isinstance(each, Already)] == [
        ("compiled", "torch.compile")
    ]


def test_a_kernel_without_its_operator_ends_a_chain() -> None:
    row = [1, 8]
    ops = [Op("neg", [row]), Op("exp", [row]), Op("neg", [row]), Op("exp", [row])]
    built = trace_of(ops)
    step = fusion_step(Context(built))
    assert step is not None
    middle = step.ops[2]
    unknown = StepOp(2, None, (), (), middle.gpu_ops, 1, 2_000.0, None, None)
    cut = FusionStep((*step.ops[:2], unknown, step.ops[3]), step.layer_of, None)
    assert [each.kind for each in findings(step) if isinstance(each, Occurrence)] == ["chain"]
    assert findings(cut) == []
