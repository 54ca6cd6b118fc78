"""How many GPU ops are launched and wait to start."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ..facts.context import Context
from ..model.document import QueueDepthDoc, TraceDoc
from ..model.units import number, plural
from ..story import Fact
from .figure import Figure, known


def _compute(context: Context) -> QueueDepthDoc:
    found = context.queue_depth
    unlinked = "no op's launch is in the file" if len(context.trace.launches) else "no launches in the file"
    return msgspec.structs.replace(found, median=known(found.median, unlinked), max=known(found.max, unlinked))


def _facts(trace: TraceDoc, verbose: bool) -> Iterator[Fact]:
    del verbose
    queue = trace.queue_depth
    if queue.median is not None:
        most = plural(queue.max or 0, "GPU op")
        yield Fact("queue depth", [f"median {number(queue.median)}, at most {most} waiting"])


QUEUE_DEPTH: Final = Figure("queue_depth", "GPU ops launched and not started", QueueDepthDoc, _compute, _facts)
