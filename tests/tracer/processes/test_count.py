"""Steps counted on the meta device: by hand for small ones, and as an H200 ran them for the samples."""

from __future__ import annotations

import json
import sys
import textwrap
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest

pytest.importorskip("torch")

import torch
from launchscope.analysis.model.counted_step import CountedOp, CountedStep
from launchscope.analysis.model.errors import BadTarget
from launchscope.fixtures import models
from launchscope.tracer.measure.counting import Counting, counting_calls, without_gpu
from launchscope.tracer.processes.count import count_here, count_step, run
from launchscope.tracer.target.options import ProfileOptions
from torch.nn import functional

MODELS = Path(models.__file__).parent
TESTS = Path(__file__).parents[2]
PREDICTED = TESTS.parent / "fixtures" / "captures" / "predicted"
BF16, FP32, INT64 = 2, 4, 8


@pytest.fixture(autouse=True)
def as_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What running a script changes is put back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith((str(tmp_path), str(MODELS))) and "." not in name:
            del sys.modules[name]


def ops_of(step: Callable[[], Any]) -> list[CountedOp]:
    """What a step comes down to, in this process."""
    counting = Counting()
    with torch.no_grad(), without_gpu(), counting_calls(counting):
        step()
    return counting.ops


def names(step: Callable[[], Any]) -> list[str]:
    return [op.operator.removeprefix("aten::") for op in ops_of(step)]


def on_gpu(*shape: int, dtype: torch.dtype = torch.bfloat16) -> torch.Tensor:
    return torch.empty(shape, dtype=dtype, device="meta")


def test_a_linear_layer_and_relu() -> None:
    """Two launches: 2 × 8 times 8 × 4, and 2 × 4 in and out."""
    x, weight = on_gpu(2, 8), on_gpu(4, 8)
    assert ops_of(lambda: functional.linear(x, weight).relu()) == [
        CountedOp(
            operator="aten::mm",
            kind="matrix",
            bytes=(16 + 32 + 8) * BF16,
            flops=2 * 2 * 8 * 4,
            dtype="bf16",
            product=(2, 4, 8),
        ),
        CountedOp(operator="aten::relu", kind="elementwise", bytes=2 * 8 * BF16),
    ]


def test_views_and_allocations_launch_nothing() -> None:
    x = on_gpu(2, 8)
    assert names(lambda: (x.view(16), x.t()[1:], x.chunk(2), x.expand(3, 2, 8), torch.empty_like(x))) == []
    assert names(lambda: x[:0] + 1) == [], "no element, no kernel"
    assert names(lambda: torch.ones(3) + 1) == [], "the CPU's own work"


@pytest.mark.parametrize(
    ("call", "found"),
    [
        (lambda q: functional.scaled_dot_product_attention(q, q, q), []),
        (lambda q: functional.scaled_dot_product_attention(q, q, q, is_causal=True), []),
        (lambda q: functional.scaled_dot_product_attention(q, q, q, attn_mask=on_gpu(5, 5)), []),
        (
            lambda q: functional.scaled_dot_product_attention(q, q, q, attn_mask=on_gpu(5, 5, dtype=torch.bool)),
            ["scalar_tensor", "scalar_tensor", "where"],
        ),
    ],
)
def test_attention_is_one(call: Callable[[torch.Tensor], torch.Tensor], found: list[str]) -> None:
    """A mask of truth values launches three more: as in captures of an H200."""
    assert names(lambda: call(on_gpu(1, 2, 5, 16))) == [*found, "scaled_dot_product_attention"]


def test_attention_within_torch_s_own_modules_is_one_too() -> None:
    """A mode is switched off within a call that it passes on."""
    with without_gpu():
        attention = torch.nn.MultiheadAttention(16, 2, batch_first=True).eval()
    x = on_gpu(1, 5, 16, dtype=torch.float32)
    assert names(lambda: attention(x, x, x, need_weights=False)).count("scaled_dot_product_attention") == 1
    assert functional.scaled_dot_product_attention.__name__ == "scaled_dot_product_attention", "as before"


def test_grouped_attention_reads_each_key_once() -> None:
    query, cache = on_gpu(1, 8, 1, 64), on_gpu(1, 2, 100, 64)
    (op,) = ops_of(lambda: functional.scaled_dot_product_attention(query, cache, cache, enable_gqa=True))
    assert op.bytes == (2 * 8 * 64 + 2 * 2 * 100 * 64) * BF16
    assert op.flops == 2 * (2 * 8 * 100 * 64)


@pytest.mark.skipif(not hasattr(torch.ops.aten, "_fused_rms_norm"), reason="this torch has no fused RMS norm")
def test_an_rms_norm_is_one() -> None:
    assert names(lambda: functional.rms_norm(on_gpu(1, 64), (64,), on_gpu(64))) == ["_fused_rms_norm"]


def test_gathers_and_cache_writes_move_what_they_touch() -> None:
    table, token = on_gpu(1000, 16), on_gpu(2, 1, dtype=torch.int64)
    cache, position, key = on_gpu(1, 2, 100, 16), on_gpu(1, dtype=torch.int64), on_gpu(1, 2, 1, 16)

    def step() -> None:
        functional.embedding(token, table)
        cache.index_copy_(2, position, key)
        cache.fill_(0.0)

    moved = [op.bytes for op in ops_of(step)]
    assert moved == [2 * 2 * 16 * BF16 + 2 * INT64, 2 * 32 * BF16 + INT64, 2 * 100 * 16 * BF16]


def test_an_expanded_tensor_is_read_once() -> None:
    row = on_gpu(1, 16, dtype=torch.float32)
    (op,) = ops_of(lambda: row.expand(8, 16) + 1)
    assert op.bytes == (16 + 8 * 16) * FP32


def test_two_launches_of_one_operator() -> None:
    x = on_gpu(4, 8)
    launches = [op.launches for op in ops_of(lambda: (x.masked_fill(x > 0, 0.0), x.topk(2)))]
    assert launches == [1, 2, 2]


def test_copies_from_and_to_the_host() -> None:
    x, host = on_gpu(4, dtype=torch.float32), torch.zeros(4)

    def step() -> None:
        x.copy_(host)
        host.copy_(x + 1)
        x.cpu()
        host.to("cuda")
        torch.tensor([1.0, 2.0], device="cuda")

    kinds = [(op.operator.removeprefix("aten::"), op.kind) for op in ops_of(step)]
    copies = ["copy_", "_to_copy", "_to_copy", "copy_"]
    assert kinds == [("copy_", "copy"), ("add", "elementwise"), *((name, "copy") for name in copies)]


def test_what_the_gpu_would_have_written_is_not_read() -> None:
    x, host = on_gpu(1, dtype=torch.float32), torch.zeros(1)
    with pytest.raises(RuntimeError, match="a value that the GPU would have written is not known"):
        ops_of(lambda: host.copy_(x).item())


def test_what_is_asked_of_cuda_is_got_on_meta() -> None:
    def step() -> list[torch.Tensor]:
        assert torch.cuda.is_available()
        assert torch.cuda.device_count() == 1
        pinned = torch.ones(2, pin_memory=True).pin_memory()
        return [torch.ones(2, device="cuda:0"), torch.ones(2).cuda(), torch.ones(2).to("cuda"), pinned.cuda()]

    with without_gpu():
        assert {str(tensor.device) for tensor in step()} == {"meta"}
        with pytest.raises(RuntimeError, match="a call to CUDA itself"):
            torch.cuda.init()  # type: ignore[no-untyped-call]
    assert not torch.cuda.is_available()


def test_parameters_are_on_meta_wherever_a_module_is_made() -> None:
    """One that is shared stays shared; checkpoints are read into nothing, and nobody is warned."""
    with without_gpu():
        first, second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        second.weight = first.weight
        shared = torch.nn.Parameter(torch.ones(3))
        first.extra, second.extra = shared, shared
        first.weight.data = torch.ones(4, 4)
        second.load_state_dict({"weight": torch.ones(4, 4), "bias": torch.ones(4), "extra": torch.ones(3)})
    assert {str(parameter.device) for parameter in (*first.parameters(), *second.parameters())} == {"meta"}
    assert first.weight is second.weight
    assert first.extra is second.extra
    assert torch.nn.Linear(2, 2).weight.device.type == "cpu", "afterwards all is as before"


def counted(name: str, **options: Any) -> CountedStep:
    return count_here(ProfileOptions(target=str(MODELS / name), **options), lambda _: None)


def operators(step: CountedStep) -> Counter[str]:
    return Counter(op.operator.removeprefix("aten::") for op in step.ops)


@pytest.mark.parametrize(("sample", "name"), [("llama_1b.py", "llama_1b.py"), ("llama.py:qwen2_5_7b", "qwen2_5_7b.py")])
def test_samples_are_counted_as_an_h200_launched_them(sample: str, name: str) -> None:
    """Every operator of the recorded step that launches, and no other; the stored count is this one."""
    step = counted(sample)
    measured = next(each for each in json.loads((PREDICTED / "measured.json").read_text()) if each["target"] == name)
    assert len(step.ops) == measured["launching_operators"]
    stored = next(each for each in json.loads((PREDICTED / "counted.json").read_text()) if each["target"] == name)
    different = msgspec.convert(stored["ops"], list[CountedOp])
    assert list(step.ops) == [different[index] for index in stored["order"]]


def test_a_hugging_face_model() -> None:
    """Of two layers; transformers before 5.18 repeat keys and values, two copies a layer."""
    pytest.importorskip("transformers")
    found = operators(counted(TESTS / "models" / "hf_tiny.py"))
    assert found["mm"] == 2 * 7 + 1
    assert found["scaled_dot_product_attention"] == 2
    assert found["clone"] in (0, 4)


@pytest.mark.parametrize("name", ["serve_loop.py", "moe.py", "llama_1b_int4.py", "llama_1b_fused.py"])
def test_other_samples_can_be_counted(name: str) -> None:
    step = counted(name, settings={"layers": "2"})
    assert operators(step)["scaled_dot_product_attention"] == 2
    assert step.target.name == name


class _Nobody:
    """Hears what a job tells."""

    def __call__(self, phase: str) -> None: ...

    def keep(self, found: object) -> None: ...


def refusal(folder: Path, text: str, **options: object) -> str:
    """Why a script can't be counted."""
    script = folder / "model.py"
    script.write_text("import torch\n" + textwrap.dedent(text))
    found = run(json.dumps({"target": str(script), **options}).encode(), _Nobody())  # type: ignore[arg-type]
    assert found.refusal is not None
    return found.refusal


@pytest.mark.parametrize(
    ("body", "said"),
    [
        ("return x * x.sum().item()", "needs a value (.item(), .tolist(), if tensor:) that only a GPU can tell"),
        ("return x + 1 if (x > 0).all() else x", "needs a value"),
        ("return x.cpu().numpy()", "needs a value"),
        ("return x[x > 0]", "how large a tensor gets depends on values"),
        ("return torch.bincount(x.long())", "does not say which shape it returns"),
        ("return torch.cuda.synchronize()", "it calls CUDA itself (a stream, a graph,"),
        ("return torch.cuda.Stream()", "it calls CUDA itself"),
        ("return torch.cuda.get_device_capability()", "it calls CUDA itself"),
        ("return torch.autocast('cuda', torch.bfloat16).__enter__()", "it calls CUDA itself"),
    ],
)
def test_what_can_not_be_counted_is_told_with_its_line(body: str, said: str, tmp_path: Path) -> None:
    told = refusal(tmp_path, f"x = torch.ones(4, device='cuda')\ndef step():\n    {body}\n")
    assert said in told
    assert told.endswith(f", at model.py:4 in step: {body}")


def test_what_is_no_step_to_predict(tmp_path: Path) -> None:
    assert "its step launches nothing" in refusal(tmp_path, "def step():\n    return 1\n")
    assert "ValueError (build, without a GPU): none" in refusal(tmp_path, "raise ValueError('none')\n")
    assert "no build(), step(), model" in refusal(tmp_path, "x = 1\n")


def test_what_the_target_raises_beside_errors(tmp_path: Path) -> None:
    assert "SystemExit (first step, without a GPU): 3" in refusal(tmp_path, "def step():\n    raise SystemExit(3)\n")
    told = refusal(tmp_path, "def step():\n    raise KeyboardInterrupt\n")
    assert told.endswith("no message, at model.py:3 in step: raise KeyboardInterrupt")


def test_a_target_that_ends_its_process(tmp_path: Path) -> None:
    script = tmp_path / "model.py"
    script.write_text("import os\ndef step():\n    os._exit(0)\n")
    with pytest.raises(
        BadTarget, match="the process that counts it ended itself before it was done, with exit status 0"
    ):
        count_step(ProfileOptions(target=str(script)), lambda _: None)


def test_a_process_of_its_own_sees_no_gpu(tmp_path: Path) -> None:
    """Not one that is there: it gets no device, and compiles nothing. It ends when its time is over."""
    script = tmp_path / "model.py"
    script.write_text(
        textwrap.dedent("""
            import os, torch
            assert os.environ["CUDA_VISIBLE_DEVICES"] == ""
            compiled = torch.compile(lambda x: x + 1)
            def step():
                return compiled(torch.ones(2, device="cuda"))
        """)
    )
    step = count_step(ProfileOptions(target=str(script)), lambda _: None)
    assert [op.operator for op in step.ops] == ["aten::ones", "aten::add"]
    script.write_text("import time\ntime.sleep(60)\n")
    with pytest.raises(BadTarget, match="the process that counts it did not end within 1 s and was stopped"):
        count_step(ProfileOptions(target=str(script), timeout_s=1), lambda _: None)


def test_settings_that_a_target_does_not_take() -> None:
    with pytest.raises(BadTarget, match="no such parameter"):
        counted("llama.py:tiny", settings={"nonsense": "1"})
    with pytest.raises(ValueError, match="these samples need at least 8"):
        counted("llama.py:tiny", context_length=4)
