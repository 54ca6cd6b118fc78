"""What a check of a recording is."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from ..facts.context import Context
from ..model.trace import Event, Notice, Trace


@dataclass(frozen=True)
class Check:
    """One rule that every true recording keeps; ``find`` yields a notice where this one does not."""

    code: str  # of its notices; docs/warnings.md lists them
    rule: str
    find: Callable[[Context], Iterator[Notice]]


def gpu_op(trace: Trace, row: int, why: str) -> Event:
    """A GPU op that proves a fault."""
    return Event(trace.name(int(trace.gpu_ops.name[row])), int(trace.gpu_ops.start_ns[row]), why)
