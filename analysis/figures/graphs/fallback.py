"""Steps that launch kernel by kernel where others of the same trace replay a graph, and what is different in them."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Final

import msgspec
import numpy as np

from ...model.graph_document import FallbackDoc
from ...model.trace import NONE, Bools, HostKind, Ints
from .scope import Examined

SHAPES: Final = 3  # operators with other shapes that are told

_Shapes = dict[str, Counter[int]]
"""By operator: how often it was called with which shapes, as an index into Trace.shapes."""


def fallback(e: Examined) -> FallbackDoc | None:
    """None where every kept step with kernels replays, or none does."""
    kernels = e.counted(e.steps.op_step[e.linked])
    fell = e.steps.kept & ~e.replaying & (kernels > 0)
    if not e.replaying.any() or not fell.any():
        return None
    typical, replayed = _typical(kernels, fell), _typical(kernels, e.replaying)
    return FallbackDoc(
        steps=[e.steps.names[row] for row in np.flatnonzero(fell).tolist()],
        of=int(e.steps.kept.sum()),
        kernels=float(np.median(kernels[fell])),
        period_ns=_median(e.periods_ns[fell]),
        replayed_kernels=float(np.median(kernels[e.replaying])),
        replayed_period_ns=_median(e.periods_ns[e.replaying]),
        shared_kernels=_shared(e, typical, replayed),
        other_shapes=list(islice(_other_shapes(e, typical, replayed), SHAPES)),
    )


def _median(periods: Ints) -> float | None:
    known = periods[periods != NONE]
    return float(np.median(known)) if len(known) else None


def _typical(kernels: Ints, steps: Bools) -> int:
    """The step whose number of kernels is the middle one."""
    rows = np.flatnonzero(steps)
    return int(rows[np.argsort(kernels[rows], kind="stable")[len(rows) // 2]])


def _shared(e: Examined, one: int, other: int) -> float:
    names = e.trace.gpu_ops.name
    counts = [Counter(names[e.linked & (e.steps.op_step == step)].tolist()) for step in (one, other)]
    return (counts[0] & counts[1]).total() / max(counts[0].total(), counts[1].total())


def _other_shapes(e: Examined, fell: int, replayed: int) -> Iterator[str]:
    """Operators that both steps call, outside of replays, and never with the same shapes: the batch, most likely."""
    here, there = _shapes_in(e, fell), _shapes_in(e, replayed)
    for name in here.keys() & there.keys():
        if not here[name] & there[name]:
            mine, its = (_dims(e, shapes[name].most_common(1)[0][0]) for shapes in (here, there))
            yield f"{name} of {mine}, in a step that replays of {its}"


def _shapes_in(e: Examined, step: int) -> _Shapes:
    host = e.trace.host_ops
    inside = (host.start_ns >= e.steps.start_ns[step]) & (host.start_ns < e.steps.end_ns[step])
    rows = np.flatnonzero(inside & (host.kind == HostKind.OPERATOR) & (host.shapes != NONE))
    found: _Shapes = defaultdict(Counter)
    for name, shapes in zip(host.name[rows].tolist(), host.shapes[rows].tolist(), strict=True):
        found[e.trace.name(name)][shapes] += 1
    return found


def _dims(e: Examined, shapes: int) -> str:
    """The dimensions alone: ``[[13, 1], [13, 1]]``."""
    try:
        dims = msgspec.json.decode(e.trace.shapes[shapes], type=tuple[msgspec.Raw, msgspec.Raw])[0]
    except msgspec.MsgspecError:
        return e.trace.shapes[shapes]
    return bytes(dims).decode()
