"""Transfer and waiting of each rank, and who arrives last, from collectives that are matched.

Of a collective that nobody can end before all have arrived, the shortest duration is the transfer, as the last to
arrive waits for nobody; what a rank's own takes longer is waiting. That needs no common clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ...model.trace import NONE, Bools, Ints
from .collectives import Collectives
from .matching import Matching

TOGETHER_NS: Final = 1_000
"""Arrivals closer than this are together: ends of one collective differ by up to 0.8 µs on two H200s of one host."""


@dataclass(frozen=True, eq=False)
class Waits:
    """Transfer and waiting of one rank's n collectives; s of its steps."""

    transfer_ns: Ints  # [n] NONE where it can't be told
    waiting_ns: Ints  # [n] NONE where it can't be told
    step_transfer_ns: NDArray[np.float64]  # [s] of the collectives of which it can be told
    step_waiting_ns: NDArray[np.float64]  # [s]
    exposed_waiting_ns: NDArray[np.float64]  # [s] the part of waiting beside which nothing ran: at least so much
    unsplit_ns: NDArray[np.float64]  # [s] exposed time of the collectives of which it can't be told
    told: Bools  # [s] steps of which every collective was told

    @property
    def is_known(self) -> bool:
        """Of any collective at all."""
        return bool((self.transfer_ns != NONE).any())


def waits_of(matching: Matching) -> list[Waits]:
    """Of each rank in turn. What is hidden of a collective is taken to be waiting first: exposed is the least."""
    transfer = [np.full(len(rank), NONE, np.int64) for rank in matching.ranks]
    for group in matching.groups:
        shortest, rows = matching.durations(group).min(axis=1), group.rows[group.waits]
        for k, place in enumerate(group.members):
            transfer[place][rows[:, k]] = shortest
    return [_waits(rank, own) for rank, own in zip(matching.ranks, transfer, strict=True)]


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
        told=untold == 0,
    )


def mostly_awaited(matching: Matching) -> list[int | None]:
    """For each rank the place of the one whose late arrival makes over half of its waiting; None where none does."""
    ranks = len(matching.ranks)
    waited = np.zeros((ranks, ranks), np.int64)  # [who waits, for whom]
    for group in matching.groups:
        durations, members = matching.durations(group), np.array(group.members)
        latest = members[durations.argmin(axis=1)] if len(durations) else members[:0]
        shortest = durations.min(axis=1) if len(durations) else durations[:, 0]
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
    awaited_ns: NDArray[np.float64]  # [p] mean time that the others waited for it
    chance: float  # share if all arrived alike


def arrivals(matching: Matching) -> list[Arrivals]:
    """Of each rank in turn. Of arrivals less than ``TOGETHER_NS`` apart nobody is the last."""
    steps, ranks = len(matching.steps.places), len(matching.ranks)
    last, of = (np.zeros((ranks, steps), np.int64) for _ in range(2))
    awaited = np.zeros((ranks, steps))
    chances: list[list[float]] = [[] for _ in range(ranks)]
    for group in matching.groups:
        durations, step = matching.durations(group), group.step[group.waits]
        if not len(durations):
            continue
        shortest = durations.min(axis=1)
        waited = durations.max(axis=1) - shortest >= TOGETHER_NS
        latest = durations.argmin(axis=1)
        mean = (durations - shortest[:, None]).sum(axis=1) / (len(group.members) - 1)
        for k, place in enumerate(group.members):
            own = waited & (latest == k)
            np.add.at(last[place], step[own], 1)
            np.add.at(of[place], step[waited], 1)
            np.add.at(awaited[place], step[own], mean[own])
            chances[place].append(1 / len(group.members))
    return [Arrivals(last[r], of[r], awaited[r], max(chances[r], default=1.0)) for r in range(ranks)]
