"""What a target does by its own hand: captures and replays graphs, runs compiled code, generates, grows a cache.

Such a step can't be run in the four modes. It is measured as written, or refused in words. An engine whose capture
fails goes on without a graph and says nothing: that error is kept.
"""

from __future__ import annotations

import inspect
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from ...analysis.model.capture import Failure
from ...analysis.model.errors import BadTarget
from .reasons import failure

UNDER_GRAPHS: Final = "already under CUDA graphs: measured as written, in one mode"


class Watch:
    """What was called in the step: graph replays, generate, updates of a cache that grows."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()

    def as_written(self, step: Callable[[], Any]) -> str | None:
        """Why the step can only be measured as its author made it; null when it runs in eager."""
        if self.calls["replay"] or _holds_replay(step):
            return UNDER_GRAPHS
        if _compiled_frames():
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
            stack.enter_context(_counted(caches.DynamicLayer, "update", "grow", watch, _holds_tokens))
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

    variables: dict[str, Any] = {}
    with suppress(TypeError, ValueError):  # not a Python function; a variable without a value yet
        found = inspect.getclosurevars(step)
        variables = {**found.globals, **found.nonlocals}
    return any(
        isinstance(getattr(value, "__self__", None), torch.cuda.CUDAGraph) for value in (step, *variables.values())
    )


def _holds_tokens(layer: Any) -> bool:
    """A cache that a forward makes for itself and fills once does not grow from step to step."""
    return bool(layer.get_seq_length())


def _compiled_frames() -> int:
    """Frames that torch.compile has compiled in this process."""
    dynamo = sys.modules.get("torch._dynamo.utils")
    return int(dynamo.counters["frames"]["ok"]) if dynamo is not None else 0


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
