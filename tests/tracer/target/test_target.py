"""What a target may be, and every refusal, in words. Runs in this process, on the CPU."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("torch")

import torch
from launchscope import Target
from launchscope.analysis.model.errors import BadTarget
from launchscope.tracer.target.options import ProfileOptions, Setting
from launchscope.tracer.target.target import Resolved, as_target, resolve
from launchscope.tracer.target.watch import watching

pytestmark = [  # torch's and transformers' own
    pytest.mark.filterwarnings("ignore:.*torch.jit:DeprecationWarning"),
    pytest.mark.filterwarnings("ignore:.*past_key_values:FutureWarning"),
]

Resolve = Callable[..., Resolved]
CPU = Setting(None, None, None, "cpu")


@pytest.fixture(autouse=True)
def as_in_a_process_of_its_own(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[None]:
    """What running a script changes is put back."""
    monkeypatch.setattr(sys, "path", list(sys.path))
    monkeypatch.setattr(sys, "argv", list(sys.argv))
    with torch.no_grad():
        yield
    for name, module in list(sys.modules.items()):
        if str(getattr(module, "__file__", None)).startswith(str(tmp_path)):
            del sys.modules[name]


@pytest.fixture
def found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Resolve:
    """Resolve a script given as text; ``at`` names something in it."""
    monkeypatch.chdir(tmp_path)

    def run(text: str, at: str = "model.py", **options: Any) -> Resolved:
        (tmp_path / "model.py").write_text(textwrap.dedent(text))
        return resolve(ProfileOptions(target=at, **options), "cpu")

    return run


def refusal(run: Callable[[], Any]) -> str:
    with pytest.raises(BadTarget) as told:
        run()
    assert "\n" not in str(told.value)
    return str(told.value)


# --- step functions -------------------------------------------------------------------------------------------------


def test_a_step_function(found: Resolve) -> None:
    resolved = found("def step():\n    return 7\n")
    assert (resolved.target.step(), resolved.setting, resolved.labels) == (7, CPU, ())


def test_a_step_function_by_another_name(found: Resolve) -> None:
    assert found("def decode():\n    return 7\n", at="model.py:decode").target.step() == 7


def test_a_step_function_may_have_defaults(found: Resolve) -> None:
    for at in ("model.py", "model.py:step"):
        assert found("def step(temperature=7):\n    return temperature\n", at=at).target.step() == 7


def test_a_step_function_that_needs_arguments(found: Resolve) -> None:
    for parameters in ("token, position", "*, token, position"):
        said = refusal(lambda parameters=parameters: found(f"def step({parameters}):\n    pass\n"))
        assert said == "step(): a step function takes no arguments, this one needs token, position"


@pytest.mark.parametrize("option", ["batch_size", "context_length"])
def test_what_a_step_function_cannot_take_is_refused_not_ignored(found: Resolve, option: str) -> None:
    said = refusal(lambda: found("def step(): pass", **{option: 8}))
    assert said.startswith(f"--{option.replace('_', '-')}: only a build(...) factory or a Hugging Face model takes it")
    assert refusal(lambda: found("def step(): pass", settings={"a": "1"})) == (
        "--set a: only a build(...) factory takes settings"
    )


# --- build ----------------------------------------------------------------------------------------------------------

TELLS = "import torch\ndef build({}):\n    got = dict(locals())\n    return lambda: got\n"


@pytest.mark.parametrize(
    ("parameters", "got", "setting"),
    [
        ("", {}, CPU),
        ("batch_size", {"batch_size": 1}, Setting(1, None, None, "cpu")),
        ("device", {"device": "cpu"}, CPU),
        ("dtype, context_length", {"dtype": torch.bfloat16, "context_length": 512}, Setting(None, "bf16", 512, "cpu")),
        ("batch_size=4, dtype=torch.float16", {"batch_size": 4, "dtype": torch.float16},
         Setting(4, "fp16", None, "cpu")),
        ("batch_size=None", {"batch_size": 1}, Setting(1, None, None, "cpu")),
        ("layers=2", {"layers": 2}, CPU),
    ],
)  # fmt: skip
def test_build_gets_what_it_names(found: Resolve, parameters: str, got: dict[str, Any], setting: Setting) -> None:
    for at in ("model.py", "model.py:build"):
        resolved = found(TELLS.format(parameters), at=at)
        assert resolved.target.step() == got
        assert resolved.setting == setting


def test_build_gets_the_options(found: Resolve) -> None:
    text = TELLS.format("batch_size=1, dtype=None, context_length=8, **more")
    resolved = found(text, batch_size=3, dtype="fp32", context_length=64, settings={"layers": "2"})
    got = resolved.target.step()
    assert got == {
        "batch_size": 3, "dtype": torch.float32, "context_length": 64, "more": {"device": "cpu", "layers": 2},
    }  # fmt: skip
    assert resolved.setting == Setting(3, "fp32", 64, "cpu")


@pytest.mark.parametrize(
    ("parameter", "text", "value"),
    [
        ("x=2", "3", 3), ("x=2.0", "3", 3.0), ("x=True", "no", False), ("x=False", "True", True), ("x='a'", "3", "3"),
        ("x: str", "3", "3"), ("x: int", "3", 3), ("x", "[1, 2]", [1, 2]), ("x=None", "None", None),
        ("x=None", "bf16", "bf16"), ("x", "a=b", "a=b"), ("x='a'", "", ""),
    ],
)  # fmt: skip
def test_settings_take_the_type_of_the_default(found: Resolve, parameter: str, text: str, value: Any) -> None:
    assert found(TELLS.format(parameter), settings={"x": text}).target.step() == {"x": value}


@pytest.mark.parametrize(
    ("parameters", "options", "said"),
    [
        ("layers", {}, "build(): needs layers; give it with --set layers=…"),
        ("*, layers", {}, "build(): needs layers; give it with --set layers=…"),
        ("layers=2, device=None", {"settings": {"layer": "3"}}, "--set layer: build() has no such parameter; it has "
         "layers"),
        ("", {"settings": {"layers": "3"}}, "--set layers: build() has no such parameter; it has none"),
        ("layers=2", {"settings": {"layers": "two"}}, "--set layers=two: must be a whole number"),
        ("scale=2.0", {"settings": {"scale": "two"}}, "--set scale=two: must be a number"),
        ("graph=False", {"settings": {"graph": "maybe"}}, "--set graph=maybe: must be true or false"),
        ("layers=2", {"batch_size": 2}, "--batch-size: build() takes no batch_size"),
        ("layers=2", {"dtype": "fp16"}, "--dtype: build() takes no dtype"),
        ("layers=2", {"context_length": 9}, "--context-length: build() takes no context_length"),
    ],
)  # fmt: skip
def test_what_build_cannot_take(found: Resolve, parameters: str, options: dict[str, Any], said: str) -> None:
    assert refusal(lambda: found(TELLS.format(parameters), **options)) == said


def test_a_factory_by_another_name_is_known_by_its_parameters(found: Resolve) -> None:
    text = "def make(batch_size):\n    return lambda: batch_size\n"
    assert found(text, at="model.py:make", batch_size=5).target.step() == 5


def test_what_is_no_step_is_told(found: Resolve) -> None:
    said = "returned a int; it must return a step function or a Target"
    assert refusal(lambda: found("def build():\n    return 3\n")) == f"build() {said}"
    assert refusal(lambda: found("def make(a=1):\n    return 3\n", at="model.py:make")) == f"make() {said}"
    said = refusal(lambda: found("def build():\n    return lambda token: token\n"))
    assert said == "<lambda>(): a step function takes no arguments, this one needs token"


def test_build_may_return_a_target(found: Resolve) -> None:
    text = """
        import torch
        from launchscope import Target

        def build(batch_size):
            token, cache = torch.ones(batch_size), torch.zeros(4)
            return Target(lambda: token + 1, inputs={"token": token}, state=[cache], model=torch.nn.Linear(2, 3))
    """
    resolved = found(text, batch_size=2)
    assert list(resolved.target.inputs) == ["token"]
    assert len(resolved.target.state) == 1
    assert resolved.target.step().tolist() == [2, 2]
    assert resolved.setting.batch_size == 2


def test_a_target_at_the_top_level_by_name(found: Resolve) -> None:
    text = "from launchscope import Target\ndecode = Target(lambda: 7)\n"
    assert found(text, at="model.py:decode").target.step() == 7


# --- modules --------------------------------------------------------------------------------------------------------

MODULE = """
    import torch

    class Net(torch.nn.Module):
        def forward(self, token, scale=2):
            return token * scale

    model = Net()
    example_inputs = {}
"""


@pytest.mark.parametrize(
    ("inputs", "names", "result"),
    [
        ("torch.ones(1)", ["0"], 2),
        ("(torch.ones(1),)", ["0"], 2),
        ("(torch.ones(1), 5)", ["0"], 5),
        ("[torch.ones(1), torch.ones(1) * 4]", ["0", "1"], 4),
        ("{'token': torch.ones(1), 'scale': 3}", ["token"], 3),
    ],
)
def test_a_module_with_example_inputs(found: Resolve, inputs: str, names: list[str], result: int) -> None:
    target = found(MODULE.format(inputs)).target
    assert list(target.inputs) == names
    assert target.step().tolist() == [result]
    target.inputs[names[0]].fill_(10)
    assert target.step().tolist() == [result * 10]
    assert target.model is not None


def test_a_module_without_example_inputs(found: Resolve) -> None:
    text = "import torch\nmodel = torch.nn.Linear(2, 2)\n"
    assert "no build(), step(), model with example_inputs" in refusal(lambda: found(text))
    said = refusal(lambda: found(text, at="model.py:model"))
    assert said == "an nn.Module needs example_inputs beside it: a tensor, or a tuple or dict of tensors"


def test_a_live_module(found: Resolve) -> None:
    resolved = as_target(torch.nn.Linear(2, 3), CPU, example_inputs=torch.ones(1, 2))
    assert resolved.target.step().shape == (1, 3)
    assert "--batch-size" in refusal(
        lambda: as_target(torch.nn.Linear(2, 3), Setting(8, None, None, "cpu"), example_inputs=torch.ones(1, 2))
    )


# --- Hugging Face models --------------------------------------------------------------------------------------------

HF = (Path(__file__).parents[2] / "models" / "hf_tiny.py").read_text()


def test_a_bare_hugging_face_model(found: Resolve) -> None:
    pytest.importorskip("transformers")
    resolved = found(HF, batch_size=2, context_length=16)
    assert resolved.setting == Setting(2, "bf16", 16, "cpu")
    assert any("launchscope's own" in label for label in resolved.labels)
    assert list(resolved.target.inputs) == ["token", "position"]
    with watching() as watch:
        first, second = resolved.target.step(), resolved.target.step()
    watch.refuse()
    assert first.shape == (2, 1, 256)
    assert torch.equal(first, second)  # the cache doesn't grow


def test_a_prompt_of_a_bare_model_is_its_forward(found: Resolve) -> None:
    pytest.importorskip("transformers")
    resolved = found(HF, batch_size=2, settings={"prompt_length": "5"})
    prompt, model = resolved.target.inputs["token"], resolved.target.model
    assert prompt.shape == (2, 5)
    assert model is not None
    first, second = resolved.target.step(), resolved.target.step()
    assert torch.equal(first, second)
    torch.testing.assert_close(first, model(input_ids=prompt).logits[:, -1:], rtol=0.02, atol=0.02)
    assert any("prompt per sequence" in label for label in resolved.labels)
    assert refusal(lambda: found(HF, settings={"prompt_length": "0"})) == (
        "--set prompt_length=0: must be a whole number above 0"
    )


@pytest.mark.parametrize("context_length", [1, 2])
def test_a_short_context(found: Resolve, context_length: int) -> None:
    pytest.importorskip("transformers")
    assert found(HF, context_length=context_length).target.step().shape == (1, 1, 256)


@pytest.mark.parametrize(
    ("more", "options", "said"),
    [
        ("draft = AutoModelForCausalLM.from_config(config)", {}, "model.py: several Hugging Face models (model, draft);"
         " name one: model.py:NAME"),
        ("", {"context_length": 4096}, "--context-length 4096: the model's positions end at 2048"),
        ("", {"settings": {"layers": "2"}}, "--set layers: only a build(...) factory takes settings"),
    ],
)  # fmt: skip
def test_what_a_bare_model_cannot_do(found: Resolve, more: str, options: dict[str, Any], said: str) -> None:
    pytest.importorskip("transformers")
    assert refusal(lambda: found(HF + more, **options)) == said


def test_several_models_and_one_named(found: Resolve) -> None:
    pytest.importorskip("transformers")
    text = HF + "draft = AutoModelForCausalLM.from_config(config)\n"
    assert found(text, at="model.py:draft", context_length=8).target.step().shape == (1, 1, 256)
    assert found(HF + "same = model\n", context_length=8).target.step().shape == (1, 1, 256)


def test_a_compiled_model_is_unwrapped_and_labelled(found: Resolve) -> None:
    pytest.importorskip("transformers")
    resolved = found(HF + "model = torch.compile(model)\n", context_length=8)
    assert any("torch.compile wrapper was taken off" in label for label in resolved.labels)
    with watching() as watch:
        resolved.target.step()
    assert watch.as_written(resolved.target.step) is None


def test_example_inputs_beside_a_model_are_its_step(found: Resolve) -> None:
    """One forward without a cache from outside; the cache that the model makes for itself doesn't grow."""
    pytest.importorskip("transformers")
    resolved = found(HF + "example_inputs = {'input_ids': torch.ones(1, 4, dtype=torch.int64)}\n")
    with watching() as watch:
        shapes = [resolved.target.step().logits.shape for _ in range(2)]
    watch.refuse()
    assert shapes == [(1, 4, 256)] * 2
    assert list(resolved.target.inputs) == ["input_ids"]


def test_build_may_return_a_hugging_face_model(found: Resolve) -> None:
    pytest.importorskip("transformers")
    resolved = found(HF + "net = model\ndel model\ndef build(batch_size):\n    return net\n", batch_size=3)
    assert resolved.target.step().shape == (3, 1, 256)
    assert resolved.setting == Setting(3, "bf16", 512, "cpu")


def test_a_cache_that_grows_is_refused(found: Resolve) -> None:
    pytest.importorskip("transformers")
    resolved = found(
        HF
        + textwrap.dedent("""
            from transformers import DynamicCache
            cache = DynamicCache()
            token = torch.ones(1, 1, dtype=torch.int64)
            def step():
                return model(input_ids=token, past_key_values=cache, use_cache=True).logits
        """)
    )
    with watching() as watch:
        resolved.target.step()
        resolved.target.step()
    assert "DynamicCache grows each step" in refusal(watch.refuse)


def test_generate_in_the_step_is_refused(found: Resolve) -> None:
    pytest.importorskip("transformers")
    text = HF + "def step():\n    return model.generate(torch.ones(1, 1, dtype=torch.int64), max_new_tokens=2)\n"
    resolved = found(text)
    with watching() as watch:
        resolved.target.step()
    assert refusal(watch.refuse).startswith("the step calls generate(), a loop of many growing steps")


def test_a_script_that_only_generates(found: Resolve) -> None:
    text = """
        def main():
            model = load()
            print(model.generate([1, 2, 3]))

        if __name__ == "__main__":
            main()
    """
    said = refusal(lambda: found(text))
    assert said.startswith("model.py: only calls generate(), a loop of growing steps")
    assert "docs/targets.md" in said


# --- compiled, under graphs, elsewhere ------------------------------------------------------------------------------


def test_a_compiled_step_is_unwrapped_and_labelled(found: Resolve) -> None:
    for text in ("def step(): return 7\nstep = torch.compile(step)", "def build(): return torch.compile(lambda: 7)"):
        resolved = found(f"import torch\n{text}\n")
        assert resolved.target.step() == 7
        assert resolved.labels == (
            "its torch.compile wrapper was taken off: eager is the code beneath, fused compiles it anew",
        )


def test_code_compiled_inside_is_measured_as_written(found: Resolve, monkeypatch: pytest.MonkeyPatch) -> None:
    from torch._dynamo.utils import counters

    resolved = found("""
        import torch
        inner = torch.compile(lambda x: x * 2, backend="eager")
        x = torch.ones(2)
        def step():
            return inner(x)
    """)
    monkeypatch.setitem(counters["frames"], "ok", 0)
    with watching() as watch:
        resolved.target.step()
    assert watch.as_written(resolved.target.step) == "already compiled inside: measured as written, in one mode"


class FakeGraph:
    """Stands for torch.cuda.CUDAGraph, which no CPU build can make."""

    def replay(self) -> int:
        return 7


def test_a_graph_replayed_inside_is_measured_as_written(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(torch.cuda, "CUDAGraph", FakeGraph)
    graph = FakeGraph()
    replay = graph.replay
    for step in (lambda: graph.replay(), replay, lambda: replay()):
        with watching() as watch:
            assert step() == 7
        assert watch.as_written(step) == "already under CUDA graphs: measured as written, in one mode"
    assert FakeGraph.replay is type(graph).replay
    with watching() as watch:
        pass
    assert watch.as_written(lambda: 7) is None


@pytest.mark.parametrize(
    ("engine", "words"),
    [("vllm", "POST /start_profile, /stop_profile"), ("sglang", "POST /start_profile"), ("tensorrt_llm", "nsys")],
)
def test_an_engine_is_named_with_its_own_profiler(found: Resolve, tmp_path: Path, engine: str, words: str) -> None:
    package = tmp_path / engine
    package.mkdir()
    (package / "__init__.py").write_text("class LLM:\n    pass\nclass RMSNorm:\n    pass\n")
    said = refusal(lambda: found(f"from {engine} import LLM\nllm = LLM()\n"))
    assert said.startswith(f"model.py: llm is a {engine} LLM, whose GPU work runs in another process; ")
    assert words in said
    assert said.endswith("then: launchscope analyze TRACE (docs/recording.md)")
    for text in (f"from {engine} import LLM\n", f"import {engine}\n"):
        said = refusal(lambda text=text: found(text + "def main():\n    pass\n"))
        assert f" is of {engine}, whose GPU work runs in another process; " in said
        assert words in said
    layer = f"from {engine} import RMSNorm\nnorm = RMSNorm()\ndef step():\n    return 7\n"
    assert found(layer).target.step() == 7


# --- where a target lies --------------------------------------------------------------------------------------------


def test_the_order_of_names(found: Resolve) -> None:
    both = "def step():\n    return 'step'\ndef build():\n    return lambda: 'build'\n"
    assert found(both).target.step() == "build"
    assert found(both, at="model.py:step").target.step() == "step"
    pretend = "import torch\nmodel, example_inputs = torch.nn.Identity(), torch.ones(1)\n"
    assert found(pretend + "def step():\n    return 'step'\n").target.step() == "step"


def test_a_module_of_a_package(found: Resolve, tmp_path: Path) -> None:
    (tmp_path / "theirs").mkdir()
    (tmp_path / "theirs" / "decode.py").write_text("def step():\n    return 7\n")
    assert found("", at="theirs.decode:step").target.step() == 7


@pytest.mark.parametrize(
    ("at", "said"),
    [
        ("absent.py", "absent.py: no such file"),
        ("absent", "absent: no such file; a target is model.py, model.py:name or package.module:name"),
        ("absent.module:step", "absent.module: no such module (No module named 'absent')"),
        ("model.py:nope", "model.py: has no 'nope'; it has limit, thing"),
        ("model.py:limit", "the target is a int; it must be a function, an nn.Module or a Target"),
        ("model.py", "model.py: no build(), step(), model with example_inputs, or Hugging Face model at its top level; "
         "it has limit, thing. Name the target: model.py:NAME"),
        (".", ".: no such file"),
    ],
)  # fmt: skip
def test_what_is_not_there_is_told(found: Resolve, at: str, said: str) -> None:
    assert refusal(lambda: found("limit = 3\nthing = 'x'\n", at=at)).startswith(said)


def test_a_module_that_lacks_a_module_of_its_own_is_not_called_absent(found: Resolve, tmp_path: Path) -> None:
    (tmp_path / "lacking.py").write_text("import nothing_of_that_name\n")
    with pytest.raises(ModuleNotFoundError, match="nothing_of_that_name"):
        found("", at="lacking:step")


def test_a_file_named_like_an_installed_module(found: Resolve, tmp_path: Path) -> None:
    (tmp_path / "json.py").write_text("def step():\n    return 7\n")
    assert resolve(ProfileOptions(target="json.py"), "cpu").target.step() == 7
    assert sys.modules["json"].__name__ == "json"


def test_a_step_of_a_live_target() -> None:
    token = torch.ones(1)
    resolved = as_target(Target(lambda: token + 1, {"token": token}), CPU)
    assert resolved.target.step().tolist() == [2]
    assert as_target(lambda: 7, CPU).target.step() == 7
