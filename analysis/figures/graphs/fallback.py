"""Steps that launch kernel by kernel where others of the same trace replay a graph, and what is different in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from ...facts.context import Context
from ...model.graph_document import FallbackDoc
from ...model.trace import NONE, Bools, HostKind, Ints

SHAPES: Final = 3  # operators with other shapes that are told

_Shapes = dict[str, Counter[int]]
"""By operator: how often it was called with which shapes, as an index into Trace.shapes."""


def fallback(context: Context) -> FallbackDoc | None:
    """None where every kept step with kernels replays, or none does."""
    kernels = context.steps.counted(context.steps.op_step[context.linked_kernels])
    fell = context.steps.kept & ~context.replaying & (kernels > 0)
    if not context.replaying.any() or not fell.any():
        return None
    typical, replayed = _typical(kernels, fell), _typical(kernels, context.replaying)
    return FallbackDoc(
        steps=[context.steps.names[row] for row in np.flatnonzero(fell).tolist()],
        of=int(context.steps.kept.sum()),
        kernels=float(np.median(kernels[fell])),
        period_ns=_median(context.period_ns[context.device][fell]),
        replayed_kernels=float(np.median(kernels[context.replaying])),
        replayed_period_ns=_median(context.period_ns[context.device][context.replaying]),
        shared_kernels=_shared(context, typical, replayed),
        other_shapes=list(islice(_other_shapes(context, typical, replayed), SHAPES)),
    )


def _median(periods: Ints) -> float | None:
    known = periods[periods != NONE]
    return float(np.median(known)) if len(known) else None


def _typical(kernels: Ints, steps: Bools) -> int:
    """The step whose number of kernels is the middle one."""
    rows = np.flatnonzero(steps)
    return int(rows[np.argsort(kernels[rows], kind="stable")[len(rows) // 2]])


def _shared(context: Context, one: int, other: int) -> float:
    names = context.trace.gpu_ops.name
    counts = [
        Counter(names[context.linked_kernels & (context.steps.op_step == step)].tolist()) for step in (one, other)
    ]
    return (counts[0] & counts[1]).total() / max(counts[0].total(), counts[1].total())


def _other_shapes(context: Context, fell: int, replayed: int) -> Iterator[str]:
    """Operators that both steps call, outside of replays, and never with the same shapes: the batch, most likely."""
    here, there = _shapes_in(context, fell), _shapes_in(context, replayed)
    for name in here.keys() & there.keys():
        if not here[name] & there[name]:
            mine, its = (_dims(context, shapes[name].most_common(1)[0][0]) for shapes in (here, there))
            yield f"{name} of {mine}, in a step that replays of {its}"


def _shapes_in(context: Context, step: int) -> _Shapes:
    host = context.trace.host_ops
    inside = (host.start_ns >= context.steps.start_ns[step]) & (host.start_ns < context.steps.end_ns[step])
    rows = np.flatnonzero(inside & (host.kind == HostKind.OPERATOR) & (host.shapes != NONE))
    found: _Shapes = defaultdict(Counter)
    for name, shapes in zip(host.name[rows].tolist(), host.shapes[rows].tolist(), strict=True):
        found[context.trace.name(name)][shapes] += 1
    return found


def _dims(context: Context, shapes: int) -> str:
    """The dimensions alone: ``[[13, 1], [13, 1]]``."""
    try:
        dims = msgspec.json.decode(context.trace.shapes[shapes], type=tuple[msgspec.Raw, msgspec.Raw])[0]
    except msgspec.MsgspecError:
        return context.trace.shapes[shapes]
    return bytes(dims).decode()
