"""Slices laid out in lanes, so that a viewer which stacks them like a call tree shows every one with its own times.

A track of a timeline holds slices that are apart or nested. GPU ops of one stream may overlap (programmatic dependent
launch) and host records may cross by a rounding error: what does not fit goes to the next lane, nothing is moved.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterator
from dataclasses import dataclass
from heapq import heappop, heappush
from typing import Final

import numpy as np

from ...model.trace import Bools, Ints

_ROWS_AT_ONCE: Final = 1 << 14
_MOST_TRIED: Final = 64
"""Lanes in which a place for a slice is looked for: slices that all cross one another must not take for ever."""


@dataclass(frozen=True, eq=False)
class Lane:
    """The edges of one lane's slices in the order in which they are drawn; their times never decrease."""

    row: Ints  # [2 × slices] row of the slice that opens or closes
    opens: Bools  # [2 × slices]


def flat_lanes(start_ns: Ints, end_ns: Ints, rows: Ints) -> list[Lane]:
    """The slices in these rows, in lanes in which no two overlap; no lane for no slices."""
    order = rows[np.lexsort((end_ns[rows], start_ns[rows]))]
    if not (start_ns[order[1:]] < end_ns[order[:-1]]).any():
        return [_one_by_one(order)] if len(order) else []
    lanes: list[array[int]] = []
    taken: list[tuple[int, int]] = []  # (when it is free again, lane)
    free: list[int] = []
    for row, start, end in _slices(start_ns, end_ns, order):
        while taken and taken[0][0] <= start:
            heappush(free, heappop(taken)[1])
        if not free:
            free.append(len(lanes))
            lanes.append(array("q"))
        lane = heappop(free)
        lanes[lane].append(row)
        heappush(taken, (end, lane))
    return [_one_by_one(np.array(lane, dtype=np.int64)) for lane in lanes]


def _slices(start_ns: Ints, end_ns: Ints, rows: Ints) -> Iterator[tuple[int, int, int]]:
    """(row, start, end) of these rows; Python's numbers, of which millions at once would take a lot of memory."""
    for begin in range(0, len(rows), _ROWS_AT_ONCE):
        block = rows[begin : begin + _ROWS_AT_ONCE]
        yield from zip(block.tolist(), start_ns[block].tolist(), end_ns[block].tolist(), strict=True)


def _one_by_one(rows: Ints) -> Lane:
    return Lane(np.repeat(rows, 2), np.arange(2 * len(rows)) % 2 == 0)


def nested_lanes(start_ns: Ints, end_ns: Ints, rows: Ints) -> list[Lane]:
    """The slices in these rows, in lanes in which any two are apart or one holds the other.

    Of slices with the same times the first row is the outer one.
    """
    if not len(rows):
        return []
    order = rows[np.lexsort((rows, -end_ns[rows], start_ns[rows]))]
    lane = _call_tree(start_ns[order], end_ns[order], order)
    if lane is not None:
        return [lane]
    lanes: list[_OpenLane] = []
    for row, start, end in _slices(start_ns, end_ns, order):
        if not any(lane.add(row, start, end) for lane in lanes[:_MOST_TRIED]):
            lanes.append(_OpenLane())
            lanes[-1].add(row, start, end)
    return [lane.finish() for lane in lanes]


def _call_tree(start_ns: Ints, end_ns: Ints, rows: Ints) -> Lane | None:
    """All slices, outermost first, as one lane; None where two of them cross."""
    rank = np.arange(len(rows), dtype=np.int32)
    is_point = end_ns <= start_ns  # opens and closes at once, when all else of its time has closed and opened
    time_ns = np.append(start_ns, np.maximum(start_ns, end_ns))
    turn = np.append(np.where(is_point, 2, 1), np.where(is_point, 2, 0)).astype(np.int8)
    place = np.append(rank, np.where(is_point, rank, -rank))
    edges = np.lexsort((place, turn, time_ns))  # a point's two edges stay in order
    del time_ns, turn, place
    opens = edges < len(rows)
    which = (edges - np.where(opens, 0, len(rows))).astype(np.int32)
    level = np.cumsum(np.where(opens, 1, -1), dtype=np.int32) + ~opens
    by_level = which[np.argsort(level, kind="stable")]  # on each level one opens, closes, the next one opens
    if not np.array_equal(by_level[::2], by_level[1::2]):
        return None
    return Lane(rows[which], opens)


class _OpenLane:
    """A lane while it fills: its edges so far, and the slices that are still open, outermost first."""

    def __init__(self) -> None:
        self.row = array("q")
        self.opens = bytearray()
        self.stack: list[tuple[int, int]] = []  # (end, row)

    def add(self, row: int, start: int, end: int) -> bool:
        """Open the slice inside the innermost open one or beside all; False if it would cross one."""
        while self.stack and self.stack[-1][0] <= start:
            self._close()
        if self.stack and self.stack[-1][0] < end:
            return False
        self.stack.append((end, row))
        self.row.append(row)
        self.opens.append(1)
        return True

    def _close(self) -> None:
        self.row.append(self.stack.pop()[1])
        self.opens.append(0)

    def finish(self) -> Lane:
        while self.stack:
            self._close()
        return Lane(np.array(self.row, dtype=np.int64), np.array(self.opens, dtype=np.bool_))
