"""What the user points at, found in their file and turned into one decode step.

A target is a step function, a ``build(...)`` factory, an ``nn.Module`` with example inputs, or a bare Hugging Face
``PreTrainedModel``. The file runs with its own folder first on ``sys.path`` and not as ``__main__``.
"""

from __future__ import annotations

import ast
import importlib
import importlib.util
import inspect
import re
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, Final

from ...analysis.model import capture
from ...analysis.model.errors import BadTarget
from ...analysis.model.paths import exists, is_file
from .describe import parts_of_target
from .options import DEFAULT_BATCH_SIZE, DEFAULT_CONTEXT_LENGTH, DTYPES, Setting, Target, TargetOptions, short_dtype

if TYPE_CHECKING:
    import torch

ENGINES: Final = {
    "vllm": "start the server with --profiler-config and POST /start_profile, /stop_profile",
    "sglang": "POST /start_profile to the server, which writes one trace per rank",
    "tensorrt_llm": "run it under nsys profile",
}
"""Serving engines that do their GPU work in a process of their own → how to record it there."""

OUR_STEP: Final = (
    "the decode step is launchscope's own: one token per sequence over a StaticCache, whose length is set back "
    "by one launch per step"
)
OUR_PREFILL: Final = (
    "the step is launchscope's own: one prompt per sequence into an empty StaticCache, logits of its last token"
)


@dataclass(frozen=True, eq=False)
class Resolved:
    """A target ready to run, with what was found out about it on the way."""

    target: Target
    setting: Setting
    labels: tuple[str, ...] = ()

    def describe(
        self, name: str, *, revision: str | None = None, settings: Mapping[str, str] | None = None
    ) -> capture.Target:
        """What a capture says of it. Its parameters are counted once each: tied weights are one."""
        model = self.target.model
        return capture.Target(
            name=name,
            revision=revision,
            batch_size=self.setting.batch_size,
            dtype=self.setting.dtype,
            context_length=self.setting.context_length,
            parameters=None if model is None else sum(parameter.numel() for parameter in set(model.parameters())),
            settings=dict(settings or {}),
            labels=self.labels,
        )


def resolve(options: TargetOptions, device: str) -> Resolved:
    """Run the user's file and build its decode step; BadTarget says why it can't be profiled as it stands."""
    module, name = load(options.target)
    _refuse_engines(module)
    found, kind = (_attribute(module, name), name) if name else _find(module)
    setting = Setting(options.batch_size, options.dtype, options.context_length, device)
    return as_target(found, setting, settings=options.settings, module=module, kind=kind)


def load(spec: str) -> tuple[ModuleType, str | None]:
    """Import the file or module that ``spec`` names; the second part is the name after the colon, if any."""
    place, attribute = parts_of_target(spec)
    file = Path(place)
    if file.suffix == ".py" or exists(file):
        return _run_file(file), attribute
    if attribute is None:
        raise BadTarget(f"{spec}: no such file; a target is model.py, model.py:name or package.module:name")
    sys.path.insert(0, str(Path.cwd()))
    try:
        return importlib.import_module(place), attribute
    except ModuleNotFoundError as error:
        if not f"{place}.".startswith(f"{error.name}."):
            raise  # a module that theirs needs
        raise BadTarget(
            f"{place}: no such module ({error}); a target is model.py:name or package.module:name"
        ) from error


def _run_file(file: Path) -> ModuleType:
    if not is_file(file):
        raise BadTarget(f"{file}: no such file")
    file = file.resolve()
    sys.path.insert(0, str(file.parent))
    sys.argv = [str(file)]
    name = file.stem if file.stem.isidentifier() and file.stem not in sys.modules else f"_target_{file.stem}"
    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise BadTarget(f"{file}: not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def _attribute(module: ModuleType, name: str) -> Any:
    if not hasattr(module, name):
        raise BadTarget(f"{_where(module)}: has no {name!r}; it has {_names(module)}")
    return getattr(module, name)


def _find(module: ModuleType) -> tuple[Any, str]:
    """The target by its customary name: build, step, model with example_inputs, the only PreTrainedModel."""
    for name in ("build", "step"):
        if callable(getattr(module, name, None)):
            return getattr(module, name), name
    if _is_module(getattr(module, "model", None)) and hasattr(module, "example_inputs"):
        return module.model, "model"
    models = {name: value for name, value in vars(module).items() if _is_pretrained(_unwrap(value)[0])}
    distinct = {id(value): name for name, value in models.items()}
    if len(distinct) == 1:
        return models[next(iter(distinct.values()))], "model"
    if len(distinct) > 1:
        raise BadTarget(
            f"{_where(module)}: several Hugging Face models ({', '.join(models)}); name one: {_where(module)}:NAME"
        )
    _refuse_their_users(module)
    if _calls_generate(module):
        raise BadTarget(
            f"{_where(module)}: only calls generate(), a loop of growing steps with work of its own between them; "
            "a decode step is one forward over a static cache: leave the model at the top level of the file, "
            "or define build() (docs/targets.md)"
        )
    raise BadTarget(
        f"{_where(module)}: no build(), step(), model with example_inputs, or Hugging Face model at its top level; "
        f"it has {_names(module)}. Name the target: {_where(module)}:NAME (docs/targets.md)"
    )


def as_target(
    found: Any,
    setting: Setting,
    *,
    settings: Mapping[str, str] | None = None,
    module: ModuleType | None = None,
    kind: str | None = None,
    example_inputs: Any = None,
) -> Resolved:
    """Turn a factory, step function, module or Target into a Target; compiled ones are unwrapped and labelled.

    ``kind`` 'build' is a factory, 'step' a step function; else a function with parameters is a factory.
    """
    settings = dict(settings or {})
    found, labels = _unwrap(found)
    if _is_module(found):
        inputs = example_inputs if example_inputs is not None else getattr(module, "example_inputs", None)
        if inputs is not None:
            return _resolved(_module_target(found, inputs, setting.device), setting, labels, settings)
        if not _is_pretrained(found):
            raise BadTarget("an nn.Module needs example_inputs beside it: a tensor, or a tuple or dict of tensors")
        from .huggingface import model_target

        prompt_length = _whole_number("prompt_length", settings.pop("prompt_length", None))
        target, used = model_target(found, setting, prompt_length)
        label = OUR_STEP if prompt_length is None else OUR_PREFILL
        resolved = _resolved(target, Setting(device=setting.device), (*labels, label), settings)
        return Resolved(resolved.target, used, resolved.labels)
    if isinstance(found, Target):
        return _resolved(found, setting, labels, settings)
    if not callable(found):
        raise BadTarget(f"the target is a {type(found).__name__}; it must be a function, an nn.Module or a Target")
    kind = kind or getattr(found, "__name__", None)
    if kind == "build" or (kind != "step" and _parameters(found)):
        built, used = _build(found, setting, settings)
        if not callable(built) and not isinstance(built, Target):
            raise BadTarget(
                f"{_label(found)} returned a {type(built).__name__}; it must return a step function or a Target"
            )
        pretrained = _is_pretrained(_unwrap(built)[0])
        inner = as_target(built, used if pretrained else Setting(device=used.device), kind="step")
        return Resolved(inner.target, inner.setting if pretrained else used, labels + inner.labels)
    if required := [name for name, p in _parameters(found).items() if _is_required(p)]:
        raise BadTarget(f"{_label(found)}: a step function takes no arguments, this one needs {', '.join(required)}")
    return _resolved(Target(found), setting, labels, settings)


def _resolved(target: Target, setting: Setting, labels: tuple[str, ...], settings: Mapping[str, str]) -> Resolved:
    if settings:
        raise BadTarget(f"--set {', '.join(settings)}: only a build(...) factory takes settings")
    for name in setting.given:
        raise BadTarget(
            f"--{name.replace('_', '-')}: only a build(...) factory or a Hugging Face model takes it; "
            "this target has its own"
        )
    step, compiled = _unwrap(target.step)
    return Resolved(Target(step, target.inputs, target.state, target.model), setting, labels + compiled)


def _is_required(parameter: inspect.Parameter) -> bool:
    variable = (inspect.Parameter.VAR_KEYWORD, inspect.Parameter.VAR_POSITIONAL)
    return parameter.default is inspect.Parameter.empty and parameter.kind not in variable


def _build(factory: Callable[..., Any], setting: Setting, settings: dict[str, str]) -> tuple[Any, Setting]:
    """Call a factory with those of our parameters that it names and the user's --set; say which values it got."""
    import torch

    parameters = _parameters(factory)
    open_ended = any(p.kind is inspect.Parameter.VAR_KEYWORD for p in parameters.values())

    def default(name: str, fallback: Any) -> Any:
        given = parameters[name].default if name in parameters else None
        return fallback if given in (None, inspect.Parameter.empty) else given

    batch_size = setting.batch_size or default("batch_size", DEFAULT_BATCH_SIZE)
    context_length = setting.context_length or default("context_length", DEFAULT_CONTEXT_LENGTH)
    dtype = getattr(torch, DTYPES[setting.dtype]) if setting.dtype else default("dtype", torch.bfloat16)
    ours = {"batch_size": batch_size, "device": setting.device, "dtype": dtype, "context_length": context_length}
    arguments = {name: value for name, value in ours.items() if name in parameters or open_ended}
    for name in setting.given:
        if name not in arguments:
            raise BadTarget(f"--{name.replace('_', '-')}: {_label(factory)} takes no {name}")
    for key, text in settings.items():
        if key in ours or (key not in parameters and not open_ended):
            takes = ", ".join(name for name in parameters if name not in ours) or "none"
            raise BadTarget(f"--set {key}: {_label(factory)} has no such parameter; it has {takes}")
        arguments[key] = _convert(key, text, parameters.get(key))
    missing = [name for name, p in parameters.items() if _is_required(p) and name not in arguments]
    if missing:
        raise BadTarget(f"{_label(factory)}: needs {', '.join(missing)}; give it with --set {missing[0]}=…")
    used = Setting(
        batch_size if "batch_size" in arguments else None,
        short_dtype(dtype) if "dtype" in arguments else None,
        context_length if "context_length" in arguments else None,
        setting.device,
    )
    return factory(**arguments), used


def _convert(key: str, text: str, parameter: inspect.Parameter | None) -> Any:
    """A --set value as the type of the parameter's default, else as a Python literal, else as text."""
    default = None if parameter is None or parameter.default is inspect.Parameter.empty else parameter.default
    annotated = parameter is not None and parameter.annotation in (str, "str")
    kind: type | None = str if annotated else None if default is None else type(default)
    if kind is bool:
        if text.lower() not in ("true", "false", "1", "0", "yes", "no"):
            raise BadTarget(f"--set {key}={text}: must be true or false")
        return text.lower() in ("true", "1", "yes")
    if kind in (int, float):
        try:
            return int(text) if kind is int else float(text)
        except ValueError as error:
            raise BadTarget(f"--set {key}={text}: must be {'a whole number' if kind is int else 'a number'}") from error
    if kind is str:
        return text
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return text


def _whole_number(key: str, text: str | None) -> int | None:
    """A --set value that counts something; BadTarget for one that doesn't."""
    if text is None:
        return None
    if not text.isdigit() or not int(text):
        raise BadTarget(f"--set {key}={text}: must be a whole number above 0")
    return int(text)


def _module_target(model: torch.nn.Module, example_inputs: Any, device: str) -> Target:
    """One forward of a module over its example inputs, held in static buffers on the device."""
    import torch

    model = model.to(device)
    if isinstance(example_inputs, torch.Tensor):
        example_inputs = (example_inputs,)
    pairs = example_inputs.items() if isinstance(example_inputs, Mapping) else enumerate(example_inputs)
    buffers = {str(key): value.to(device) if isinstance(value, torch.Tensor) else value for key, value in pairs}
    inputs = {name: value for name, value in buffers.items() if isinstance(value, torch.Tensor)}
    arguments, keywords = ((), buffers) if isinstance(example_inputs, Mapping) else (tuple(buffers.values()), {})
    return Target(lambda: model(*arguments, **keywords), inputs, tuple(model.buffers()), model)


def _unwrap(found: Any) -> tuple[Any, tuple[str, ...]]:
    """What torch.compile wrapped: measured in eager as it was before, and said so."""
    original = getattr(found, "_orig_mod", None) or getattr(found, "_torchdynamo_orig_callable", None)
    if original is None:
        return found, ()
    return original, ("its torch.compile wrapper was taken off: eager is the code beneath, fused compiles it anew",)


def _refuse_engines(module: ModuleType) -> None:
    """BadTarget for an engine at top level; a layer or a kernel of the same package is no engine."""
    for name, value in vars(module).items():
        home = type(value).__module__.split(".")[0]
        if home in ENGINES and re.search("LLM|Engine|Runtime", type(value).__name__):
            raise _engine(f"{_where(module)}: {name} is a {home} {type(value).__name__}", home)


def _refuse_their_users(module: ModuleType) -> None:
    """BadTarget for a script without a target that imports an engine, to start it in a function."""
    for name, value in vars(module).items():
        home = str(getattr(value, "__module__", None) or getattr(value, "__name__", "")).split(".")[0]
        if home in ENGINES:
            raise _engine(f"{_where(module)}: no target, and {name} is of {home}", home)


def _engine(what: str, home: str) -> BadTarget:
    return BadTarget(
        f"{what}, whose GPU work runs in another process; {ENGINES[home]}, then: launchscope analyze TRACE "
        "(docs/recording.md)"
    )


def _is_module(value: Any) -> bool:
    nn = sys.modules.get("torch.nn")
    return nn is not None and isinstance(value, nn.Module)


def _is_pretrained(value: Any) -> bool:
    home = sys.modules.get("transformers.modeling_utils")
    return home is not None and isinstance(value, home.PreTrainedModel)


def _parameters(function: Callable[..., Any]) -> dict[str, inspect.Parameter]:
    try:
        return dict(inspect.signature(function).parameters)
    except (TypeError, ValueError):
        return {}


def _calls_generate(module: ModuleType) -> bool:
    try:
        tree = ast.parse(inspect.getsource(module))
    except (OSError, TypeError, SyntaxError):
        return False
    return any(isinstance(node, ast.Call) and getattr(node.func, "attr", None) == "generate" for node in ast.walk(tree))


def _where(module: ModuleType) -> str:
    return Path(module.__file__).name if module.__file__ else module.__name__


def _label(function: Callable[..., Any]) -> str:
    named = getattr(function, "func", function)  # of a partial
    return f"{getattr(named, '__name__', type(named).__name__)}()"


def _names(module: ModuleType) -> str:
    names = [
        name for name, value in vars(module).items() if not name.startswith("_") and not isinstance(value, ModuleType)
    ]
    return ", ".join(sorted(names)[:12]) or "nothing"
