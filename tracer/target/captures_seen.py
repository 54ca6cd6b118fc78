"""CUDA graphs that a target captures by its own hand, watched while it is built and takes its first steps.

An engine whose capture fails goes on without a graph and says nothing: the error is kept here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ...analysis.model.capture import Failure
from .reasons import failure


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


@contextmanager
def _instead(owner: type, method: str, function: Callable[..., Any]) -> Iterator[None]:
    original = getattr(owner, method)
    setattr(owner, method, function)
    try:
        yield
    finally:
        setattr(owner, method, original)
