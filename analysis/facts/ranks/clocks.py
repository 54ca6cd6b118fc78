"""Clocks of ranks that run apart, told by collectives that end on all of them at once; and launches on one clock."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ...model.trace import Ints
from .collectives import NO_TIME
from .matching import Matching, columns


@dataclass(frozen=True)
class Offset:
    """How far a rank's clock is ahead of the first rank's, by the ends of collectives that they had in common."""

    offset_ns: float
    p10_ns: float
    p90_ns: float
    collectives: int


def clock_offsets(matching: Matching) -> list[Offset | None]:
    """Of each rank against the first that has a collective in common with another, through ranks between them where
    no group has both; None where no collective links it to that one.
    """
    groups = [group for group in matching.groups if group.waits.any()]
    offsets: list[Offset | None] = [None] * len(matching.ranks)
    if groups:
        offsets[min(min(group.members) for group in groups)] = Offset(0.0, 0.0, 0.0, 0)
    is_new = True
    while is_new:
        is_new = False
        for group in groups:
            known = next((k for k, place in enumerate(group.members) if offsets[place] is not None), None)
            base = None if known is None else offsets[group.members[known]]
            new = [k for k, place in enumerate(group.members) if offsets[place] is None]
            if base is None or not new:
                continue
            ends, is_new = matching.ends(group), True
            for k in new:
                offsets[group.members[k]] = _offset(ends[:, k] - ends[:, known], base.offset_ns)
    return offsets


def _offset(apart_ns: Ints, base_ns: float) -> Offset:
    p10, median, p90 = np.percentile(apart_ns, (10, 50, 90))
    return Offset(base_ns + float(median), base_ns + float(p10), base_ns + float(p90), len(apart_ns))


def launch_skews_ns(matching: Matching, offsets_ns: Sequence[float | None]) -> NDArray[np.float64]:
    """Per launch of a collective the last rank's launch − the first one's, on clocks that run ahead by ``offsets_ns``.

    A graph launch that replays many collectives counts once. Ranks without an offset, and collectives of which a
    launch is not in the file, are left out.
    """
    skews: list[NDArray[np.float64]] = []
    for group in matching.groups:
        ahead = [offsets_ns[place] for place in group.members]
        if None in ahead:
            continue
        starts = columns(group, [rank.launch_start_ns for rank in matching.ranks])
        starts = starts[(starts != NO_TIME).all(axis=1)]
        starts = starts[np.sort(np.unique(starts, axis=0, return_index=True)[1])]
        moved = starts - starts.min(initial=np.iinfo(np.int64).max) - np.array(ahead, np.float64)
        skews.append(moved.max(axis=1) - moved.min(axis=1))
    return np.concatenate(skews) if skews else np.zeros(0, np.float64)
