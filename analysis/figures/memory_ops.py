"""Memory copies and sets: what they move, and how long they take."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model.document import MemoryOpsDoc, TraceDoc
from ..model.trace import NONE, OpKind
from ..model.units import byte_size, duration
from ..story import Fact
from .figure import Figure, known

_UNKNOWN: Final = "the file does not tell the bytes of every copy"


def _compute(context: Context) -> MemoryOpsDoc:
    """Bytes and GPU time of the headline device's copies and sets; bytes are null when the file lacks some op's."""
    if context.headline is None:
        return MemoryOpsDoc(bytes=known(None, _UNKNOWN), ns=0)
    ops = context.trace.gpu_ops
    moving = np.isin(ops.kind, (OpKind.MEMCPY, OpKind.MEMSET)) & (ops.device == context.headline)
    moved = ops.bytes[moving]
    moved_bytes = None if (moved == NONE).any() else int(moved.sum())
    return MemoryOpsDoc(bytes=known(moved_bytes, _UNKNOWN), ns=int(ops.dur_ns[moving].sum()))


def _facts(trace: TraceDoc, verbose: bool) -> Iterator[Fact]:
    del verbose
    memory = trace.memory_ops
    if memory.ns:
        yield Fact("copies, sets", [f"{duration(memory.ns)} · {byte_size(memory.bytes)}"])


MEMORY_OPS: Final = Figure("memory_ops", "bytes and time of copies and memory sets", MemoryOpsDoc, _compute, _facts)
