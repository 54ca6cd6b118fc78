"""Rectangles on lanes, and what is drawn of a lane with too many of them: how busy it is, pixel column by column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, NamedTuple

import numpy as np
from numpy.typing import NDArray

from ...analysis.model.columns import Intervals
from ...analysis.model.trace import Ints

_FARTHEST_NS: Final = 2**62  # times beyond it are cut: sums of two still fit 64 bits


class Covered:
    """Disjoint intervals by start, ready to tell in O(log n) how much of a window they cover."""

    def __init__(self, intervals: Intervals) -> None:
        self._start_ns, self._end_ns = intervals.start_ns, intervals.end_ns
        self._before_ns = np.append(0, np.cumsum(self._end_ns - self._start_ns, dtype=np.int64))

    def per_column(self, edges_ns: Ints) -> Ints:
        """[columns] ns covered between each edge and the next."""
        if not len(self._start_ns):
            return np.zeros(len(edges_ns) - 1, np.int64)
        row = np.searchsorted(self._start_ns, edges_ns, side="right") - 1
        into = np.minimum(edges_ns, self._end_ns[row]) - self._start_ns[row]
        return np.diff(np.where(row < 0, 0, self._before_ns[row] + into))


FAINTEST: Final = 0.15
"""How dark a column is that is hardly busy, of a busy one."""


@dataclass(frozen=True, eq=False)
class Rects:
    """Rectangles of one look on one lane, by start. ``row`` is a row of the table that ``kind`` names."""

    style: str  # kernel, copy, launch call, blocking call, operator, python or a gap's cause
    kind: str  # gpu_op, launch, blocking, host_op: tables of the trace; gap: of the headline device's gaps
    start_ns: Ints
    end_ns: Ints
    row: Ints

    def __len__(self) -> int:
        return len(self.row)

    def most_within(self, since_ns: int, until_ns: int) -> int:
        """How many there are in the window at the most; quick."""
        first, last = self._span(since_ns, until_ns)
        return last - first

    def within(self, since_ns: int, until_ns: int) -> Ints:
        """Places of those that have a part in the window; of those without length, that lie in it."""
        first, last = self._span(since_ns, until_ns)
        return first + np.flatnonzero(self.end_ns[first:last] >= since_ns)

    def per_column(self, edges_ns: Ints) -> Ints:
        """[columns] how many have a part between each edge and the next."""
        begun = np.searchsorted(self.start_ns, edges_ns[1:], side="left")
        return begun - np.minimum(np.searchsorted(self._ends_ns, edges_ns[:-1], side="right"), begun)

    @cached_property
    def covered(self) -> Covered:
        """Their union."""
        is_union = self._are_apart
        return Covered(
            Intervals(self.start_ns, self.end_ns) if is_union else Intervals.union(self.start_ns, self.end_ns)
        )

    def _span(self, since_ns: int, until_ns: int) -> tuple[int, int]:
        first = int(np.searchsorted(self._reach_ns, since_ns, side="left"))
        return first, max(first, int(np.searchsorted(self.start_ns, until_ns, side="left")))

    @cached_property
    def _reach_ns(self) -> Ints:
        return self.end_ns if self._are_apart else np.maximum.accumulate(self.end_ns)

    @cached_property
    def _ends_ns(self) -> Ints:
        return self.end_ns if self._are_apart else np.sort(self.end_ns)

    @cached_property
    def _are_apart(self) -> bool:
        return bool((self.start_ns[1:] >= self.end_ns[:-1]).all())


@dataclass(frozen=True, eq=False)
class Lane:
    """A row of the timeline: its layers are drawn one over the other."""

    label: str
    height: int  # pixels
    layers: tuple[Rects, ...]  # none of them empty
    are_apart: bool  # no rectangle overlaps one of another layer

    def most_within(self, since_ns: int, until_ns: int) -> int:
        """How many rectangles there are in the window at the most."""
        return sum(layer.most_within(since_ns, until_ns) for layer in self.layers)

    def covered_ns(self, edges_ns: Ints) -> Ints:
        """[columns] ns that any rectangle covers between each edge and the next."""
        if self._union is not None:
            return self._union.per_column(edges_ns)
        return _sum([layer.covered.per_column(edges_ns) for layer in self.layers])

    @cached_property
    def _union(self) -> Covered | None:
        """Of all layers; null where they are known to be apart."""
        if self.are_apart:
            return None
        starts, ends = ([getattr(layer, name) for layer in self.layers] for name in ("start_ns", "end_ns"))
        return Covered(Intervals.union(np.concatenate(starts), np.concatenate(ends)))


class Strip(NamedTuple):
    """A lane by columns."""

    share: NDArray[np.float64]  # of each column's time that any rectangle covers
    layer: Ints  # place in ``Lane.layers`` of the one that covers most of the column
    rects: Ints  # that have a part in it


def heat_strip(lane: Lane, edges_ns: Ints) -> Strip:
    """The lane between these edges, ascending."""
    length_ns = np.maximum(np.diff(edges_ns), 1)
    share = lane.covered_ns(edges_ns) / length_ns
    covered = np.stack([layer.covered.per_column(edges_ns) for layer in lane.layers])
    count = _sum([layer.per_column(edges_ns) for layer in lane.layers])
    return Strip(share, covered.argmax(axis=0), count)


def _sum(columns: Sequence[Ints]) -> Ints:
    total: Ints = np.sum(columns, axis=0)
    return total


def within_bounds(time_ns: float) -> int:
    """A time that numpy can compare with others."""
    return int(max(-_FARTHEST_NS, min(_FARTHEST_NS, time_ns)))
