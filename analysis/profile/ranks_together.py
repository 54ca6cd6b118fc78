"""Traces of several ranks that ran the same steps, each analysed, put side by side."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..facts.ranks.matching import Matching, first_ones, match
from ..facts.ranks.pairing import sets_of_files
from ..facts.ranks.waiting import Arrivals, Offset, arrivals, clock_offsets, launch_skews_ns, mostly_awaited, waits_of
from ..figures.analyses import TraceAnalysis, with_waits
from ..model.names import waits_for_all

SAME_HOST: Final = "same_host"
BY_COLLECTIVES: Final = "collectives"
NOT_ALIGNED: Final = "none"


@dataclass(frozen=True, eq=False)
class Together:
    """Recordings of several ranks that ran the same steps; lists are by rank, in one order."""

    analyses: tuple[TraceAnalysis, ...]
    ranks: tuple[int, ...]
    matching: Matching
    arrivals: tuple[Arrivals, ...]
    offsets: tuple[Offset | None, ...]
    alignment: str  # 'same_host', 'collectives', 'none'
    launch_skew_ns: NDArray[np.float64]

    @property
    def steps(self) -> int:
        """Steps in which a collective was matched."""
        return len(np.unique(np.concatenate([np.zeros(0, np.int64), *(group.step for group in self.matching.groups)])))


def put_together(analyses: Sequence[TraceAnalysis], hosts: Sequence[str | None]) -> Together:
    """Match what they have in common, and tell each what it waited; ``hosts`` are null where not known.

    Clocks of one host are the same. Those of others are moved by what collectives tell; without any they are not, and
    durations alone are compared.
    """
    matching = match([analysis.context.collectives for analysis in analyses])
    offsets = clock_offsets(matching)
    alignment = BY_COLLECTIVES if any(offsets) else NOT_ALIGNED
    ahead = [None if offset is None else offset.offset_ns for offset in offsets]
    if None not in hosts and len(set(hosts)) == 1:
        alignment, ahead = SAME_HOST, [0.0 for _ in analyses]
    waits_for = [None if place is None else matching.names[place] for place in mostly_awaited(matching)]
    known = zip(analyses, waits_of(matching), waits_for, _reasons(matching), strict=True)
    return Together(
        analyses=tuple(with_waits(*each) for each in known),
        ranks=matching.names,
        matching=matching,
        arrivals=tuple(arrivals(matching)),
        offsets=tuple(offsets),
        alignment=alignment,
        launch_skew_ns=launch_skews_ns(matching, ahead),
    )


def _reasons(matching: Matching) -> list[str | None]:
    """For each rank why waiting of some of its collectives is not told, or is told in part."""
    missing: list[list[str]] = [[] for _ in matching.ranks]
    for group in matching.groups:
        if not group.whole:
            given = f"{len(group.members)} of the {group.size} ranks of {group.label or 'a group'} were given"
            for place in group.members:
                missing[place].append(f"{given}: waiting is so much at least")
    reasons: list[str | None] = []
    for rank, not_given in zip(matching.ranks, missing, strict=True):
        unsplit = [kind for kind in rank.kinds if not waits_for_all(kind)]
        kinds = [f"in {', '.join(unsplit)} not every rank waits for every other"] if unsplit else []
        reasons.append("; ".join([*matching.refused, *first_ones(not_given), *kinds]) or None)
    return reasons


def sets_of_ranks(analyses: Sequence[TraceAnalysis]) -> list[list[TraceAnalysis]]:
    """Traces of others that belong together, by their names but for the rank in them; else all, if no rank is in twice.

    Traces without a GPU op, or of which no rank is known, belong to none.
    """
    timed = [each for each in analyses if each.context.times is not None]
    ranked = [(r, each) for each in timed if (r := each.document.rank) is not None]
    sets = sets_of_files([each.context.name for _, each in ranked], [rank for rank, _ in ranked])
    return [[ranked[place][1] for place in sorted(places, key=lambda place: ranked[place][0])] for places in sets]
