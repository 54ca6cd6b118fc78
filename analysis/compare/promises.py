"""How much of what was proposed came true: the actions of one capture that the other one took.

A fusion was done in as many places as the other capture's own advisor no longer finds it in. A graph was when replays
came, blocking calls were taken out when half of them are gone. What it was worth is the change of T, all in one: two
things that were done at once can't be told apart.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final, NamedTuple

from ..model.capture import UNCOMPILED
from ..model.document import ReportDocument, fusion_of
from ..model.fusion_document import CandidateDoc
from ..model.statistics import known_sum
from .compare_document import ComparisonDoc, FigureDoc
from .compared_document import KeptPromiseDoc, UnprofiledDoc

_GONE: Final = 0.5  # of the blocking calls: taken out


class _Done(NamedTuple):
    """One action that was taken; ns per step, null where nothing was promised."""

    what: str
    saves_ns: float | None
    low_ns: float | None
    high_ns: float | None
    launches: float = 0.0


def kept_promise(
    mode: str,
    other: str,
    before: ReportDocument,
    after: ReportDocument,
    comparison: ComparisonDoc,
    unprofiled: UnprofiledDoc | None,
) -> KeptPromiseDoc | None:
    """What was promised of a mode by what was done in the other one's; None where nothing was, or was not timed.

    A fusion can be told only where both launch kernel by kernel, or as the graph of such a step.
    """
    if unprofiled is None:
        return None
    alike = mode == other and mode in UNCOMPILED
    done = [*(_fused(mode, before, after) if alike else ()), *_acted(mode, before, comparison)]
    if not done:
        return None
    promised = known_sum(each.saves_ns for each in done)
    came = -unprofiled.change * unprofiled.before_ns
    launches = comparison.figure("launches")
    went = None if launches is None else _fall(launches)
    fewer = sum(each.launches for each in done) if mode == "eager" and went is not None else 0.0
    return KeptPromiseDoc(
        done=[each.what for each in done],
        promised_ns=promised,
        promised_low_ns=known_sum(each.low_ns for each in done),
        promised_high_ns=known_sum(each.high_ns for each in done),
        came_ns=came,
        share=came / promised if promised else None,
        told=unprofiled.low is not None,
        launches_promised=fewer or None,
        launches_came=went if fewer else None,
    )


def _fused(mode: str, before: ReportDocument, after: ReportDocument) -> Iterator[_Done]:
    """Candidates of the one that the other has in fewer places."""
    ours, theirs = fusion_of(before.traces), fusion_of(after.traces)
    if ours is None or theirs is None:
        return
    left = Counter[str]()
    for candidate in theirs.candidates:
        left[candidate.kind] += candidate.places
    for candidate in ours.candidates:
        stays = min(left[candidate.kind], candidate.places)
        left[candidate.kind] -= stays
        share = 1 - stays / candidate.places
        if share > 0:
            yield _done(candidate, share, in_graph=mode == "graph")


def _done(candidate: CandidateDoc, share: float, *, in_graph: bool) -> _Done:
    saves, low, high = (None if ns is None else ns * share for ns in candidate.saves_ns(in_graph=in_graph))
    places = round(candidate.places * share)
    return _Done(
        f"{candidate.title} in {places} of {candidate.places}", saves, low, high, candidate.launches_saved * share
    )


def _acted(mode: str, before: ReportDocument, comparison: ComparisonDoc) -> Iterator[_Done]:
    """Actions of the verdict other than fusions that were predicted, and that the comparison shows as taken."""
    row = None if before.profile is None else before.profile.modes.get(mode)
    blocking = comparison.figure("blocking_calls")
    for action in row.verdict.actions if row is not None and row.verdict is not None else ():
        if action.basis != "predicted":
            continue
        graph = action.kind == "graph" and comparison.graph_coverage == "won"
        sync = action.kind == "sync" and (_fall(blocking) or 0.0) > _GONE * ((blocking and blocking.before) or 0.0)
        if graph or sync:
            yield _Done(action.what, action.saves_ns, action.low_ns, action.high_ns)


def _fall(figure: FigureDoc | None) -> float | None:
    """By how much a figure is smaller than before; None where either side is not known."""
    if figure is None or figure.before is None or figure.after is None:
        return None
    return figure.before - figure.after
