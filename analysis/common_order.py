"""The longest common subsequence of two sequences: what stayed, in the same order."""

from __future__ import annotations

from typing import Final

import numpy as np

from .trace import Ints

MOST_CELLS: Final = 4_000_000
"""Cells of a table (int32) that is filled in one piece; longer sequences are halved first (Hirschberg, 1975)."""


def common_order(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Positions in `left` and in `right` of a longest common subsequence, ascending; of several the earliest in `left`.

    Time is proportional to the product of the lengths without their common head and tail.
    """
    head = _common_head(left, right)
    tail = _common_head(left[head:][::-1], right[head:][::-1])
    inner_left, inner_right = left[head : len(left) - tail], right[head : len(right) - tail]
    in_left, in_right = _halved(inner_left, inner_right)
    ends = np.arange(-tail, 0)
    first = np.arange(head)
    return (
        np.concatenate([first, in_left + head, ends + len(left)]),
        np.concatenate([first, in_right + head, ends + len(right)]),
    )


def _common_head(left: Ints, right: Ints) -> int:
    length = min(len(left), len(right))
    differs = np.flatnonzero(left[:length] != right[:length])
    return int(differs[0]) if len(differs) else length


def _halved(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    if len(left) * len(right) <= MOST_CELLS or len(left) < 2:
        return _by_table(left, right)
    middle = len(left) // 2
    before = _lengths(left[:middle], right)[-1]
    after = _lengths(left[middle:][::-1], right[::-1])[-1][::-1]
    cut = int(np.argmax(before + after))
    first = _halved(left[:middle], right[:cut])
    second = _halved(left[middle:], right[cut:])
    return np.concatenate([first[0], second[0] + middle]), np.concatenate([first[1], second[1] + cut])


def _lengths(left: Ints, right: Ints, *, keep: bool = False) -> list[np.ndarray[tuple[int], np.dtype[np.int32]]]:
    """Length of the longest common subsequence of left[:i] and right[:j]; a row per i if kept, else the last row."""
    row = np.zeros(len(right) + 1, dtype=np.int32)
    rows = [row]
    for token in left:
        reached = row.copy()
        np.maximum(reached[1:], row[:-1] + (right == token), out=reached[1:])
        row = np.maximum.accumulate(reached)
        if keep:
            rows.append(row)
        else:
            rows[0] = row
    return rows


def _by_table(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    rows = _lengths(left, right, keep=True)
    i, j = len(left), len(right)
    pairs: list[tuple[int, int]] = []
    while i and j:
        if rows[i][j] == rows[i - 1][j]:
            i -= 1
        elif rows[i][j] == rows[i][j - 1]:
            j -= 1
        else:
            i, j = i - 1, j - 1
            pairs.append((i, j))
    found = np.array(pairs[::-1], dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
