"""What matched collectives tell of ranks: transfer and waiting of each, who arrives last, and how far clocks are apart.

Of a collective that nobody can end before all have arrived, the shortest duration is the transfer, as the last to
arrive waits for nobody; what a rank's own takes longer is waiting. That needs no common clock; that all end at once
tells how far the ranks' clocks are apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...model.trace import NONE, Ints, Reals
from ..collectives import NO_TIME, Collectives
from ..trace_times import Waits
from .matching import Matching, columns

TOGETHER_NS: Final = 1_000
"""Arrivals closer than this are together: ends of one collective differ by up to 0.8 µs on two H200s of one host."""

LATE_STEPS: Final = 3
LATE_ALWAYS: Final = 8
"""In fewer steps than the first with arrivals apart, so many collectives tell of a straggler, if it is last in all."""

WORTH_TELLING: Final = 0.01
"""Of T: a rank for which the others wait less is none."""

MOST: Final = 0.6
"""Of the collectives for which anybody waited: nothing is gained by hurrying one of two that are late in turn."""

SURELY: Final = 2.0
"""Standard errors of its mean over steps by which a straggler's share is over a half."""


def waits_of(matching: Matching) -> list[Waits]:
    """Of each rank in turn. What is hidden of a collective is taken to be waiting first: exposed is the least."""
    transfer = [np.full(len(rank), NONE, np.int64) for rank in matching.ranks]
    for group in matching.groups:
        shortest, rows = matching.durations(group).min(axis=1), group.rows[group.waits]
        for k, place in enumerate(group.members):
            transfer[place][rows[:, k]] = shortest
    return [_waits(rank, transfer_ns) for rank, transfer_ns in zip(matching.ranks, transfer, strict=True)]


def _waits(rank: Collectives, transfer_ns: Ints) -> Waits:
    known = transfer_ns != NONE
    waiting = np.where(known, rank.dur_ns - transfer_ns, NONE)
    least_exposed = np.where(known, np.maximum(waiting - rank.hidden_ns, 0), 0)
    exposed = np.minimum(rank.per_step(least_exposed), rank.exposed_ns)
    untold = rank.per_step((~known).astype(np.int64))
    unsplit = np.minimum(rank.per_step(np.where(known, 0, rank.dur_ns - rank.hidden_ns)), rank.exposed_ns - exposed)
    return Waits(
        transfer_ns=transfer_ns,
        waiting_ns=waiting,
        step_transfer_ns=rank.per_step(np.where(known, transfer_ns, 0)),
        step_waiting_ns=rank.per_step(np.where(known, waiting, 0)),
        exposed_waiting_ns=exposed,
        unsplit_ns=unsplit,
        exposed_transfer_ns=np.maximum(rank.exposed_ns - exposed - unsplit, 0).astype(np.float64),
        split=untold == 0,
    )


def mostly_awaited(matching: Matching) -> list[int | None]:
    """For each rank the place of the one whose late arrival makes over half of its waiting; None where none does."""
    ranks = len(matching.ranks)
    waited = np.zeros((ranks, ranks), np.int64)  # [who waits, for whom]
    for group in matching.groups:
        durations = matching.durations(group)
        latest, shortest = np.array(group.members)[durations.argmin(axis=1)], durations.min(axis=1)
        for k, place in enumerate(group.members):
            np.add.at(waited[place], latest, durations[:, k] - shortest)
    most = waited.argmax(axis=1)
    is_most = waited.max(axis=1, initial=0) * 2 > waited.sum(axis=1)
    return [int(place) if found else None for place, found in zip(most, is_most, strict=True)]


@dataclass(frozen=True, eq=False)
class Arrivals:
    """How often one rank was the last to arrive, of the collectives for which anybody waited, by paired step."""

    last: Ints  # [p]
    of: Ints  # [p] collectives of its groups for which anybody waited
    awaited_ns: Reals  # [p] mean time that the others waited for it
    chance: float  # share if all arrived alike

    @classmethod
    def joined(cls, recordings: Sequence[Arrivals]) -> Arrivals:
        """Of one rank in several recordings."""
        none = cls(np.zeros(0, np.int64), np.zeros(0, np.int64), np.zeros(0), 1.0 if not recordings else 0.0)
        several = (none, *recordings)
        return cls(
            last=np.concatenate([each.last for each in several]),
            of=np.concatenate([each.of for each in several]),
            awaited_ns=np.concatenate([each.awaited_ns for each in several]),
            chance=max(each.chance for each in several),
        )

    @property
    def mean_awaited_ns(self) -> float:
        """Per step; 0 without a step."""
        return float(self.awaited_ns.mean()) if len(self.awaited_ns) else 0.0

    def is_straggler(self, step_ns: float) -> bool:
        """Last in most of the collectives, surely in over half, by steps (those of one are late together); and waited
        for. ``step_ns`` is T as recorded.
        """
        shares = self.last[self.of > 0] / self.of[self.of > 0]
        is_awaited = step_ns > 0 and self.mean_awaited_ns >= WORTH_TELLING * step_ns
        if not is_awaited or not len(shares) or shares.mean() < MOST:
            return False
        if len(shares) < LATE_STEPS:
            return int(self.of.sum()) >= LATE_ALWAYS and bool((self.last == self.of).all())
        error = float(shares.std(ddof=1)) / np.sqrt(len(shares))
        return bool(shares.mean() - SURELY * error > max(0.5, self.chance))


def arrivals(matching: Matching) -> list[Arrivals]:
    """Of each rank in turn. Of arrivals less than ``TOGETHER_NS`` apart nobody is the last."""
    steps, ranks = len(matching.steps.places), len(matching.ranks)
    last, of = (np.zeros((ranks, steps), np.int64) for _ in range(2))
    awaited = np.zeros((ranks, steps))
    chances: list[list[float]] = [[] for _ in range(ranks)]
    for group in matching.groups:
        durations, step = matching.durations(group), group.step[group.waits]
        shortest = durations.min(axis=1)
        waited = durations.max(axis=1) - shortest >= TOGETHER_NS
        latest = durations.argmin(axis=1)
        mean = (durations - shortest[:, None]).sum(axis=1) / (len(group.members) - 1)
        for k, place in enumerate(group.members):
            is_latest = waited & (latest == k)
            np.add.at(last[place], step[is_latest], 1)
            np.add.at(of[place], step[waited], 1)
            np.add.at(awaited[place], step[is_latest], mean[is_latest])
            chances[place].append(1 / len(group.members))
    return [Arrivals(last[r], of[r], awaited[r], max(chances[r], default=1.0)) for r in range(ranks)]


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


def launch_skews_ns(matching: Matching, offsets_ns: Sequence[float | None]) -> Reals:
    """Per launch of a collective the last rank's launch − the first one's, on clocks that run ahead by ``offsets_ns``.

    A graph launch that replays many collectives counts once. Ranks without an offset, and collectives of which a
    launch is not in the file, are left out.
    """
    skews: list[Reals] = []
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
