"""Which step of one rank is which of another's: by their own numbers, else by order, checked on the collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..trace import NONE, Bools, Ints
from .collectives import Collectives
from .kinds import number_of_kind, waits_for_all

_MIX: Final = np.uint64(0x9E3779B97F4A7C15)  # odd, so that its powers are all different for long

NUMBERED: Final = ("capture", "profiler_step")
"""Sources of steps whose numbers are the same on every rank: marks around each step, and the profiler's schedule."""

MORE_STEPS: Final = 2
"""So many steps more than their counts differ by one rank's recording may have begun sooner than another's."""

MOST_STEPS: Final = 0.5
"""Of the steps that two recordings would have in common, those that hold the same collectives at least."""

CLEARLY: Final = 4.0
"""Times by which the ends of collectives must agree better for another order than the one by position to be taken."""


@dataclass(frozen=True, eq=False)
class StepPairs:
    """The p steps that ranks have in common with at least one other."""

    source: str  # 'capture', 'profiler_step', 'order' (n-th to n-th), 'collectives' (shifted until they agree)
    places: Ints  # [p, ranks] place among the kept steps of each rank, NONE where it has none


def pair_steps(ranks: Sequence[Collectives]) -> StepPairs:
    """The steps of all ranks that belong together."""
    sources = {rank.step_source for rank in ranks}
    if len(sources) == 1 and (source := sources.pop()) in NUMBERED:
        by_number = _by_number([rank.step_number for rank in ranks])
        if len(by_number):
            return StepPairs(source, by_number)
    shifts = _shifts(ranks)
    numbers = [np.arange(rank.steps) - shift for rank, shift in zip(ranks, shifts, strict=True)]
    same = not any(shifts) and len({rank.steps for rank in ranks}) == 1
    return StepPairs("order" if same else "collectives", _by_number(numbers))


def _by_number(numbers: Sequence[Ints]) -> Ints:
    """[p, ranks] places of each number that two ranks have at least."""
    found, count = np.unique(np.concatenate([np.unique(own) for own in numbers]), return_counts=True)
    shared = found[count >= min(2, len(numbers))]
    places = np.full((len(shared), len(numbers)), NONE, np.int64)
    for rank, own in enumerate(numbers):
        distinct, first = np.unique(own, return_index=True)
        is_shared = np.isin(distinct, shared)
        places[np.searchsorted(shared, distinct[is_shared]), rank] = first[is_shared]
    return places


def _shifts(ranks: Sequence[Collectives]) -> list[int]:
    """How many steps later than the first rank's the recording of each began; 0 where no collective tells it."""
    shifts: dict[int, int] = {0: 0}
    waiting = list(range(1, len(ranks)))
    while waiting:
        pair = next(((k, w) for w in waiting for k in shifts if set(ranks[k].groups) & set(ranks[w].groups)), None)
        if pair is None:
            shifts |= dict.fromkeys(waiting, 0)
            break
        known, own = pair
        shifts[own] = shifts[known] + _shift(ranks[known], ranks[own])
        waiting.remove(own)
    return [shifts[rank] for rank in range(len(ranks))]


def _shift(a: Collectives, b: Collectives) -> int:
    """The s for which step p of a is step p + s of b: n-th to n-th, unless the ends of collectives say otherwise.

    Where the counts differ, recordings that begin together and those that end together are tried alike.
    """
    more = b.steps - a.steps
    usual = list(dict.fromkeys((0, more)))
    others = [s for s in range(min(0, more) - MORE_STEPS, max(0, more) + MORE_STEPS + 1) if s not in usual]
    spread = {s: found for s in (*usual, *others) if (found := _spread_ns(a, b, s)) is not None}
    if not spread:
        return 0
    first = min((s for s in usual if s in spread), key=lambda s: spread[s], default=None)
    best = min(spread, key=lambda s: spread[s])
    return best if first is None or spread[best] * CLEARLY < spread[first] else first


def _spread_ns(a: Collectives, b: Collectives, shift: int) -> float | None:
    """How far the ends of collectives disagree with a constant offset; None where most steps hold other ones."""
    first, end = max(0, -shift), min(a.steps, b.steps - shift)
    if first >= end:
        return None
    alike = np.ones(end - first, np.bool_)
    shared = sorted(set(a.groups) & set(b.groups))
    for label in shared:
        alike &= _signatures(a, label)[first:end] == _signatures(b, label)[first + shift : end + shift]
    if alike.mean() < MOST_STEPS:
        return None
    steps = np.flatnonzero(alike) + first
    ends = [b.end_ns[_rows(b, label, steps + shift)] - a.end_ns[_rows(a, label, steps)] for label in shared]
    together = np.concatenate([np.zeros(0, np.int64), *ends])
    return float(np.median(np.abs(together - np.median(together)))) if len(together) else None


def _rows(rank: Collectives, label: str, steps: Ints) -> Ints:
    """A group's collectives in which all wait for all, in these steps, in order."""
    inside = np.zeros(rank.steps, np.bool_)
    inside[steps] = True
    return np.flatnonzero(_waiting_ones(rank, label) & inside[rank.step])


def _waiting_ones(rank: Collectives, label: str) -> Bools:
    waits = np.array([waits_for_all(kind) for kind in rank.kinds], np.bool_)
    return np.equal(rank.group, rank.groups.index(label)) & waits[rank.kind]


def _signatures(rank: Collectives, label: str) -> Ints:
    """[s] A number of the kinds of a step's collectives, in order: two steps that hold others have another, by chance
    in 2**64.
    """
    rows = np.flatnonzero(_waiting_ones(rank, label))
    mixed = np.array([number_of_kind(kind) for kind in rank.kinds], np.uint64)[rank.kind[rows]]
    mixed = (mixed + np.uint64(1)) * _MIX ** (rank.ordinal[rows].astype(np.uint64) + np.uint64(1))
    signatures = np.zeros(rank.steps, np.uint64)
    np.add.at(signatures, rank.step[rows], mixed)
    return signatures.view(np.int64)
