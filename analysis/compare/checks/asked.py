"""Which limits a mode of a target is checked by."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .config import MAY_REPLAY, Limits
from .limits import Limit, parse

DEFAULTS: Final = ("launches", "kernels", "memcpys", "blocking_calls", "graph_coverage")
"""What must not get worse where nothing is limited: what is counted, the same on any machine."""
ENOUGH_IN_GRAPHS: Final = ">= 0.95"
"""What --require-graph asks for: a prologue, or the sampling after the model, may be outside."""


def asked_of(target: str, mode: str, limits: Limits, has_baseline: bool, require_graph: bool) -> Iterator[Limit]:
    """Everything that a target in a mode is checked by."""
    own = limits.of(target, mode)
    yield from own
    if limits.is_empty and has_baseline:
        yield from defaults(mode)
    if require_graph and mode in MAY_REPLAY:
        required = parse("graph_coverage", ENOUGH_IN_GRAPHS, where="--require-graph")
        if not any(its.figure == required.figure and not its.relative and its.amount >= required.amount for its in own):
            yield required


def defaults(mode: str) -> Iterator[Limit]:
    """The limits of a baseline where nothing is limited."""
    for figure in DEFAULTS:
        if figure != "graph_coverage" or mode in MAY_REPLAY:
            yield parse(figure, "-0" if figure == "graph_coverage" else "+0", where="default")
