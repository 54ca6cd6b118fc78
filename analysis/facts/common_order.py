"""The longest common subsequence of two sequences: what stayed, in the same order."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from typing import Final

import numpy as np

from ..model.trace import Ints

MOST_CELLS: Final = 250_000_000
"""Cells of a table (a bit each) that is filled in one piece; longer sequences are halved first (Hirschberg, 1975)."""

FEW: Final = 8  # places of a token that are quicker set one by one

MOST_WORK: Final = 10_000_000_000
"""Cells above which a common subsequence is looked for in windows, and may not be the longest: some seconds' work."""


def common_order(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """Positions in `left` and in `right` of a longest common subsequence, ascending; of several the earliest in `left`.

    Time is proportional to the product of the lengths without their common head and tail; where that is more than
    MOST_WORK, to their sum, and the subsequence is the longest only of those near the diagonal.
    """
    head = _common_head(left, right)
    tail = _common_head(left[head:][::-1], right[head:][::-1])
    inner_left, inner_right = left[head : len(left) - tail], right[head : len(right) - tail]
    is_much = len(inner_left) * len(inner_right) > MOST_WORK
    in_left, in_right = (_in_windows if is_much else _halved)(inner_left, inner_right)
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


def _in_windows(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """A piece of the left after another, each against the right around the diagonal.

    A piece is matched together with the one behind it, and only its own pairs count: its end would else take what
    the next one needs.
    """
    pieces = -(-6 * len(left) * len(right) // MOST_WORK)
    size = -(-len(left) // pieces)
    across = -(-len(right) * size // len(left))
    pairs_left, pairs_right = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    taken = 0
    for start in range(0, len(left), size):
        at = start * len(right) // len(left)
        since, until = max(taken, at - across), at + 3 * across
        in_left, in_right = _halved(left[start : start + 2 * size], right[since:until])
        in_piece = in_left < size
        pairs_left.append(in_left[in_piece] + start)
        pairs_right.append(in_right[in_piece] + since)
        if in_piece.any():
            taken = int(pairs_right[-1][-1]) + 1
    return np.concatenate(pairs_left), np.concatenate(pairs_right)


def _halved(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    if len(left) * len(right) <= MOST_CELLS or len(left) < 2:
        return _by_table(left, right)
    middle = len(left) // 2
    before = _lengths(left[:middle], right)
    after = _lengths(left[middle:][::-1], right[::-1])[::-1]
    cut = int(np.argmax(before + after))
    first = _halved(left[:middle], right[:cut])
    second = _halved(left[middle:], right[cut:])
    return np.concatenate([first[0], second[0] + middle]), np.concatenate([first[1], second[1] + cut])


def _lengths(left: Ints, right: Ints) -> Ints:
    """Length of the longest common subsequence of left and right[:j], for every j."""
    last = deque(_rows(left, right), maxlen=1).pop()
    data = np.frombuffer(last.to_bytes(-(-len(right) // 8), "little"), np.uint8)
    steps = 1 - np.unpackbits(data, bitorder="little", count=len(right)).astype(np.int64)
    return np.append(0, np.cumsum(steps))


def _rows(left: Ints, right: Ints) -> Iterator[int]:
    """Row i of the table of lengths, len(left) + 1 of them: bit j is 0 where it grows from right[:j] to right[:j + 1].

    A whole row is worked out by an addition (Hyyrö, "Bit-parallel LCS-length computation revisited", 2004).
    """
    row = full = (1 << len(right)) - 1
    where: dict[int, int] = {}  # the places of each token in the right, as bits
    places = np.argsort(right, kind="stable")
    tokens = right[places]
    yield row
    most_kept = 1 + MOST_CELLS // (len(right) + 1)
    for token in left.tolist():
        if token not in where:
            if len(where) > most_kept:
                where.clear()
            since, until = np.searchsorted(tokens, (token, token + 1))
            where[token] = _bits(places[since:until], len(right))
        grows = row & where[token]
        row = ((row + grows) | (row - grows)) & full
        yield row


def _bits(places: Ints, length: int) -> int:
    if len(places) <= FEW:
        return sum(1 << place for place in places.tolist())
    bits = np.zeros(length, np.uint8)
    bits[places] = 1
    return int.from_bytes(np.packbits(bits, bitorder="little").tobytes(), "little")


def _by_table(left: Ints, right: Ints) -> tuple[Ints, Ints]:
    rows = list(_rows(left, right))
    i, j = len(left), len(right)
    pairs: list[tuple[int, int]] = []
    while i and j:
        below = (1 << j) - 1
        if (rows[i] & below).bit_count() == (rows[i - 1] & below).bit_count():
            i -= 1
        else:
            i, j = i - 1, (~rows[i] & below).bit_length() - 1
            pairs.append((i, j))
    found = np.array(pairs[::-1], dtype=np.int64).reshape(-1, 2)
    return found[:, 0], found[:, 1]
