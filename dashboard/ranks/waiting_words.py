"""Two ranks beside one another: what of their difference is waiting for one another, in words."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analysis.model.units import duration
from ..rank_sets import RankSet


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
