"""Which kernel of one mode is which of another: by order, name and operator.

A graph's replay has no operators and a compiled step has other kernels; the eager step says where each came from.
Everything that an alignment says about the other trace is inferred from the reference, not recorded in its file.
"""

from __future__ import annotations

from collections import Counter, defaultdict, deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Self

import numpy as np

from ..model.columns import follow, named
from ..model.names import same_op
from ..model.trace import NONE, Bools, Ints, OpKind, Trace
from .context import Context
from .launches import launching_operators


@dataclass(frozen=True, eq=False)
class Alignment:
    """GPU ops of one step of the reference against those of one step of another trace, in launch order.

    All columns are empty when either trace has no kept step.
    """

    reference_ops: Ints  # the reference's step: rows of its gpu_ops
    other_ops: Ints  # the other's step: rows of its gpu_ops
    reference_position: Ints  # [m] matched pairs: positions in reference_ops, ascending
    other_position: Ints  # [m] positions in other_ops, ascending
    by_name: Bools  # [m] the same name; else another op of the same operator between the same neighbours
    operators: Mapping[str, str]  # name of a GPU op of the other -> operator of most of its counterparts

    def __len__(self) -> int:
        return len(self.reference_position)

    @property
    def went(self) -> Ints:
        """Rows of the reference's ops that have no counterpart: fused into others, or not needed any more."""
        return np.delete(self.reference_ops, self.reference_position)

    @property
    def came(self) -> Ints:
        """Rows of the other's ops that have no counterpart in the reference."""
        return np.delete(self.other_ops, self.other_position)

    def replacements(self) -> Iterator[tuple[Ints, Ints]]:
        """Runs of ops that went and the run that came in their place (either may be empty), in launch order."""
        for reference, other in _between(
            self.reference_position, self.other_position, len(self.reference_ops), len(self.other_ops)
        ):
            if len(reference) or len(other):
                yield self.reference_ops[reference], self.other_ops[other]


def align(reference: Context, other: Context) -> Alignment:
    """Match a typical kept step of each: first by name in order, then what lies between by operator in order."""
    reference_ops, other_ops = step_ops(reference), step_ops(other)
    operators = _operators(reference.trace, reference_ops)
    names = _numbered(match_names(reference.trace, reference_ops), match_names(other.trace, other_ops))
    left, right = common_order(*names)
    more_left, more_right = _matched_between(*_numbered(operators, _operators(other.trace, other_ops)), left, right)
    left, right = np.concatenate([left, more_left]), np.concatenate([right, more_right])
    order = np.argsort(left, kind="stable")
    return Alignment(
        reference_ops=reference_ops,
        other_ops=other_ops,
        reference_position=left[order],
        other_position=right[order],
        by_name=(np.arange(len(left)) < len(left) - len(more_left))[order],
        operators=_most_common(other.trace, other_ops[right], [operators[position] for position in left.tolist()]),
    )


def step_ops(context: Context) -> Ints:
    """GPU ops, in launch order, of the first kept step with as many of them as most have; on its busiest device."""
    ops, steps = context.trace.gpu_ops, context.steps
    if not context.has_steps:
        return np.zeros(0, dtype=np.int64)
    counts = steps.count_kept(steps.op_step)
    usual = int(np.argmax(np.bincount(counts)))
    rows = np.flatnonzero(steps.op_step == steps.kept_rows[np.argmax(counts == usual)])
    if not len(rows):
        return rows
    devices, place = np.unique(ops.device[rows], return_inverse=True)
    busiest = devices[np.argmax(np.bincount(place, weights=ops.dur_ns[rows]))]
    on_busiest: Bools = ops.device[rows] == busiest
    return in_launch_order(context.trace, rows[on_busiest])


def in_launch_order(trace: Trace, rows: Ints) -> Ints:
    """These GPU ops by the start of their launch, of their own where the file has none."""
    order: Ints = np.lexsort(_launch_order(trace, rows))
    return rows[order]


def _launch_order(trace: Trace, rows: Ints) -> tuple[Ints, Ints]:
    """Keys by which a step's ops are in launch order, the last one first, as ``numpy.lexsort`` takes them."""
    ops = trace.gpu_ops
    launch_row, start_ns = ops.launch_row[rows], ops.start_ns[rows]
    return start_ns, np.where(launch_row == NONE, start_ns, follow(trace.launches.start_ns, launch_row))


@dataclass(frozen=True, eq=False)
class AlikeSteps:
    """s kept steps with the same n GPU ops; the typical step is one of them. Without a kept step both are 0."""

    ops: Ints  # [n] rows of gpu_ops of the typical step, in launch order
    rows: Ints  # [s, n] the same ops in every alike step: the k-th of its name there
    step: Ints  # [s] indices of the alike steps, ascending

    @classmethod
    def of(cls, context: Context) -> Self:
        """By name and occurrence: branches of a graph may start in another order from replay to replay."""
        trace, steps, typical = context.trace, context.steps, step_ops(context)
        if not len(typical):
            return cls(typical, typical.reshape(0, 0), typical)
        ops = trace.gpu_ops
        rows = np.flatnonzero((ops.device == ops.device[typical[0]]) & context.in_scope(steps.op_step))
        rows = rows[np.lexsort((*_launch_order(trace, rows), ops.name[rows], steps.op_step[rows]))]
        step, first, count = np.unique(steps.op_step[rows], return_index=True, return_counts=True)
        same_size = count == len(typical)
        table = rows[first[same_size, None] + np.arange(len(typical))]
        by_name = np.argsort(ops.name[typical], kind="stable")
        alike = (ops.name[table] == ops.name[typical[by_name]]).all(axis=1)
        in_order = np.empty_like(table[alike])
        in_order[:, by_name] = table[alike]
        return cls(typical, in_order, step[same_size][alike])

    def places(self, rows: Ints) -> Ints:
        """Places [0, n) of these rows of the typical step."""
        order, ascending = self._by_row
        return order[np.searchsorted(ascending, rows)]

    @cached_property
    def _by_row(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.ops)
        return order, self.ops[order]

    def place_of(self, row: int) -> tuple[int, int] | None:
        """Which alike step holds this GPU op, and at which place; None when none does."""
        found = np.argwhere(self.rows == row)
        return (int(found[0, 0]), int(found[0, 1])) if len(found) else None


def match_names(trace: Trace, rows: Ints) -> list[str]:
    """What these GPU ops are matched by."""
    ops = trace.gpu_ops
    return [
        same_op(trace.name(name), OpKind(kind).word)
        for name, kind in zip(ops.name[rows].tolist(), ops.kind[rows].tolist(), strict=True)
    ]


def _operators(trace: Trace, rows: Ints) -> list[str | None]:
    """Innermost operator that launched each op; null where none is recorded."""
    return named(trace.names, launching_operators(trace, trace.gpu_ops.launch_row[rows]))


def _numbered(left: Sequence[str | None], right: Sequence[str | None]) -> tuple[Ints, Ints]:
    """Equal numbers for equal texts; an unknown text is -1 on the left and -2 on the right: equal to nothing there."""
    numbers: dict[str, int] = {}

    def column(texts: Sequence[str | None], unknown: int) -> Ints:
        found = [unknown if text is None else numbers.setdefault(text, len(numbers)) for text in texts]
        return np.array(found, dtype=np.int64)

    return column(left, -1), column(right, -2)


def _between(left: Ints, right: Ints, left_length: int, right_length: int) -> Iterator[tuple[Ints, Ints]]:
    """Positions between each pair of neighbouring matches, and before the first and after the last."""
    at_left = at_right = 0
    for to_left, to_right in zip([*left.tolist(), left_length], [*right.tolist(), right_length], strict=True):
        yield np.arange(at_left, to_left), np.arange(at_right, to_right)
        at_left, at_right = to_left + 1, to_right + 1


def _matched_between(left_tokens: Ints, right_tokens: Ints, left: Ints, right: Ints) -> tuple[Ints, Ints]:
    """More pairs: equal tokens in order, within the runs that the known pairs leave."""
    more_left, more_right = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    for in_left, in_right in _between(left, right, len(left_tokens), len(right_tokens)):
        if len(in_left) and len(in_right):
            found = common_order(left_tokens[in_left], right_tokens[in_right])
            more_left.append(in_left[found[0]])
            more_right.append(in_right[found[1]])
    return np.concatenate(more_left), np.concatenate(more_right)


def _most_common(trace: Trace, rows: Ints, operators: Sequence[str | None]) -> dict[str, str]:
    """The most common known operator for each op name."""
    counts: dict[str, Counter[str]] = defaultdict(Counter)
    for name, operator in zip(trace.gpu_ops.name[rows].tolist(), operators, strict=True):
        if operator is not None:
            counts[trace.name(name)][operator] += 1
    return {name: counter.most_common(1)[0][0] for name, counter in counts.items()}


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
