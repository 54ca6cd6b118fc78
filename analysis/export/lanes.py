"""Slices laid out in lanes, so that a viewer which stacks them like a call tree shows every one with its own times.

A track of a timeline holds slices that are apart or nested. GPU ops of one stream may overlap (programmatic dependent
launch) and host records may cross by a rounding error: what does not fit goes to the next lane, nothing is moved.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from ..trace import Bools, Ints


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
    lanes: list[list[int]] = []
    free_ns: list[int] = []
    for row, start, end in zip(order.tolist(), start_ns[order].tolist(), end_ns[order].tolist(), strict=True):
        lane = next((i for i, free in enumerate(free_ns) if free <= start), len(lanes))
        if lane == len(lanes):
            lanes.append([])
            free_ns.append(end)
        lanes[lane].append(row)
        free_ns[lane] = end
    return [_one_by_one(np.array(lane, dtype=np.int64)) for lane in lanes]


def _one_by_one(rows: Ints) -> Lane:
    return Lane(np.repeat(rows, 2), np.arange(2 * len(rows)) % 2 == 0)


def nested_lanes(start_ns: Ints, end_ns: Ints, rows: Ints) -> list[Lane]:
    """The slices in these rows, in lanes in which any two are apart or one holds the other.

    Of slices with the same times the first row is the outer one.
    """
    order = rows[np.lexsort((rows, -end_ns[rows], start_ns[rows]))]
    lanes: list[_OpenLane] = []
    for row, start, end in zip(order.tolist(), start_ns[order].tolist(), end_ns[order].tolist(), strict=True):
        if not any(lane.add(row, start, end) for lane in lanes):
            lanes.append(_OpenLane())
            lanes[-1].add(row, start, end)
    return [lane.finish() for lane in lanes]


class _OpenLane:
    """A lane while it fills: its edges so far, and the slices that are still open, outermost first."""

    def __init__(self) -> None:
        self.row: list[int] = []
        self.opens: list[bool] = []
        self.stack: list[tuple[int, int]] = []  # (end, row)

    def add(self, row: int, start: int, end: int) -> bool:
        """Open the slice inside the innermost open one or beside all; False if it would cross one."""
        while self.stack and self.stack[-1][0] <= start:
            self._close()
        if self.stack and self.stack[-1][0] < end:
            return False
        self.stack.append((end, row))
        self.row.append(row)
        self.opens.append(True)
        return True

    def _close(self) -> None:
        self.row.append(self.stack.pop()[1])
        self.opens.append(False)

    def finish(self) -> Lane:
        while self.stack:
            self._close()
        return Lane(np.array(self.row, dtype=np.int64), np.array(self.opens, dtype=np.bool_))
