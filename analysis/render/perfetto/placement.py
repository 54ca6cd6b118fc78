"""Where each trace of a report lies on the one time axis of a timeline of all."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from ...model.document import RanksOfStepDoc, ReportDocument
from ...profile.ranks_together import BY_COLLECTIVES, SAME_HOST
from ...profile.select import mode_of

if TYPE_CHECKING:
    from ...figures.analyses import TraceAnalysis

Clocks = Mapping[str, tuple[Hashable, float]]
"""By the name of a trace: what it ran together with, and by how many ns its clock is ahead of one of theirs."""


def clocks_of(document: ReportDocument, analyses: Sequence[TraceAnalysis]) -> Clocks:
    """Of ranks that ran together, where their clocks are the same or collectives tell how far they are apart."""
    profile = None if document.profile is None else document.profile.ranks
    if profile is None:
        return {
            name: (place, ahead)
            for place, together in enumerate(document.ranks)
            for rank, ahead in _ahead(together).items()
            for name in next(each.traces for each in together.ranks if each.rank == rank)
        }
    ahead_of = {mode: _ahead(together) for mode, together in profile.modes.items()}
    found: dict[str, tuple[Hashable, float]] = {}
    for each in analyses:
        ahead, rank = ahead_of.get(mode_of(each) or "", {}), each.document.rank
        if rank is not None and rank in ahead:
            found[each.name] = ((each.mode, each.trace_pass, each.repeat), ahead[rank])
    return found


def _ahead(together: RanksOfStepDoc) -> dict[int, float]:
    """By rank; empty where nothing tells."""
    if together.alignment == SAME_HOST:
        return {each.rank: 0.0 for each in together.ranks}
    if together.alignment != BY_COLLECTIVES:
        return {}
    return {each.rank: each.clock_offset_ns for each in together.ranks if each.clock_offset_ns is not None}


def placement(analyses: Sequence[TraceAnalysis], clocks: Clocks) -> tuple[list[int], int]:
    """By how much each trace is moved, and the earliest time after that; never negative, which Perfetto can't hold.

    First kept steps start together, of ranks that ran together that of the first one: the others are moved with it.
    """
    starts = [_first_ns(analysis) for analysis in analyses]
    anchors = [_anchor_ns(analysis, start) for analysis, start in zip(analyses, starts, strict=True)]
    shifts: list[int] = []
    leads: dict[Hashable, int] = {}  # by how much all that ran together are moved, on a clock that is not ahead
    for analysis, anchor in zip(analyses, anchors, strict=True):
        together, ahead = clocks.get(analysis.name, (None, 0.0))
        own = anchors[0] - anchor
        lead = own if together is None else leads.setdefault(together, own + round(ahead))
        shifts.append(lead - (0 if together is None else round(ahead)))
    earliest = min((start + shift for start, shift in zip(starts, shifts, strict=True)), default=0)
    lift = max(0, -earliest)
    return [shift + lift for shift in shifts], earliest + lift


def _anchor_ns(analysis: TraceAnalysis, start_ns: int) -> int:
    kept = np.flatnonzero(analysis.steps.kept)
    return int(analysis.steps.start_ns[kept[0]]) if len(kept) else start_ns


def _first_ns(analysis: TraceAnalysis) -> int:
    """The earliest time that is drawn; an end, where a record ends before it starts."""
    trace = analysis.trace
    tables = (trace.gpu_ops, trace.launches, trace.blocking_calls, trace.host_ops, analysis.steps)
    columns = [column for table in tables for column in (table.start_ns, table.end_ns) if len(column)]
    return min((int(column.min()) for column in columns), default=0)
