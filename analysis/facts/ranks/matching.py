"""The same collectives on several ranks: of one process group and step, at the same place in it, of one kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

import numpy as np

from ...model.trace import NONE, Bools, Ints
from ..collectives import Collectives
from .pairing import StepPairs, pair_steps

ENDS_AGREE_NS: Final = 20_000
"""Collectives of ranks whose group no file tells are the same where their ends agree within this, a constant offset
apart. Two H200s of one host: 0.3 µs; clocks of two hosts drift by some µs a second."""

ENDS_AGREE: Final = 0.01
"""Or within this share of how long the collectives last: 40 µs are nothing beside all-reduces of 70 ms."""

MOST_REASONS: Final = 16
"""Why collectives have no counterpart, or waiting is not all told: so many are told in full."""


@dataclass(frozen=True, eq=False)
class MatchedGroup:
    """The m collectives of one process group that all of its given ranks have, in order."""

    label: str  # '' where no file tells the group
    members: tuple[int, ...]  # places in the list of ranks
    size: int | None  # ranks of the group, given or not; null where not told
    step: Ints  # [m] place in StepPairs
    rows: Ints  # [m, members] row of each rank's Collectives
    waits: Bools  # [m] transfer and waiting can be told apart

    @property
    def whole(self) -> bool:
        """No rank of the group is known to be missing: waiting is then all of it, else at least so much."""
        return self.size is None or len(self.members) >= self.size


@dataclass(frozen=True, eq=False)
class Matching:
    """What of several ranks' collectives is the same."""

    ranks: tuple[Collectives, ...]
    names: tuple[int, ...]  # each rank's number; its place where the file has none
    steps: StepPairs
    groups: tuple[MatchedGroup, ...]
    refused: tuple[str, ...]  # why collectives have no counterpart

    def durations(self, group: MatchedGroup) -> Ints:
        """[m, members] Of the collectives of which transfer and waiting can be told apart."""
        return matched_durations(group, self.ranks)

    def ends(self, group: MatchedGroup) -> Ints:
        """[m, members] Of the same, each on its rank's own clock."""
        return columns(group, [rank.end_ns for rank in self.ranks])[group.waits]


def match(ranks: Sequence[Collectives]) -> Matching:
    """Collectives of the same group, step and place in it. A step is left out where the ranks' sequences differ."""
    steps = pair_steps(ranks)
    found: list[MatchedGroup] = []
    refused: list[str] = []
    names = tuple(place if rank.rank is None else rank.rank for place, rank in enumerate(ranks))
    for label in dict.fromkeys(label for rank in ranks for label in rank.groups):
        members = [place for place, rank in enumerate(ranks) if label in rank.group_places]
        sizes = [ranks[place].group_sizes[ranks[place].group_places[label]] for place in members]
        size = next(filter(None, sizes), None)
        if len(members) < 2:
            refused.append(f"only rank {names[members[0]]} of {_named(label)} was given")
            continue
        for part in _parted(ranks, steps, label, members):
            if len(part) < 2:
                refused.append(f"rank {names[part[0]]} ends its collectives apart from the others: another group's")
                continue
            matched, reasons = _match_group(ranks, names, steps, label, part, size)
            refused += reasons
            if len(matched.step):
                found.append(matched)
    return Matching(tuple(ranks), names, steps, tuple(found), tuple(first_ones(refused)))


def first_ones(reasons: Sequence[str]) -> list[str]:
    """The first of them, and how many more there are: there may be thousands of groups."""
    more = len(reasons) - MOST_REASONS
    return list(reasons) if more <= 0 else [*reasons[:MOST_REASONS], f"and {more:,} more of the kind"]


def _named(label: str) -> str:
    return f"process group {label}" if label else "a process group that the file does not name"


def _parted(ranks: Sequence[Collectives], steps: StepPairs, label: str, members: list[int]) -> list[list[int]]:
    """Members as they belong together. A group that no file names may be several: they end their collectives apart."""
    if label:
        return [members]
    parts: list[list[int]] = []
    for place in members:
        part = next((part for part in parts if _ends_agree(ranks, steps, part[0], place)), None)
        if part is None:
            parts.append([place])
        else:
            part.append(place)
    return parts


def _ends_agree(ranks: Sequence[Collectives], steps: StepPairs, a: int, b: int) -> bool:
    matched, _ = _match_group(ranks, list(range(len(ranks))), steps, "", [a, b], None)
    ends = columns(matched, [rank.end_ns for rank in ranks])[matched.waits]
    apart = ends[:, 1] - ends[:, 0] if len(ends) else np.zeros(0, np.int64)
    if not len(apart):
        return False
    longest_ns = float(np.median(matched_durations(matched, ranks).max(axis=1)))
    return float(np.median(np.abs(apart - np.median(apart)))) <= max(ENDS_AGREE_NS, ENDS_AGREE * longest_ns)


def _match_group(
    ranks: Sequence[Collectives],
    names: Sequence[int],
    steps: StepPairs,
    label: str,
    members: Sequence[int],
    size: int | None,
) -> tuple[MatchedGroup, list[str]]:
    """One group's collectives in the steps that all members have, and why not in others."""
    of_members = [_GroupRows.of(ranks[place], label, steps.places[:, place]) for place in members]
    present = np.logical_and.reduce([rows.present for rows in of_members])
    counts = np.stack([rows.counts for rows in of_members])
    even = present & (counts == counts[0]).all(axis=0)
    layout = [rows.of_steps(even) for rows in of_members]
    kinds = np.stack([ranks[place].kind_number[rows] for place, (rows, _) in zip(members, layout, strict=True)])
    rows, step = layout[0]
    differing = np.unique(step[(kinds != kinds[0]).any(axis=0)])
    kept = ~np.isin(step, differing)
    matched = MatchedGroup(
        label=label,
        members=tuple(members),
        size=size,
        step=step[kept],
        rows=np.stack([rows[kept] for rows, _ in layout], axis=1),
        waits=ranks[members[0]].all_wait[rows[kept]],
    )
    numbers = [names[place] for place in members]
    reasons = [*_lacking(numbers, [rows.present for rows in of_members]), *_uneven(numbers, counts, present & ~even)]
    if len(differing):
        reasons.append(f"{len(differing)} steps in which ranks run other collectives, or in another order")
    return matched, [f"{_named(label)}: {reason}" for reason in reasons]


def _lacking(names: Sequence[int], present: Sequence[Bools]) -> Iterator[str]:
    for name, has in zip(names, present, strict=True):
        if not has.all():
            yield f"{int((~has).sum())} of {len(has)} steps are not in the trace of rank {name}"


def _uneven(names: Sequence[int], counts: Ints, steps: Bools) -> Iterator[str]:
    if steps.any():
        first = zip(names, counts[:, np.argmax(steps)].tolist(), strict=True)
        shown = ", ".join(f"rank {name} {count}" for name, count in islice(first, 4))
        yield f"{int(steps.sum())} steps in which ranks differ in their number of collectives ({shown})"


@dataclass(frozen=True, eq=False)
class _GroupRows:
    """One rank's collectives of one group, by paired step."""

    rows: Ints
    step: Ints  # of each row, place in StepPairs
    counts: Ints  # [p]
    present: Bools  # [p] the rank has the step

    @classmethod
    def of(cls, rank: Collectives, label: str, places: Ints) -> _GroupRows:
        pair_of = np.full(rank.steps, NONE, np.int64)
        present = places != NONE
        pair_of[places[present]] = np.flatnonzero(present)
        rows = rank.rows_by_group[rank.group_places[label]]
        rows = rows[pair_of[rank.step[rows]] != NONE]
        step = pair_of[rank.step[rows]]
        return cls(rows, step, np.bincount(step, minlength=len(places)), present)

    def of_steps(self, steps: Bools) -> tuple[Ints, Ints]:
        """The rows of these steps, and their steps, in order."""
        rows = np.flatnonzero(steps[self.step])
        rows = rows[np.argsort(self.step[rows], kind="stable")]
        return self.rows[rows], self.step[rows]


def matched_durations(group: MatchedGroup, ranks: Sequence[Collectives]) -> Ints:
    """[m, members] Of the collectives of which transfer and waiting can be told apart."""
    return columns(group, [rank.dur_ns for rank in ranks])[group.waits]


def columns(group: MatchedGroup, values: Sequence[Ints]) -> Ints:
    """[m, members] a figure of each rank's collectives."""
    return np.stack([values[place][group.rows[:, k]] for k, place in enumerate(group.members)], axis=1)
