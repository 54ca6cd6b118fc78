"""Which files are of ranks that ran together, and which step of one rank is which of another's."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...model.trace import NONE, Ints
from ..collectives import Collectives

_RANK: Final = re.compile(r"(?:rank|tp|dp|pp|ep)[-_]?\d+", re.IGNORECASE)
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)  # odd, so that its powers are all different for long
_MIX_GROUPS: Final = np.uint64(0xD1B54A32D192ED03)

NUMBERED: Final = ("capture", "profiler_step")
"""Sources of steps whose numbers are the same on every rank: marks around each step, and the profiler's schedule."""

MORE_STEPS: Final = 2
"""So many steps more than their counts differ by one rank's recording may have begun sooner than another's."""

MOST_STEPS: Final = 0.5
"""Of the steps that two recordings would have in common, those that hold the same collectives at least."""

CLEARLY: Final = 4.0
"""Times by which the ends of collectives must agree better for another order than the one by position to be taken."""


def sets_of_files(names: Sequence[str], ranks: Sequence[int]) -> list[list[int]]:
    """Places of files that belong together: all, if no rank is there twice, else by their names but for the rank in
    them. Files that no name puts beside others of other ranks are in no set.
    """
    if _is_set(ranks):
        return [list(range(len(ranks)))]
    by_name: dict[str, list[int]] = {}
    for place, name in enumerate(names):
        by_name.setdefault(_RANK.sub("", name), []).append(place)
    return [places for places in by_name.values() if _is_set([ranks[place] for place in places])]


def _is_set(ranks: Sequence[int]) -> bool:
    return len(ranks) > 1 and len(set(ranks)) == len(ranks)


@dataclass(frozen=True, eq=False)
class StepPairs:
    """The p steps that ranks have in common with at least one other."""

    source: str  # 'capture', 'profiler_step', 'order' (n-th to n-th), 'collectives' (shifted until they agree)
    places: Ints  # [p, ranks] place among the kept steps of each rank, NONE where it has none


def pair_steps(ranks: Sequence[Collectives]) -> StepPairs:
    """The steps of all ranks that belong together: by their numbers, else by order, checked on the collectives."""
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
    found, count = np.unique(np.concatenate([np.unique(of_rank) for of_rank in numbers]), return_counts=True)
    shared = found[count >= min(2, len(numbers))]
    places = np.full((len(shared), len(numbers)), NONE, np.int64)
    for rank, of_rank in enumerate(numbers):
        distinct, first = np.unique(of_rank, return_index=True)
        is_shared = np.isin(distinct, shared)
        places[np.searchsorted(shared, distinct[is_shared]), rank] = first[is_shared]
    return places


def _shifts(ranks: Sequence[Collectives]) -> list[int]:
    """How many steps later than the first rank's the recording of each began; 0 where no collective tells it."""
    members: dict[str, list[int]] = {}
    for place, rank in enumerate(ranks):
        for label in rank.groups:
            members.setdefault(label, []).append(place)
    shifts: dict[int, int] = {0: 0}
    following = [0]
    for known in following:  # which grows
        for label in ranks[known].groups:
            for place in members.pop(label, ()):
                if place not in shifts:
                    shifts[place] = shifts[known] + _shift(ranks[known], ranks[place])
                    following.append(place)
    return [shifts.get(rank, 0) for rank in range(len(ranks))]


def _shift(a: Collectives, b: Collectives) -> int:
    """The s for which step p of a is step p + s of b: n-th to n-th, unless the ends of collectives say otherwise.

    Where the counts differ, recordings that begin together and those that end together are tried alike.
    """
    more = b.steps - a.steps
    usual = list(dict.fromkeys((0, more)))
    others = [s for s in range(min(0, more) - MORE_STEPS, max(0, more) + MORE_STEPS + 1) if s not in usual]
    shared = [label for label in a.groups if label in b.group_places]
    its_a, its_b = _Waiting.of(a, shared), _Waiting.of(b, shared)
    spread = {s: found for s in (*usual, *others) if (found := _spread_ns(its_a, its_b, s)) is not None}
    if not spread:
        return 0
    first = min((s for s in usual if s in spread), key=lambda s: spread[s], default=None)
    best = min(spread, key=lambda s: spread[s])
    return best if first is None or spread[best] * CLEARLY < spread[first] else first


def _spread_ns(a: _Waiting, b: _Waiting, shift: int) -> float | None:
    """How far the ends of collectives disagree with a constant offset; None where most steps hold other ones."""
    first, end = max(0, -shift), min(len(a.signature), len(b.signature) - shift)
    if first >= end:
        return None
    alike = a.signature[first:end] == b.signature[first + shift : end + shift]
    if alike.mean() < MOST_STEPS:
        return None
    steps = np.flatnonzero(alike) + first
    apart = b.ends_of(steps + shift) - a.ends_of(steps)
    return float(np.median(np.abs(apart - np.median(apart)))) if len(apart) else None


@dataclass(frozen=True, eq=False)
class _Waiting:
    """One rank's collectives in which all wait for all, of the groups that it shares with another rank."""

    step: Ints  # [m] by step, then group, then place in it
    end_ns: Ints  # [m]
    signature: Ints  # [s] of the groups and kinds of a step's, in order: other ones have the same by chance in 2**64

    @classmethod
    def of(cls, rank: Collectives, shared: Sequence[str]) -> _Waiting:
        number = np.full(len(rank.groups), NONE, np.int64)
        number[[rank.group_places[label] for label in shared]] = np.arange(len(shared))
        rows = np.flatnonzero((number[rank.group] != NONE) & rank.all_wait)
        rows = rows[np.lexsort((rank.ordinal[rows], number[rank.group[rows]], rank.step[rows]))]
        columns = (rank.kind_number[rows], rank.ordinal[rows], number[rank.group[rows]])
        kind, ordinal, group = (column.astype(np.uint64) + np.uint64(1) for column in columns)
        mixed = kind * _MIX**ordinal * _MIX_GROUPS**group
        signature = np.zeros(rank.steps, np.uint64)
        np.add.at(signature, rank.step[rows], mixed)
        return cls(rank.step[rows], rank.end_ns[rows], signature.view(np.int64))

    def ends_of(self, steps: Ints) -> Ints:
        """Of the collectives in these steps."""
        inside = np.zeros(len(self.signature), np.bool_)
        inside[steps] = True
        return self.end_ns[inside[self.step]]
