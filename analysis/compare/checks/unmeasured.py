"""Modes that are guarded, and that were not measured: they would be unguarded without a word."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...model import __version__
from ...model.capture import MODES
from ...model.units import printable
from ..check_document import RUNS, TO_FIX, PartDoc
from ..snapshot import Snapshot, side_of
from .asked import asked_of
from .config import MAY_REPLAY, Limits
from .finding import of_running
from .limits import OF_GRAPHS
from .sides import Sides

_UNMEASURED: Final = "was not measured: measure it too, or name what to check with --mode"


def lacking(
    current: Sequence[Snapshot], baselines: Sequence[Snapshot], used: Sequence[Snapshot], limits: Limits
) -> Iterator[PartDoc]:
    """Modes of a checked target that the baselines ``used``, or limits of their own, guard."""
    have = {each.mode for each in (*current, *used)}
    guarded = {(each.target, each.setup) for each in used}
    told: set[str] = set()
    for base in baselines:
        asked = list(asked_of(base.target, base.mode, limits, True, False))
        if base.mode not in have | told and (base.target, base.setup) in guarded and base.error is None and asked:
            told.add(base.mode)
            message = f"the baseline has mode {base.mode}, which {_UNMEASURED}"
            yield _unmeasured(current, base.target, base.mode, base, asked[0].where, message)
    for target in dict.fromkeys(each.target for each in current if each.mode in MODES):
        for mode in limits.modes_of(target):
            if mode in MODES and mode not in have | told:
                told.add(mode)
                message = f"there are limits on mode {mode}, which {_UNMEASURED}"
                yield _unmeasured(current, target, mode, None, limits.of(target, mode)[0].where, message)


def without_graphs(
    current: Sequence[Snapshot], parts: Sequence[PartDoc], limits: Limits, require_graph: bool
) -> Iterator[PartDoc]:
    """Targets that are asked to replay graphs, and of which nothing was measured that might."""
    for target in dict.fromkeys(each.target for each in current):
        modes = {each.mode for each in current if each.target == target}
        told = [each for part in parts if part.current.target == target for each in part.findings]
        asked = "--require-graph" if require_graph else limits.asks_for_graphs(target)
        if asked and not modes & set(MAY_REPLAY) and not any(each.figure in (*OF_GRAPHS, RUNS) for each in told):
            message = (
                "graphs are asked for, and no mode that may replay them was measured: measure one (--modes graph); "
                f"where {printable(target)} replays graphs by its own hand, it no longer does"
            )
            yield _unmeasured(current, target, "graph", None, asked, message)


def _unmeasured(
    current: Sequence[Snapshot], target: str, mode: str, base: Snapshot | None, where: str, message: str
) -> PartDoc:
    now = Snapshot(launchscope=__version__, target=target, mode=mode, source=current[0].source)
    before = None if base is None else side_of(base)
    found = of_running(Sides(now, base), TO_FIX, message, where=where)
    return PartDoc(current=side_of(now), baseline=before, differs={}, findings=[found], causes=[])
