"""What steps do beside their replays: kernels launched one by one, waits, copies and sets."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence

import numpy as np

from .columns import follow
from .graph_document import BetweenDoc, OutsideDoc
from .graph_scope import Examined
from .trace import NONE, Bools, Ints, OpKind
from .user_lines import users_line

Place = tuple[str, str | None, str | None]
"""API or copy, operator, the user's line."""


def launched_outside(e: Examined) -> list[OutsideDoc]:
    launches, ops = e.trace.launches, e.trace.gpu_ops
    alone = e.linked & ~e.in_graph & e.beside_replays(e.steps.op_step)
    kernels = np.bincount(ops.launch_row[alone], minlength=len(launches))
    kernel_ns = np.bincount(ops.launch_row[alone], weights=ops.dur_ns[alone], minlength=len(launches))
    found: dict[Place, list[float]] = defaultdict(lambda: [0, 0, 0])
    for row in np.flatnonzero(kernels).tolist():
        api = e.trace.name(int(launches.api[row]))
        totals = found[(api, *_place(e, launches.operator_row[row], e.stacks.of_launch[row]))]
        for index, value in enumerate((1, kernels[row], kernel_ns[row])):
            totals[index] += value
    ranked = sorted(found.items(), key=lambda item: -item[1][0])
    return [
        OutsideDoc(
            api=api,
            operator=operator,
            line=line,
            launches=int(count),
            kernels=int(of_them),
            kernel_ns=int(ns),
            launches_per_step=e.per_step(count, e.replaying),
        )
        for (api, operator, line), (count, of_them, ns) in ranked
    ]


def _place(e: Examined, operator_row: int, stack: int) -> tuple[str | None, str | None]:
    operator = None if operator_row == NONE else e.trace.name(int(e.trace.host_ops.name[operator_row]))
    return operator, users_line([e.trace.name(frame) for frame in e.stacks.stacks[stack]])


def between_replays(e: Examined) -> list[BetweenDoc]:
    """What steps that replay do beside it; without steps, what lies between the first replay and the last."""
    found: dict[tuple[str, Place], list[float]] = defaultdict(lambda: [0, 0])
    calls, ops, launches = e.trace.blocking_calls, e.trace.gpu_ops, e.trace.launches
    idle = _idle_around(e)
    idle_of: Mapping[tuple[str, Place], list[float]] = defaultdict(lambda: [0.0])
    for row in np.flatnonzero(_chosen(e, e.steps.blocking_step, calls.start_ns)).tolist():
        name = e.trace.name(int(calls.api[row]))
        key = ("sync", (name, *_place(e, calls.operator_row[row], e.stacks.of_blocking_call[row])))
        _add(found[key], int(calls.dur_ns[row]))
        idle_of[key][0] += idle[row]
    linked = (ops.kind != OpKind.KERNEL) & (ops.launch_row != NONE)
    alone = linked & ~follow(launches.is_graph, ops.launch_row, absent=False)
    for row in np.flatnonzero(alone & _chosen(e, e.steps.op_step, ops.start_ns)).tolist():
        what = "copy" if ops.kind[row] == OpKind.MEMCPY else "set"
        launch = int(ops.launch_row[row])
        place = _place(e, launches.operator_row[launch], e.stacks.of_launch[launch])
        _add(found[what, (e.trace.name(int(ops.name[row])), *place)], int(ops.dur_ns[row]))
    with_period = e.replaying & (e.periods_ns != NONE) if e.has_steps else e.replaying
    return [
        BetweenDoc(
            what=what,
            name=place[0],
            operator=place[1],
            line=place[2],
            count=int(count),
            count_per_step=e.per_step(count, e.replaying),
            ns=int(ns),
            idle_ns_per_step=e.per_step(idle_of[what, place][0], with_period) if what == "sync" else None,
        )
        for (what, place), (count, ns) in sorted(found.items(), key=lambda item: -item[1][1])
    ]


def _add(totals: list[float], ns: int) -> None:
    totals[0] += 1
    totals[1] += ns


def _chosen(e: Examined, step_of_rows: Ints, start_ns: Ints) -> Bools:
    if e.has_steps:
        return e.beside_replays(step_of_rows)
    starts = e.trace.launches.start_ns[e.graph_launches]
    return np.logical_and(start_ns > starts.min(), start_ns < starts.max())


def _idle_around(e: Examined) -> Sequence[float]:
    """[blocking calls] steady idle time, ns, of the gaps in which the call is the last to end.

    The launch call of the replay that ends a gap is left out: that is told by itself.
    """
    calls, gaps = e.trace.blocking_calls, e.whole if e.steady is None else e.steady
    around = np.zeros(len(calls))
    if not len(calls):
        return around.tolist()
    order = np.argsort(calls.end_ns, kind="stable")
    last = np.searchsorted(calls.end_ns[order], gaps.end_ns, side="right") - 1
    row = order[np.maximum(last, 0)]
    is_after = (last >= 0) & (calls.end_ns[row] > gaps.start_ns)
    idle = gaps.dur_ns - np.where(gaps.observer, gaps.parts_ns["launch"], 0)
    np.add.at(around, row[is_after], idle[is_after])
    found: list[float] = around.tolist()
    return found
