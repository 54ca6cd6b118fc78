"""The clocks of ranks in words, and what of the difference between two ranks is waiting for one another."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ...analysis.model.units import duration, number
from ..rank_sets import RankSet

_NO_CLOCK: Final = (
    "No collective of these ranks matches another's, so nothing here tells how their clocks lie: each timeline is on "
    "its own clock, and only durations can be compared between ranks."
)

_ONE_HOST: Final = "Clocks: all ranks ran on one host and have its clock"


def has_one_clock(sets: Sequence[RankSet]) -> bool:
    """Whether two ranks of any of them can be drawn on one clock."""
    return any(each.on_one_host or sum(offset is not None for offset in each.offsets) > 1 for each in sets)


def clock_words(chosen: RankSet) -> str:
    """How the ranks' clocks are aligned, or that they are not."""
    known = [place for place, offset in enumerate(chosen.offsets) if offset is not None]
    if len(known) < 2:
        return _ONE_HOST + "." if chosen.on_one_host else _NO_CLOCK
    reference, others = chosen.ranks[known[0]], known[1:]
    measured = [offset for place in others if (offset := chosen.offsets[place]) is not None]
    spread = max(abs(end - offset.offset_ns) for offset in measured for end in (offset.p10_ns, offset.p90_ns))
    collectives = min(offset.collectives for offset in measured)
    if len(others) == 1:
        ahead = measured[0].offset_ns
        which = f"rank {chosen.ranks[others[0]]}'s clock is {_apart(ahead)} rank {reference}'s"
    else:
        apart = np.array([offset.offset_ns for offset in measured])
        which = f"the ranks' clocks are {duration(apart.min())} to {duration(apart.max())} ahead of rank {reference}'s"
    rest = len(chosen.bands) - len(known)
    without = f" {number(rest)} without a matching collective stay on their own." if rest else ""
    if chosen.on_one_host:
        return f"{_ONE_HOST}; by the ends of {number(collectives)} collectives {which} (within {duration(spread)})."
    return (
        f"Clocks: by the ends of {number(collectives)} collectives, which no rank can leave before all have come, "
        f"{which} (within {duration(spread)}, p10 to p90). “One clock” takes that off; with the same scale each rank's "
        f"step begins with its own first GPU op.{without}"
    )


def _apart(ns: float) -> str:
    return "the same as" if not ns else f"{duration(abs(ns))} {'ahead of' if ns > 0 else 'behind'}"


def waiting_words(sets: Sequence[RankSet], key_a: str, key_b: str) -> Iterator[str]:
    """Told of two ranks of one set of which it is known: a collective that waits looks like a slow kernel."""
    for each in sets:
        places = [each.place(key) for key in (key_a, key_b)]
        waited = [None if place is None else each.waited_ns(place) for place in places]
        if places[0] == places[1] or None in waited:
            continue
        a, b = (f"rank {each.ranks[place or 0]} {duration(ns)}" for place, ns in zip(places, waited, strict=True))
        yield (
            f"Of a median step {a} and {b} are waiting inside collectives for ranks that come later: a collective that "
            "runs longer there is no slower kernel."
        )
