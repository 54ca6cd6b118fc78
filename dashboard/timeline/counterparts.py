"""Which GPU ops of other bands stand for one of this: by aligning a typical step of each, so always inferred."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ...analysis.compare.compared_ops import align_either_way
from ...analysis.facts.alignment import Alignment, AlikeSteps
from ...analysis.figures.analyses import TraceAnalysis
from ...analysis.model.kernel_names import short_names
from ...analysis.model.trace import NONE
from ..band import Band


@dataclass(frozen=True)
class Counterpart:
    """One op of another band, or several that run in its place, in the step that the page shows beside its own."""

    key: str  # of the band
    label: str
    row: int  # of that band's gpu_ops: the first
    rows: tuple[int, ...]  # all that run in its place
    name: str
    short_name: str
    dur_ns: int  # of all
    how: str  # same node, same name, same operator, in its place
    words: str  # the same told: '9 ops were merged into 1'
    inferred: bool = True


def counterparts(
    band: Band, row: int, others: Sequence[Band]
) -> tuple[tuple[Counterpart, ...], tuple[tuple[str, str], ...]]:
    """Counterparts of a GPU op in the other bands; and for those without one their label and the reason."""
    found, without = [], []
    for other in others:
        its = _counterpart(band, row, other)
        if isinstance(its, Counterpart):
            found.append(its)
        else:
            without.append((other.label, its))
    return tuple(found), tuple(without)


def _counterpart(band: Band, row: int, other: Band) -> Counterpart | str:
    own, its = alike_steps(band), alike_steps(other)
    for alike, label in ((own, band.label), (its, other.label)):
        if not len(alike.ops):
            return f"no kept step in {label}"
    at = own.place_of(row)
    if at is None:
        return "outside of the steps that run the same ops as most"
    step, place = at
    alignment = _aligned(band, other)
    places, how, words = _places(alignment, place)
    if not len(places):
        return "nothing runs in its place"
    beside = _step_beside(band.analysis, int(own.step[step]), other.analysis, its)
    rows = tuple(its.rows[beside, places].tolist())
    if how == "same name" and _same_node(band.analysis, row, other.analysis, rows[0]):
        how = words = "same node"
    ops, names = other.analysis.context.trace.gpu_ops, other.analysis.context.trace.names
    name = names[int(ops.name[rows[0]])]
    return Counterpart(
        key=other.key,
        label=other.label,
        row=rows[0],
        rows=rows,
        name=name,
        short_name=short_name(other, name),
        dur_ns=int(ops.dur_ns[list(rows)].sum()),
        how=how,
        words=words,
    )


def short_name(band: Band, name: str) -> str:
    """A GPU op's short name, as the tables of its trace have it."""
    known = band.kept("short names", lambda: short_names(doc.name for doc in band.analysis.document.kernels))
    return known.get(name) or short_names([name])[name]


def alike_steps(band: Band) -> AlikeSteps:
    """The steps of a band that run the same ops."""
    return band.kept("alike steps", lambda: AlikeSteps.of(band.analysis.context))


def _aligned(one: Band, other: Band) -> Alignment:
    return one.kept(("aligned", other.key), lambda: align_either_way(one.analysis, other.analysis))


def _places(alignment: Alignment, place: int) -> tuple[Sequence[int], str, str]:
    """Places of the other's step that stand for this one, and how they were found."""
    matched, to = alignment.reference_position, alignment.other_position
    after = int(np.searchsorted(matched, place))
    if after < len(matched) and matched[after] == place:
        how = "same name" if alignment.by_name[after] else "same operator"
        words = how if alignment.by_name[after] else "another kernel of the same operator, between the same neighbours"
        return [int(to[after])], how, words
    since = (int(matched[after - 1]) + 1, int(to[after - 1]) + 1) if after else (0, 0)
    sizes = (len(alignment.reference_ops), len(alignment.other_ops))
    until = (int(matched[after]), int(to[after])) if after < len(matched) else sizes
    went, came = until[0] - since[0], until[1] - since[1]
    what = "merged into" if went > came else "split into" if went < came else "replaced by"
    words = f"{went} {'op was' if went == 1 else 'ops were'} {what} {came}, between the same neighbours"
    return range(since[1], until[1]), "in its place", words


def _step_beside(own: TraceAnalysis, step: int, other: TraceAnalysis, alike: AlikeSteps) -> int:
    """The other's alike step at the same place among the kept ones, or the nearest to it."""
    number = int(np.searchsorted(own.context.steps.kept_rows, step))
    kept = other.context.steps.kept_rows
    wanted = kept[min(number, len(kept) - 1)]
    return int(np.argmin(np.abs(alike.step - wanted)))


def _same_node(one: TraceAnalysis, row: int, other: TraceAnalysis, its_row: int) -> bool:
    """Whether both are the same ordinal of replays of the same size."""
    places = []
    for analysis, op in ((one, row), (other, its_row)):
        replay = int(analysis.context.replays.op_replay[op])
        if replay == NONE:
            return False
        places.append((int(analysis.context.replays.ordinal[op]), int(analysis.context.replays.op_count[replay])))
    return places[0] == places[1]
