"""What a target does with graphs and buffers of its own, told once it has been built and has taken its first steps."""

from __future__ import annotations

from collections.abc import Sequence

from ...analysis.model.capture import OwnGraphs, ReplacedBuffer
from ..target.captures_seen import CapturesSeen
from ..target.step import Target
from ..target.variables import Buffers, ladder
from ..target.watch import UNDER_GRAPHS
from .outputs import unread_inputs

Found = tuple[OwnGraphs | None, tuple[ReplacedBuffer, ...]]


def target_graphs(
    seen: CapturesSeen, target: Target, buffers: Buffers | None, as_written: str | None, *, several: bool = False
) -> Found:
    """The graphs that it captured itself, and the buffers that its steps replaced; ``buffers`` as they were at first.

    Without ``buffers`` nothing is run for it, nor with ``several`` ranks: how many steps are run depends on what a rank
    computes, and each waits for the others.
    """
    replaced = () if buffers is None else buffers.replaced(target.step)
    if not seen.captured and not seen.failed:
        return None, replaced
    replays = as_written == UNDER_GRAPHS
    table, sizes = ladder(target.step)
    unread: Sequence[str] = ()
    if replays and buffers is not None and target.inputs and not several:
        unread = unread_inputs(target.step, target)
        if unread:
            replaced += _replaced_by_a_step(target)
    own = OwnGraphs(
        captured=seen.captured,
        failed=tuple(seen.failed),
        replayed=replays,
        table=table,
        sizes=sizes,
        unread_inputs=tuple(unread),
    )
    return own, replaced


def _replaced_by_a_step(target: Target) -> tuple[ReplacedBuffer, ...]:
    """Variables of any tensor that one more step replaces: one of them is what the graph no longer sees."""
    state = [tensor.clone() for tensor in target.state]
    buffers = Buffers.of(target.step, {}, others=True)
    target.step()
    found = buffers.replaced(target.step)
    for tensor, before in zip(target.state, state, strict=True):
        tensor.copy_(before)
    return found
