"""Which step of one rank is which of another's: by their own numbers, else by order, checked on the collectives."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..trace import NONE, Ints
from .collectives import Collectives
from .kinds import waits_for_all

NUMBERED: Final = ("capture", "profiler_step")
"""Sources of steps whose numbers are the same on every rank: marks around each step, and the profiler's schedule."""

MORE_STEPS: Final = 2
"""So many steps more than their counts differ by one rank's recording may have begun sooner than another's."""

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
        return StepPairs(source, _by_number([rank.step_number for rank in ranks]))
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
        at = np.searchsorted(shared, distinct)
        inside = (at < len(shared)) & (
            shared[np.minimum(at, max(len(shared) - 1, 0))] == distinct if len(shared) else 0
        )
        places[at[inside], rank] = first[inside]
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
    """How far the ends of collectives disagree with a constant offset; None where the steps hold other ones."""
    first, end = max(0, -shift), min(a.steps, b.steps - shift)
    ends: list[Ints] = []
    for label in set(a.groups) & set(b.groups):
        own, other = _rows(a, label, first, end), _rows(b, label, first + shift, end + shift)
        if _sequence(a, own, first) != _sequence(b, other, first + shift):
            return None
        ends.append(b.end_ns[other] - a.end_ns[own])
    together = np.concatenate(ends) if ends else np.zeros(0, np.int64)
    return float(np.median(np.abs(together - np.median(together)))) if len(together) else None


def _rows(rank: Collectives, label: str, first: int, end: int) -> Ints:
    """A group's collectives in which all wait for all, in these steps."""
    waits = np.flatnonzero([waits_for_all(kind) for kind in rank.kinds])
    inside = (rank.step >= first) & (rank.step < end)
    return np.flatnonzero(inside & (rank.group == rank.groups.index(label)) & np.isin(rank.kind, waits))


def _sequence(rank: Collectives, rows: Ints, first: int) -> list[tuple[int, str]]:
    return [(s - first, rank.kinds[k]) for s, k in zip(rank.step[rows].tolist(), rank.kind[rows].tolist(), strict=True)]
