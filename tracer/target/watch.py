"""What a target does by its own hand: captures and replays graphs, runs compiled code, generates, grows a cache.

Such a step can't be run in the four modes. It is measured as written, or refused in words. An engine whose capture
fails goes on without a graph and says nothing: that error is kept. So are the buffers that a step replaces instead of
overwriting, found among the variables that it reaches: through its closure, the globals it names, attributes, lists
and dicts.
"""

from __future__ import annotations

import ast
import functools
import inspect
import sys
import textwrap
from collections import Counter, OrderedDict, defaultdict, deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import CellType, FunctionType, MethodType, ModuleType
from typing import Any, Final

from ...analysis.model.capture import Failure, ReplacedBuffer
from ...analysis.model.errors import BadTarget
from .reasons import failure, is_installed

UNDER_GRAPHS: Final = "already under CUDA graphs: measured as written, in one mode"

DEPTH: Final = 5  # of attributes and items
MOST: Final = 20_000  # variables looked at: a model has a few thousand

_DICTS: Final = (dict, OrderedDict, defaultdict)
"""Not what is derived from them: such a dict may do anything when it is looked at."""

_PLAIN: Final = (str, bytes, int, float, complex, bool, type(None), ModuleType, type)


class Watch:
    """What was called in the step: graph replays, generate, updates of a cache that grows."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def as_written(self, step: Callable[[], Any]) -> str | None:
        """Why the step can only be measured as its author made it; null when it runs in eager."""
        if self.calls["replay"] or _holds_replay(step):
            return UNDER_GRAPHS
        dynamo = sys.modules.get("torch._dynamo.utils")
        if dynamo is not None and dynamo.counters["frames"]["ok"]:
            return "already compiled inside: measured as written, in one mode"
        return None

    def refuse(self) -> None:
        """BadTarget for a step that isn't one decode step."""
        if self.calls["generate"]:
            raise BadTarget(
                "the step calls generate(), a loop of many growing steps; a decode step is one forward over a static "
                "cache: leave the model at the top level of the file, or define build() (docs/targets.md)"
            )
        if self.calls["grow"]:
            raise BadTarget(
                "the step's DynamicCache grows each step: no two steps are alike and none can be captured; use "
                "transformers.StaticCache, or leave the model at the top level of the file (docs/targets.md)"
            )


@contextmanager
def watching() -> Iterator[Watch]:
    """Count while the step runs for the first time."""
    import torch

    watch = Watch()
    with ExitStack() as stack:
        stack.enter_context(_counted(torch.cuda.CUDAGraph, "replay", "replay", watch))
        if (generation := sys.modules.get("transformers.generation.utils")) is not None:
            stack.enter_context(_counted(generation.GenerationMixin, "generate", "generate", watch))
        caches = sys.modules.get("transformers.cache_utils")
        if caches is not None and hasattr(caches, "DynamicLayer"):  # not before transformers 4.54
            # a cache that a forward makes for itself and fills once does not grow from step to step
            grows = _counted(caches.DynamicLayer, "update", "grow", watch, lambda layer: bool(layer.get_seq_length()))
            stack.enter_context(grows)
        yield watch


@contextmanager
def _counted(
    owner: type, method: str, label: str, watch: Watch, counts: Callable[[Any], bool] = lambda _: True
) -> Iterator[None]:
    original: Callable[..., Any] = getattr(owner, method)

    def counted(*args: Any, **kwargs: Any) -> Any:
        watch.calls[label] += counts(args[0])
        return original(*args, **kwargs)

    with _instead(owner, method, counted):
        yield


@contextmanager
def _instead(owner: type, method: str, function: Callable[..., Any]) -> Iterator[None]:
    """Inside, calls of the method go to the function."""
    original = getattr(owner, method)
    setattr(owner, method, function)
    try:
        yield
    finally:
        setattr(owner, method, original)


def _holds_replay(step: Callable[[], Any]) -> bool:
    """A ``graph.replay`` that was looked up before we counted: the step itself, or a variable of it."""
    import torch

    values = (step, *(variable.value for variable in _of_callable(step)))
    return any(isinstance(getattr(value, "__self__", None), torch.cuda.CUDAGraph) for value in values)


@dataclass
class CapturesSeen:
    """How many captures ended well, and why the others did not."""

    folder: Path | None  # of the target
    captured: int = 0
    failed: list[Failure] = field(default_factory=list)


@contextmanager
def watching_captures(folder: Path | None) -> Iterator[CapturesSeen]:
    """Watch ``torch.cuda.graph`` and ``CUDAGraph`` of this process."""
    import torch

    seen = CapturesSeen(folder)
    ended: Callable[..., Any] = torch.cuda.CUDAGraph.capture_end
    left: Callable[..., Any] = torch.cuda.graph.__exit__

    def capture_end(graph: Any) -> Any:
        result = ended(graph)
        seen.captured += 1
        return result

    def leave(block: Any, kind: Any, error: BaseException | None, place: Any) -> Any:
        before = seen.captured
        try:
            return left(block, kind, error, place)
        except BaseException as leaving:
            if error is None:
                seen.failed.append(failure(leaving, "capture", folder))
            raise
        finally:
            if error is not None:
                seen.captured = before  # ended, but its step did not
                seen.failed.append(failure(error, "capture", folder))

    with _instead(torch.cuda.CUDAGraph, "capture_end", capture_end), _instead(torch.cuda.graph, "__exit__", leave):
        yield seen


@dataclass(frozen=True, eq=False)
class Variable:
    """A name that holds a value, and where it does: ``holder`` is a cell, a dict or a list."""

    name: str  # as the code writes it: 'buffers.token', 'graphs[8]'
    holder: Any
    key: Any

    @property
    def value(self) -> Any:
        """What it holds now; None if it is gone."""
        with suppress(KeyError, IndexError, ValueError):
            return self.holder.cell_contents if isinstance(self.holder, CellType) else self.holder[self.key]
        return None


def variables(step: Callable[[], Any]) -> Iterator[Variable]:
    """Every variable that the step reaches, the nearest first, each place once."""
    seen: set[tuple[int, Any]] = set()
    known: set[int] = set()
    waiting: deque[tuple[Variable, int]] = deque((variable, 0) for variable in _of_callable(step))
    while waiting and len(seen) < MOST:
        variable, depth = waiting.popleft()
        place = (id(variable.holder), variable.key)
        if place in seen:
            continue
        seen.add(place)
        yield variable
        value = variable.value
        if depth < DEPTH and id(value) not in known and not isinstance(value, _PLAIN):
            known.add(id(value))
            waiting.extend((inner, depth + 1) for inner in _inside(variable.name, value))


def _of_callable(function: Any) -> Iterator[Variable]:
    """Free variables and the globals that it names; of a method also its object."""
    if isinstance(function, functools.partial):
        yield from _of_callable(function.func)
        return
    if isinstance(function, MethodType):
        yield Variable("self", [function.__self__], 0)
        function = function.__func__
    if not isinstance(function, FunctionType):
        yield Variable("self", [function], 0)
        return
    for name, cell in zip(function.__code__.co_freevars, function.__closure__ or (), strict=True):
        yield Variable(name, cell, 0)
    if is_installed(function.__code__.co_filename):
        return  # a library's globals are none of the user's, and may import more when they are looked at
    for name in function.__code__.co_names:
        if name in function.__globals__:
            yield Variable(name, function.__globals__, name)


def _inside(name: str, value: Any) -> Iterator[Variable]:
    if type(value) in _DICTS:
        yield from (Variable(f"{name}[{_key(key)}]", value, key) for key in list(value))
    elif isinstance(value, (list, tuple)):
        yield from (Variable(f"{name}[{index}]", value, index) for index in range(len(value)))
    elif _is_of_torch(value):
        return
    elif isinstance(value, (FunctionType, MethodType, functools.partial)):
        yield from _of_callable(value)
    else:
        attributes = getattr(value, "__dict__", None)
        if isinstance(attributes, dict):
            for key in list(attributes):
                if key in ("_parameters", "_buffers", "_modules") and isinstance(attributes[key], dict):
                    yield from (Variable(f"{name}.{inner}", attributes[key], inner) for inner in attributes[key])
                else:
                    yield Variable(f"{name}.{key}", attributes, key)


def _key(key: Any) -> str:
    """As the code may write it; of other keys the type alone, whose text may cost much."""
    return repr(key) if isinstance(key, (str, int)) else f"<{type(key).__name__}>"


def _is_of_torch(value: Any) -> bool:
    """Tensors, streams, functions of torch's; a module of torch.nn may hold the user's."""
    torch = sys.modules.get("torch")
    if torch is None or isinstance(value, torch.nn.Module):
        return False
    home = value.__module__ if isinstance(value, FunctionType) else type(value).__module__
    return (home or "").partition(".")[0] == "torch"


@dataclass(frozen=True, eq=False)
class Buffers:
    """The variables of a step that hold tensors which must stay where they are, and what they held at first."""

    held: Sequence[tuple[Variable, Any, str | None]]  # variable, tensor, the target's input that it is

    @classmethod
    def of(cls, step: Callable[[], Any], inputs: Mapping[str, Any], others: bool) -> Buffers:
        """Those that hold a named input; with ``others`` those of every tensor."""
        import torch

        names = {id(tensor): name for name, tensor in inputs.items()}
        found = []
        for variable in variables(step):
            value = variable.value
            if isinstance(value, torch.Tensor) and (others or id(value) in names):
                found.append((variable, value, names.get(id(value))))
        return cls(found)

    def replaced(self, step: Callable[[], Any]) -> tuple[ReplacedBuffer, ...]:
        """Those that hold a tensor of the same form elsewhere in memory by now."""
        import torch

        found = {}
        for variable, before, name in self.held:
            now = variable.value
            if not isinstance(now, torch.Tensor) or now.data_ptr() == before.data_ptr():
                continue
            if now.shape == before.shape and now.dtype == before.dtype and variable.name not in found:
                line = assignment(step, variable.name)
                found[variable.name] = ReplacedBuffer(variable=variable.name, input=name, line=line)
        return tuple(found.values())


def assignment(step: Callable[[], Any], name: str) -> str | None:
    """`model.py:42 in step: buffers.token = …`: where the step itself assigns the variable; null where it doesn't."""
    function = inspect.unwrap(step)
    try:
        lines, first = inspect.getsourcelines(function)
        file = inspect.getsourcefile(function)
        tree = ast.parse(textwrap.dedent("".join(lines)))
    except (OSError, TypeError, SyntaxError):
        return None
    for node in ast.walk(tree):
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        if isinstance(node, (ast.Assign, ast.AnnAssign)) and any(
            target is not None and ast.unparse(target) == name for target in targets
        ):
            text = lines[node.lineno - 1].strip()
            return f"{Path(file or '?').name}:{first + node.lineno - 1} in {getattr(step, '__name__', 'step')}: {text}"
    return None


def ladder(step: Callable[[], Any]) -> tuple[str | None, tuple[int, ...]]:
    """The dict of CUDA graphs by size that the step reaches, as its name and its sizes; (null, ()) without one.

    Its keys are whole numbers, and each value is a graph, or reaches one.
    """
    for variable in variables(step):
        table = variable.value
        if type(table) not in _DICTS or not table or not all(type(key) is int for key in table):
            continue
        if all(_reaches_graph(value) for value in table.values()):
            return variable.name, tuple(sorted(table))
    return None, ()


def _reaches_graph(value: Any, depth: int = 3) -> bool:
    import torch

    if isinstance(value, torch.cuda.CUDAGraph) or isinstance(getattr(value, "__self__", None), torch.cuda.CUDAGraph):
        return True
    return depth > 0 and any(_reaches_graph(inner.value, depth - 1) for inner in _inside("", value))
