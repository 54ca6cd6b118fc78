"""The sample decode steps, on a CPU: they compute what they say, and can be captured and compiled."""

from __future__ import annotations

import importlib.util
import shutil
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from launchscope import Target
from launchscope.fixtures import models
from launchscope.fixtures.models import (
    llama,
    llama_1b_faults,
    llama_1b_fused,
    llama_1b_int4,
    llama_1b_regressed,
    moe,
    prefill,
    serve_loop,
    serve_requests,
)
from torch.utils._python_dispatch import TorchDispatchMode

FOLDER = Path(models.__file__).parent
PUBLISHED_PARAMETERS = {"llama-3.2-1b": 1_235_814_400, "qwen3-0.6b": 596_049_920, "qwen2.5-7b": 7_615_616_512}
READ_BACK = "aten._local_scalar_dense.default"


class OperatorCount(TorchDispatchMode):
    """Counts the operators that compute something: on a GPU each launches at least one kernel."""

    def __init__(self) -> None:
        super().__init__()
        self.counts: Counter[str] = Counter()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if not func.is_view and "_unsafe_view" not in str(func):
            self.counts[str(func)] += 1
        return func(*args, **(kwargs or {}))


def operators(step: Callable[[], Any]) -> Counter[str]:
    """How often one step calls each computing operator."""
    with OperatorCount() as mode:
        step()
    return mode.counts


@contextmanager
def restored(target: Target) -> Iterator[None]:
    """Put the state back afterwards."""
    saved = [tensor.clone() for tensor in target.state]
    yield
    for tensor, value in zip(target.state, saved, strict=True):
        tensor.copy_(value)


def output(target: Target) -> Any:
    """A copy of what one step returns; the state is put back."""
    with restored(target):
        return target.step().clone()


def load_copy(path: Path, folder: Path, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A sample as a user has it who copied it out of the package."""
    path = Path(shutil.copy(path, folder))
    spec = importlib.util.spec_from_file_location(f"copied_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, spec.name, module)
    spec.loader.exec_module(module)
    return module


def decoder_shapes() -> dict[str, llama.Shape]:
    """Tiny, and tiny with what each other preset adds."""
    plain = llama.SHAPES["tiny"]
    return {
        "tiny": plain,
        "qk_norm": replace(plain, qk_norm=True),
        "qkv_bias, not tied": replace(plain, qkv_bias=True, tied=False),
    }


@pytest.fixture(params=["plain", "fused", "serve_loop"])
def target(request: pytest.FixtureRequest) -> Target:
    builders = {
        "plain": lambda: llama.tiny(2, "cpu", torch.float32, 64),
        "fused": lambda: llama_1b_fused.build(2, "cpu", torch.float32, 64, shape="tiny"),
        "serve_loop": lambda: serve_loop.build(2, "cpu", torch.float32, 64, shape="tiny"),
    }
    return builders[request.param]()


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_logits_are_finite_and_of_ordinary_size(dtype: torch.dtype) -> None:
    target = llama.tiny(3, "cpu", dtype, 64)
    logits = output(target)
    assert logits.shape == (3, 1, 256)
    assert logits.dtype == dtype
    assert logits.isfinite().all()
    assert 0.5 < logits.float().std() < 2


def test_inputs_are_static_buffers_with_room_below(target: Target) -> None:
    assert set(target.inputs) == {"token", "position"}
    assert target.inputs["token"].shape == (2, 1)
    assert target.inputs["position"].tolist() == [63]
    assert all(buffer.dtype == torch.int64 and buffer.min() > 3 for buffer in target.inputs.values())


def test_equal_state_and_inputs_give_equal_outputs(target: Target) -> None:
    assert torch.equal(output(target), output(target))


@pytest.mark.parametrize("name", ["token", "position"])
def test_changed_inputs_change_the_output(target: Target, name: str) -> None:
    before = output(target)
    seen = []
    for _ in range(3):
        target.inputs[name].sub_(1)
        seen.append(output(target))
    assert any(not torch.equal(before, after) for after in seen)


def test_a_step_writes_only_its_own_position_into_the_cache() -> None:
    target = llama.tiny(2, "cpu", torch.float32, 64)
    target.inputs["position"].fill_(40)
    before = [cache.clone() for cache in target.state]
    target.step()
    assert len(target.state) == 4  # key and value of two layers
    for cache, old in zip(target.state, before, strict=True):
        changed = (cache != old).any(dim=-1).any(dim=0).any(dim=0)
        assert changed.nonzero().flatten().tolist() == [40]


@pytest.mark.parametrize(("slot", "read"), [(0, True), (39, True), (40, True), (41, False), (63, False)])
def test_attention_reads_the_cache_up_to_its_position(slot: int, read: bool) -> None:
    target = llama.tiny(1, "cpu", torch.float32, 64)
    target.inputs["position"].fill_(40)
    before = output(target)
    with restored(target):
        for cache in target.state:
            cache[:, :, slot] += 5
        after = output(target)
    overwritten = slot == 40  # by the step itself
    assert torch.equal(before, after) is (overwritten or not read)


def test_a_token_attends_to_the_one_before() -> None:
    """Decoding [a, b] and [c, b] differs at b: the first token reached the second through the cache alone."""
    outputs = []
    for first in (5, 6):
        target = llama.tiny(1, "cpu", torch.float32, 64)
        target.inputs["token"].fill_(first)
        target.inputs["position"].fill_(0)
        target.step()
        target.inputs["token"].fill_(7)
        target.inputs["position"].fill_(1)
        outputs.append(target.step().clone())
    assert not torch.allclose(outputs[0], outputs[1])


@pytest.mark.parametrize("shape", decoder_shapes().values(), ids=decoder_shapes())
def test_hand_fused_equals_plain(shape: llama.Shape) -> None:
    plain = llama.make_decoder(shape, 2, "cpu", torch.float32, 64)
    fused = llama_1b_fused.fuse(llama.make_decoder(shape, 2, "cpu", torch.float32, 64))
    token, position = torch.tensor([[9], [200]]), torch.tensor([33])
    torch.testing.assert_close(fused(token, position), plain(token, position))
    for a, b in zip(fused.caches, plain.caches, strict=True):
        torch.testing.assert_close(a, b)
    assert sum(p.numel() for p in fused.parameters()) == sum(p.numel() for p in plain.parameters())


def test_hand_fused_runs_three_gemms_less_a_layer() -> None:
    plain = operators(llama.tiny(1, "cpu", torch.bfloat16, 64).step)
    fused = operators(llama_1b_fused.build(1, "cpu", torch.bfloat16, 64, shape="tiny").step)
    assert plain - fused == {"aten.mm.default": 2 * 3}
    assert not fused - plain


def test_a_layer_launches_as_many_kernels_as_people_s_own_code_does() -> None:
    """43 operators a layer and 13 around them; on an H200 attention and the split down projection add one each."""
    two, three = (operators(llama.tiny(1, "cpu", torch.bfloat16, 64, layers=n).step) for n in (2, 3))
    assert (three - two).total() == 43
    assert two.total() == 13 + 2 * 43


def test_the_step_never_reads_back() -> None:
    for target in (llama.build(2, "cpu", torch.float32, 64, shape="tiny"), serve_loop.build(2, "cpu", shape="tiny")):
        assert READ_BACK not in operators(target.step)


@pytest.mark.parametrize("shape", decoder_shapes().values(), ids=decoder_shapes())
@pytest.mark.parametrize("fused", [False, True])
def test_torch_compile_takes_the_step_in_one_graph(shape: llama.Shape, fused: bool) -> None:
    model = llama.make_decoder(shape, 1, "cpu", torch.float32, 64)
    if fused:
        model = llama_1b_fused.fuse(model)
    token, position = torch.tensor([[9]]), torch.tensor([33])

    def step() -> Any:
        return model(token, position)

    expected = step()
    compiled = torch.compile(step, backend="eager", fullgraph=True)
    torch.testing.assert_close(compiled(), expected)
    token.fill_(10)
    torch.testing.assert_close(compiled(), step())
    assert not torch.allclose(compiled(), expected)
    torch.compiler.reset()


@pytest.mark.parametrize(("name", "parameters"), PUBLISHED_PARAMETERS.items())
def test_presets_have_the_published_number_of_parameters(name: str, parameters: int) -> None:
    model = llama.make_decoder(llama.SHAPES[name], 1, "meta", torch.bfloat16, 64)
    assert sum(parameter.numel() for parameter in model.parameters()) == parameters


@pytest.mark.parametrize(
    ("file", "vocabulary", "layers"),
    [
        ("llama.py", 128256, 16),
        ("llama_1b.py", 128256, 16),
        ("llama_1b_faults.py", 128256, 16),
        ("llama_1b_fused.py", 128256, 16),
        ("llama_1b_regressed.py", 128256, 16),
        ("moe.py", 128256, 16),
    ],
)
def test_each_file_works_when_copied_out_of_the_package(
    file: str, vocabulary: int, layers: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    target = load_copy(FOLDER / file, tmp_path, monkeypatch).build(device="meta")
    assert target.step().shape == (1, 1, vocabulary)
    assert len(target.state) == 2 * layers
    assert target.inputs["position"].shape == (1,)


@pytest.mark.parametrize(
    ("name", "vocabulary", "layers"), [("qwen3_0_6b", 151936, 28), ("qwen2_5_7b", 152064, 28), ("tiny", 256, 2)]
)
def test_presets_are_targets_by_name(name: str, vocabulary: int, layers: int) -> None:
    target = getattr(llama, name)(device="meta")
    assert target.step().shape == (1, 1, vocabulary)
    assert len(target.state) == 2 * layers


@pytest.mark.parametrize(
    ("setting", "more"),
    [({"regression": "residual"}, 0), ({"regression": "skip"}, 0), ({"extra": 3}, 3)],
)
def test_a_regressed_model_computes_the_same_with_so_many_more_kernels(setting: dict[str, Any], more: int) -> None:
    def build(**changed: Any) -> Target:
        return llama_1b_regressed.build(2, "cpu", torch.float32, 64, shape="tiny", **changed)

    plain, regressed = build(), build(**setting)
    assert torch.equal(plain.step(), regressed.step())
    count = sum(operators(plain.step).values())
    assert sum(operators(regressed.step).values()) == count + more


def test_a_regression_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="there are none, residual, skip"):
        llama_1b_regressed.build(device="meta", regression="item")


def with_fault(fault: str, batch_size: int = 2) -> Target:
    return llama_1b_faults.build(batch_size, "cpu", torch.float32, 64, shape="tiny", fault=fault)


@pytest.mark.parametrize("fault", llama_1b_faults.FAULTS)
def test_a_model_with_a_fault_computes_the_same(fault: str) -> None:
    expected = output(llama.build(2, "cpu", torch.float32, 64, shape="tiny"))
    found = with_fault(fault)
    if fault == "host_sampling":
        expected = expected.argmax(-1)
    if fault == "off_ladder":  # its caches have rows for the largest size, and are drawn anew for it
        expected = output(llama.build(8, "cpu", torch.float32, 64, shape="tiny"))[:2]
        found.inputs["token"].copy_(torch.tensor([[100], [107]]))
    torch.testing.assert_close(output(found), expected, rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize(
    ("fault", "more"),
    [
        ("graph_break", {}),
        (
            "unfused_qkv",
            {"aten.mm.default": 2, "aten.mul.Tensor": 1, "aten.roll.default": 1, "aten.addcmul.default": 1},
        ),
        ("unfused_swiglu", {"aten.mm.default": 1}),
        (
            "rope_six",
            {
                "aten.neg.default": 2, "aten.cat.default": 2, "aten.mul.Tensor": 3, "aten.add.Tensor": 2,
                "aten.roll.default": -1, "aten.addcmul.default": -1,
            },
        ),
    ],
)  # fmt: skip
def test_a_fault_is_so_many_operators_more_in_each_of_two_layers(fault: str, more: dict[str, int]) -> None:
    """RoPE has its cast besides, which in fp32 is none."""
    good, bad = operators(with_fault("none").step), operators(with_fault(fault).step)
    assert {name: bad[name] - good[name] for name in good | bad if bad[name] != good[name]} == {
        name: 2 * count for name, count in more.items()
    }


def test_an_item_is_read_back_once() -> None:
    assert operators(with_fault("item").step)[READ_BACK] == 1
    assert READ_BACK not in operators(with_fault("none").step)


def test_a_fault_that_is_not_there_is_told() -> None:
    with pytest.raises(ValueError, match="there are none, graph_break, item"):
        llama_1b_faults.build(device="meta", fault="fusion")


def test_4_bit_weights_multiply_as_their_integers_scales_and_zeros_say() -> None:
    """Against the plain product with the weights unpacked; activations of bf16 round to 3 digits."""
    plain = torch.nn.Linear(128, 32, bias=False, dtype=torch.bfloat16)
    x = torch.randn(3, 1, 128, dtype=torch.bfloat16)
    integers, pairs = llama_1b_int4.quantize(plain.weight, 128)
    scale, zero = pairs[0, :, :1].float(), pairs[0, :, 1:].float()
    unpacked = (integers.float() - 8) * scale + zero
    assert integers.min() == 0
    assert integers.max() == 15
    assert (unpacked - plain.weight).abs().max() < 0.6 * scale.max()
    found = llama_1b_int4.Int4Linear(plain)(x)
    torch.testing.assert_close(found.float(), x.float() @ unpacked.T, rtol=2e-2, atol=2e-2)


def test_4_bit_weights_launch_as_many_kernels() -> None:
    plain = operators(llama.tiny(1, "cpu", torch.bfloat16, 64).step)
    packed = operators(llama_1b_int4.build(1, "cpu", torch.bfloat16, 64, shape="tiny").step)
    assert plain - packed == {"aten.mm.default": 2 * 7}
    assert packed - plain == {"aten._weight_int4pack_mm_for_cpu.default": 2 * 7}


def test_experts_gathered_equal_experts_in_a_loop() -> None:
    """Both draw the same weights: seeds are set when the model is filled, before the experts are made."""
    gathered, looped = (moe.build(2, "cpu", torch.float32, 64, shape="tiny", route=r) for r in ("gather", "loop"))
    torch.testing.assert_close(output(gathered), output(looped))
    assert operators(looped.step)["aten.nonzero.default"] == 2 * moe.EXPERTS
    assert "aten.nonzero.default" not in operators(gathered.step)


def test_prefill_equals_decoding_token_by_token() -> None:
    whole, decode = prefill.build(2, "cpu", torch.float32, 16, "tiny"), llama.tiny(2, "cpu", torch.float32, 16)
    for cache in decode.state:
        cache.zero_()
    for position in range(16):
        decode.inputs["token"].copy_(whole.inputs["token"][:, position : position + 1])
        decode.inputs["position"].fill_(position)
        last = decode.step()
    torch.testing.assert_close(whole.step(), last)
    for a, b in zip(whole.state, decode.state, strict=True):
        torch.testing.assert_close(a, b)


@pytest.mark.parametrize(
    ("build", "setting", "words"),
    [
        (moe.build, {"route": "none"}, "gather, loop"),
        (prefill.build, {"prompt_length": 0}, "at least one token"),
        (prefill.build, {"shape": "gpt-2"}, "llama-3.2-1b"),
        (llama_1b_int4.build, {"dtype": torch.float16}, "bf16 alone|of bf16"),
    ],
)
def test_a_sample_tells_what_it_can_t_build(build: Callable[..., Target], setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        build(device="meta", **setting)


def test_the_table_of_samples_is_complete() -> None:
    files = {path.name for path in FOLDER.glob("*.py")} - {"__init__.py"}
    assert models.__doc__ is not None
    assert {word for word in models.__doc__.split() if word.endswith(".py")} == files


@pytest.mark.parametrize(
    ("setting", "words"),
    [({"shape": "gpt-2"}, "llama-3.2-1b, qwen3-0.6b"), ({"context_length": 4}, "at least 8")],
)
def test_a_wrong_setting_is_told_in_words(setting: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        llama.build(device="meta", **setting)


def test_serve_loop_returns_the_token_on_the_host() -> None:
    target = serve_loop.build(3, "cpu", torch.float32, 64, shape="tiny")
    token = target.step()
    assert token.shape == (3, 1)
    assert token.dtype == torch.int64
    assert ((token >= 0) & (token < 256)).all()


def test_serve_loop_at_zero_noise_takes_the_likeliest_token() -> None:
    target = serve_loop.build(3, "cpu", torch.float32, 64, shape="tiny", temperature=1e-6)
    likeliest = output(llama.tiny(3, "cpu", torch.float32, 64)).argmax(-1)
    assert torch.equal(output(target), likeliest)


def test_serve_loop_reads_back_once_if_asked() -> None:
    plain = serve_loop.build(1, "cpu", torch.float32, 64, shape="tiny")
    reading = serve_loop.build(1, "cpu", torch.float32, 64, shape="tiny", item=True)
    assert operators(plain.step)[READ_BACK] == 0
    assert operators(reading.step)[READ_BACK] == 1
    assert torch.equal(output(plain), output(reading))


@pytest.mark.parametrize(("device", "item", "words"), [("cpu", False, "CUDA device"), ("cuda", True, "item=true")])
def test_serve_loop_says_why_it_can_t_make_a_graph(device: str, item: bool, words: str) -> None:
    with pytest.raises(ValueError, match=words):
        serve_loop.build(1, device, torch.float32, 64, shape="tiny", graph=True, item=item)


@pytest.mark.gpu
def test_serve_loop_s_graph_gives_the_same_tokens() -> None:
    if not torch.cuda.is_available():
        pytest.skip("needs an NVIDIA GPU")
    eager, graph = (serve_loop.build(2, "cuda", torch.bfloat16, 64, shape="tiny", graph=g) for g in (False, True))
    for token in (5, 77, 130):
        for target in (eager, graph):
            target.inputs["token"].fill_(token)
        assert torch.equal(output(eager), output(graph))


def test_hugging_face_sample_is_one_bare_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    transformers = pytest.importorskip("transformers")
    module = load_copy(Path(__file__).with_name("hf_tiny.py"), tmp_path, monkeypatch)
    found = [value for value in vars(module).values() if isinstance(value, transformers.PreTrainedModel)]
    assert found == [module.model]
    assert isinstance(module.model, transformers.LlamaForCausalLM)
    assert module.model.dtype == torch.bfloat16
    token = torch.tensor([[5]], device=module.model.device)
    with torch.no_grad():
        assert module.model(input_ids=token).logits.isfinite().all()


def test_phases_last_until_the_next_one_begins() -> None:
    phases = serve_loop.Phases(timed=True)
    target = serve_loop.build_loop(1, "cpu", torch.float32, 64, "tiny", None, 0.1, phases)
    target.step()
    names, starts = zip(*phases.starts, strict=True)
    assert names == ("prepare", "forward", "sample", "copy back", "wait", None)
    assert list(starts) == sorted(starts)


def test_a_server_prefills_and_then_decodes_from_its_caches() -> None:
    """The first token after a prompt is that of the prompt's last position; the next ones go on from the caches."""
    target = serve_requests.build(2, "cpu", torch.float32, 64, "tiny", prompt_lengths=(8, 16), decode_steps=2)
    steps = [target.step().clone() for _ in range(6)]
    assert all(step.shape == (2, 1) for step in steps)
    target.state[-1].zero_()  # the counter of steps: the same prompts again
    assert all(torch.equal(target.step(), step) for step in steps)


def test_a_server_s_prompts_fit_its_context() -> None:
    with pytest.raises(ValueError, match="don't fit into 64"):
        serve_requests.build(1, "cpu", torch.float32, 64, "tiny", prompt_lengths=(60,))
