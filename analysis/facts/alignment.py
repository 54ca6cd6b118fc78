"""Which kernel of one mode is which of another: by order, name and operator.

A graph's replay has no operators and a compiled step has other kernels; the eager step says where each came from.
Everything that an alignment says about the other trace is inferred from the reference, not recorded in its file.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from ..model.columns import follow, named
from ..model.names import same_op
from ..model.trace import NONE, Bools, Ints, OpKind, Trace
from .common_order import common_order
from .launches import launching_operators
from .replays import GraphReplays
from .steps import Steps


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

    @property
    def is_exact(self) -> bool:
        """Both steps run the same ops in the same order."""
        return bool(0 < len(self) == len(self.reference_ops) == len(self.other_ops) and self.by_name.all())

    def replacements(self) -> Iterator[tuple[Ints, Ints]]:
        """Runs of ops that went and the run that came in their place (either may be empty), in launch order."""
        for reference, other in _between(
            self.reference_position, self.other_position, len(self.reference_ops), len(self.other_ops)
        ):
            if len(reference) or len(other):
                yield self.reference_ops[reference], self.other_ops[other]

    def reference_of_node(self, replays: GraphReplays) -> dict[tuple[int, int], int]:
        """(graph, ordinal) of each matched node of the other's graphs -> row of the reference's GPU op: inferred."""
        nodes: dict[tuple[int, int], int] = {}
        matched = zip(
            self.reference_ops[self.reference_position].tolist(),
            self.other_ops[self.other_position].tolist(),
            strict=True,
        )
        for reference, other in matched:
            replay = int(replays.op_replay[other])
            if replay != NONE:
                nodes.setdefault((int(replays.graph[replay]), int(replays.ordinal[other])), reference)
        return nodes


def align(reference: Trace, reference_steps: Steps, other: Trace, other_steps: Steps) -> Alignment:
    """Match a typical kept step of each: first by name in order, then what lies between by operator in order."""
    reference_ops, other_ops = step_ops(reference, reference_steps), step_ops(other, other_steps)
    operators = _operators(reference, reference_ops)
    names = _numbered(match_names(reference, reference_ops), match_names(other, other_ops))
    left, right = common_order(*names)
    more_left, more_right = _matched_between(*_numbered(operators, _operators(other, other_ops)), left, right)
    left, right = np.concatenate([left, more_left]), np.concatenate([right, more_right])
    order = np.argsort(left, kind="stable")
    return Alignment(
        reference_ops=reference_ops,
        other_ops=other_ops,
        reference_position=left[order],
        other_position=right[order],
        by_name=(np.arange(len(left)) < len(left) - len(more_left))[order],
        operators=_most_common(other, other_ops[right], [operators[position] for position in left.tolist()]),
    )


def step_ops(trace: Trace, steps: Steps) -> Ints:
    """GPU ops, in launch order, of the first kept step with as many of them as most have; on its busiest device."""
    ops = trace.gpu_ops
    kept = steps.kept_rows
    if not len(kept):
        return np.zeros(0, dtype=np.int64)
    counts = steps.count_kept(steps.op_step)
    usual = int(np.argmax(np.bincount(counts)))
    rows = np.flatnonzero(steps.op_step == kept[np.flatnonzero(counts == usual)[0]])
    if not len(rows):
        return rows
    devices, place = np.unique(ops.device[rows], return_inverse=True)
    busiest = devices[np.argmax(np.bincount(place, weights=ops.dur_ns[rows]))]
    on_busiest: Bools = ops.device[rows] == busiest
    return in_launch_order(trace, rows[on_busiest])


def in_launch_order(trace: Trace, rows: Ints) -> Ints:
    """These GPU ops by the start of their launch, of their own where the file has none."""
    launch_row, start_ns = trace.gpu_ops.launch_row[rows], trace.gpu_ops.start_ns[rows]
    launched = np.where(launch_row == NONE, start_ns, follow(trace.launches.start_ns, launch_row))
    order: Ints = np.lexsort((start_ns, launched))
    return rows[order]


def match_names(trace: Trace, rows: Ints) -> list[str]:
    """What these GPU ops are matched by."""
    ops = trace.gpu_ops
    return [
        same_op(trace.name(name), OpKind(kind).word)
        for name, kind in zip(ops.name[rows].tolist(), ops.kind[rows].tolist(), strict=True)
    ]


def _operators(trace: Trace, rows: Ints) -> list[str | None]:
    """Innermost operator that launched each op; null where none is recorded."""
    return named(trace.names, launching_operators(trace)[rows])


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
