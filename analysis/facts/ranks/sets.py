"""Which files are of ranks that ran together, by the ranks that they tell and by their names."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

_RANK: Final = re.compile(r"(?:rank|tp|dp|pp|ep)[-_]?\d+", re.IGNORECASE)


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
