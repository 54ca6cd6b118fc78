"""The repetition hidden in a sequence: how a decode loop shows itself where nobody annotated its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..model.trace import Ints

LEAST_REPEATS: Final = 3

MISMATCH_COST: Final = 199
"""One launch in 200 may differ from its counterpart one period later (an attention kernel that changes with the
context length). More would let the repetition of layers, which breaks at every step's end, pass for one of steps."""

NEAR_LONGEST: Final = 0.95
"""The shortest period that explains this share of the longest stretch is taken: its multiples explain as much."""

CONTEXTS: Final = (1, 4, 16, 64)
"""Lengths of the runs whose recurrences propose periods: long ones tell a step's end from a layer's."""

PROPOSALS: Final = 16
"""Most frequent distances kept for each context."""


@dataclass(frozen=True)
class Repetition:
    """A stretch of a sequence, [start, start + length), that repeats itself every `period` entries."""

    period: int
    start: int
    length: int


def find_repetition(tokens: Ints) -> Repetition | None:
    """The shortest period that repeats at least 3 times, over the longest stretch it explains; None if there is none.

    Layers repeat inside a step, but only up to its end: the step's period explains a stretch that is longer.
    """
    stretches = [_longest_stretch(tokens, period) for period in _proposed_periods(tokens)]
    found = [s for s in stretches if s.length >= LEAST_REPEATS * s.period]
    if not found:
        return None
    longest = max(stretch.length for stretch in found)
    return min((s for s in found if s.length >= NEAR_LONGEST * longest), key=lambda s: s.period)


def _longest_stretch(tokens: Ints, period: int) -> Repetition:
    """The stretch with the best balance of entries equal to their counterpart one period later, against others."""
    gains = np.where(tokens[:-period] == tokens[period:], 1, -MISMATCH_COST)
    totals = np.concatenate([[0], np.cumsum(gains)])
    balance = totals - np.minimum.accumulate(totals)
    end = int(np.argmax(balance))
    if balance[end] == 0:
        return Repetition(period, 0, 0)
    start = int(np.flatnonzero(totals[: end + 1] == totals[: end + 1].min())[-1])
    return Repetition(period, start, end - start + period)


def _proposed_periods(tokens: Ints) -> list[int]:
    """Distances at which runs of entries recur most often, ascending."""
    proposed: set[int] = set()
    runs, length = tokens.astype(np.int64), 1
    for context in CONTEXTS:
        while length < context and len(runs) > length:
            pairs = np.stack([np.unique(part, return_inverse=True)[1] for part in (runs[:-length], runs[length:])])
            runs = pairs[0] * (int(pairs[1].max()) + 1) + pairs[1]
            length *= 2
        distances = _recurrence_distances(runs)
        distances = distances[distances * LEAST_REPEATS <= len(tokens)]
        frequency = np.bincount(distances) if len(distances) else np.zeros(0, dtype=np.int64)
        common = np.argsort(-frequency, kind="stable")[:PROPOSALS]
        proposed |= {int(distance) for distance in common if frequency[distance] > 0}
    return sorted(proposed)


def _recurrence_distances(runs: Ints) -> Ints:
    """Distance from each entry to the next equal one, where there is one."""
    order = np.argsort(runs, kind="stable")
    equal = runs[order[1:]] == runs[order[:-1]]
    return np.asarray(np.diff(order)[equal])
