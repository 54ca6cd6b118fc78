"""The collectives of one rank: which ran in each kept step, in what order, when, and what ran beside them.

Small enough to go from process to process for hundreds of ranks: a row per collective of the kept steps, 48 bytes each.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final, TypeVar

import msgspec
import numpy as np

from ..model.columns import Intervals, follow, numbered, threads
from ..model.names import (
    ALL_TO_ALL,
    SEND_RECV,
    UNKNOWN,
    kind_of_collective,
    kind_of_kernel,
    number_of_kind,
    waits_for_all,
)
from ..model.trace import NONE, Bools, HostKind, Ints, Reals, Trace
from .steps import Steps

Value = TypeVar("Value")

NO_TIME: Final = np.iinfo(np.int64).min
"""A launch that is not in the file has no time."""

_NUMBER: Final = re.compile(r"#([0-9]{1,15})$")


@dataclass(frozen=True, eq=False)
class Collectives:
    """The n collectives of one rank's kept steps on one device, by step and start; s kept steps.

    Without a kept step the whole file is one: ``step_source`` is then 'none'. Times are on the trace's own clock.
    """

    rank: int | None
    world_size: int | None  # ranks that ran together, where the file tells it
    kinds: tuple[str, ...]  # 'all_reduce', …
    groups: tuple[str, ...]  # process groups by name and ranks; '' where not told
    group_sizes: tuple[int | None, ...]  # ranks of each group, null where not told
    kind: Ints  # [n] index into kinds
    group: Ints  # [n] index into groups
    step: Ints  # [n] place among the kept steps
    ordinal: Ints  # [n] within its step and group
    start_ns: Ints  # [n]
    end_ns: Ints  # [n]
    launch_start_ns: Ints  # [n] NO_TIME where the launch is not in the file
    hidden_ns: Ints  # [n] part in which another GPU op than a collective ran, too
    step_source: str
    step_number: Ints  # [s] by which steps of ranks pair: of ProfilerStep#n, else the place among all steps found
    exposed_ns: Ints  # [s] time in which a collective ran and no other GPU op of the device
    step_hidden_ns: Ints  # [s] time in which a collective and another GPU op ran

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def dur_ns(self) -> Ints:
        """[n] Duration of each."""
        return self.end_ns - self.start_ns

    @property
    def steps(self) -> int:
        """Kept steps, 1 for a file without any."""
        return len(self.step_number)

    @cached_property
    def kind_number(self) -> Ints:
        """[n] The kind of each, numbered alike on every rank."""
        return np.array([number_of_kind(kind) for kind in self.kinds], np.int64)[self.kind]

    @cached_property
    def all_wait(self) -> Bools:
        """[n] Nobody can end it before all have arrived."""
        return np.array([waits_for_all(kind) for kind in self.kinds], np.bool_)[self.kind]

    @cached_property
    def group_places(self) -> dict[str, int]:
        """The index of each label of ``groups``."""
        return {label: place for place, label in enumerate(self.groups)}

    @cached_property
    def rows_by_group(self) -> list[Ints]:
        """Of each group its rows, in order."""
        order = np.argsort(self.group, kind="stable")
        return np.split(order, np.searchsorted(self.group[order], np.arange(1, len(self.groups))))

    def per_step(self, values: Ints | Reals) -> Reals:
        """[s] Sum of a figure of the collectives by step."""
        return np.asarray(np.bincount(self.step, values, self.steps), np.float64)


def collectives_of(trace: Trace, steps: Steps, device: int | None) -> Collectives:
    """What a device's kernels did with other GPUs in the kept steps; ``device`` is None without a GPU op."""
    ops = trace.gpu_ops
    kind_of_name = {n: kind_of_kernel(trace.names[n]) for n in np.unique(ops.name[ops.is_kernel]).tolist()}
    by_name = [n for n, kind in kind_of_name.items() if kind is not None]
    on_device = ops.device == (NONE if device is None else device)
    communicates = on_device & ops.is_kernel & (np.isin(ops.name, by_name) | (ops.collective != NONE))
    step_of_op, numbers = _kept_steps(trace, steps)
    rows = np.flatnonzero(communicates & (step_of_op != NONE))
    rows = rows[np.argsort(step_of_op[rows], kind="stable")]
    step = step_of_op[rows]
    named_kinds, named_groups = _recorded(trace)
    collective, name = ops.collective[rows], ops.name[rows]
    in_all_to_all = _in_all_to_all(trace, ops.launch_row[rows])

    def kind_of(row: int) -> str:
        kind = named_kinds[collective[row]] or kind_of_name[name[row]] or UNKNOWN
        return ALL_TO_ALL if kind == SEND_RECV and in_all_to_all[row] else kind

    kinds, kind = _interned(numbered(collective, name, in_all_to_all.astype(np.int64)), kind_of)
    groups, group = _interned(collective, lambda row: named_groups[collective[row]])
    start_ns, end_ns = ops.start_ns[rows], np.maximum(ops.end_ns[rows], ops.start_ns[rows])
    parts = _first_covered(step, start_ns, end_ns)
    others = np.flatnonzero(on_device & ~communicates) if len(rows) else rows
    other_work = Intervals.union(ops.start_ns[others], ops.end_ns[others])
    hidden = other_work.covered_ns(*parts)
    return Collectives(
        rank=trace.rank,
        world_size=trace.world_size,
        kinds=kinds,
        groups=tuple(label for label, _ in groups),
        group_sizes=tuple(size for _, size in groups),
        kind=kind.astype(np.int8),
        group=group.astype(np.int32),
        step=step.astype(np.int32),
        ordinal=_ordinals(step, group).astype(np.int32),
        start_ns=start_ns,
        end_ns=end_ns,
        launch_start_ns=follow(trace.launches.start_ns, ops.launch_row[rows], absent=NO_TIME),
        hidden_ns=other_work.covered_ns(start_ns, end_ns),
        step_source=steps.source if len(steps.kept_rows) else "none",
        step_number=numbers,
        exposed_ns=_sums(step, parts[1] - parts[0] - hidden, len(numbers)),
        step_hidden_ns=_sums(step, hidden, len(numbers)),
    )


def _in_all_to_all(trace: Trace, launch_row: Ints) -> Bools:
    """Launched inside an operator or an annotation of an all-to-all, which NCCL runs as sends and receives."""
    host, launches = trace.host_ops, trace.launches
    is_one = np.array([kind_of_kernel(name) == ALL_TO_ALL for name in trace.names], np.bool_)
    rows = np.flatnonzero(is_one[host.name] & np.isin(host.kind, (HostKind.OPERATOR, HostKind.ANNOTATION)))
    inside = np.zeros(len(launch_row), np.bool_)
    known = launch_row != NONE
    calls_of = threads(launches.process[launch_row[known]], launches.thread[launch_row[known]])
    ranges_of = threads(host.process[rows], host.thread[rows])
    for thread, its in calls_of.items():
        ranges = rows[ranges_of.get(thread, rows[:0])]
        union = Intervals.union(host.start_ns[ranges], host.end_ns[ranges])
        at = launches.start_ns[launch_row[known][its]]
        inside[np.flatnonzero(known)[its]] = union.covered_ns(at, at + 1) > 0
    return inside


def _kept_steps(trace: Trace, steps: Steps) -> tuple[Ints, Ints]:
    """The place among the kept steps of each GPU op, NONE outside; and the kept steps' numbers."""
    kept = steps.kept_rows
    if not len(kept):
        return np.zeros(len(trace.gpu_ops), np.int64), np.zeros(1, np.int64)
    place = np.full(len(steps) + 1, NONE, np.int64)  # the last one is that of NONE
    place[kept] = np.arange(len(kept))
    numbers = [_NUMBER.search(steps.names[step]) for step in kept.tolist()]
    if steps.source == "profiler_step" and all(numbers):
        return place[steps.op_step], np.array([int(number[1]) for number in numbers if number], np.int64)
    return place[steps.op_step], kept.astype(np.int64)


def _recorded(trace: Trace) -> tuple[list[str | None], list[tuple[str, int | None]]]:
    """The kind of each of Trace.collectives, and its group's label and size; the last is that of NONE.

    A kernel without a recorded group is of the one group that this rank is in, where the file lists one.
    """
    listed = {ranks for ranks in trace.group_ranks if len(ranks) > 1}
    only = next(iter(listed)) if len(listed) == 1 else None
    usual = ("", None) if only is None else (f"[{', '.join(map(str, only))}]", len(only))
    kinds: list[str | None] = []
    groups: list[tuple[str, int | None]] = []
    for text in trace.collectives:
        collective, name, ranks = _decoded(text)
        kinds.append(kind_of_collective(collective) if isinstance(collective, str) and collective else None)
        groups.append(_group(name, ranks) or usual)
    return [*kinds, None], [*groups, usual]


def _decoded(text: str) -> tuple[Any, Any, Any]:
    try:
        collective, name, ranks = msgspec.json.decode(text)
    except (msgspec.DecodeError, ValueError, RecursionError):
        return None, None, None
    return collective, name, ranks


def _group(name: Any, ranks: Any) -> tuple[str, int | None] | None:
    """A process group's label, and how many ranks it has; torch cuts long lists of ranks short with an ellipsis."""
    if isinstance(ranks, list) and all(type(rank) is int for rank in ranks):
        ranks = f"[{', '.join(map(str, ranks))}]"
    listed = ranks.strip() if isinstance(ranks, str) else ""
    label = " ".join(part for part in (str(name) if isinstance(name, str | int) else "", listed) if part)
    whole = re.fullmatch(r"\[\s*\d+(?:\s*,\s*\d+)*\s*\]", listed) is not None
    return (label, listed.count(",") + 1 if whole else None) if label else None


def _interned(codes: Ints, value_at: Callable[[int], Value]) -> tuple[tuple[Value, ...], Ints]:
    """The distinct values by their first row, and of each row the index of its own; rows of one code have one value."""
    _, first, place = np.unique(codes, return_index=True, return_inverse=True)
    index: dict[Value, int] = {}
    number = np.empty(len(first), np.int64)
    for code in np.argsort(first).tolist():
        number[code] = index.setdefault(value_at(int(first[code])), len(index))
    return tuple(index), number[place]


def _first_covered(of: Ints, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """What of each interval none before it covered, those of one number together: disjoint parts of their union.

    By number, and by start within; a part of no length begins where it ends.
    """
    begin = start_ns.copy()
    for rows in np.split(np.arange(len(of)), np.flatnonzero(np.diff(of)) + 1):
        reached = np.maximum.accumulate(end_ns[rows])
        begin[rows[1:]] = np.maximum(begin[rows[1:]], np.minimum(reached[:-1], end_ns[rows[1:]]))
    return begin, end_ns


def _ordinals(step: Ints, group: Ints) -> Ints:
    """The place of each row among those of its step and group."""
    number = numbered(step, group)
    order = np.argsort(number, kind="stable")
    ordinal = np.empty(len(step), np.int64)
    ordinal[order] = np.arange(len(step)) - np.searchsorted(number[order], number[order])
    return ordinal


def _sums(step: Ints, values: Ints, steps: int) -> Ints:
    total = np.zeros(steps, np.int64)
    np.add.at(total, step, values)
    return total
