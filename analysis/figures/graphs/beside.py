"""What steps do beside their replays: kernels launched one by one, waits, copies and sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...facts.context import Context
from ...model.columns import follow, named, numbered
from ...model.graph_document import BetweenDoc, OutsideDoc
from ...model.trace import NONE, Bools, Ints, OpKind, Reals

Place = tuple[str, str | None, str | None]
"""API or copy, operator, the user's line."""


class _Totals(NamedTuple):
    """Of one place."""

    rows: int
    sums: list[float]


def launched_outside(context: Context) -> list[OutsideDoc]:
    """Kernels that steps with replays launch one by one, those of most launches first."""
    launches, ops = context.trace.launches, context.trace.gpu_ops
    alone = context.linked_kernels & ~context.graph_kernels & context.in_replaying(context.steps.op_step)
    kernels = np.bincount(ops.launch_row[alone], minlength=len(launches)).astype(np.float64)
    kernel_ns = np.bincount(ops.launch_row[alone], ops.dur_ns[alone].astype(np.float64), len(launches))
    rows = np.flatnonzero(kernels)
    values: tuple[Reals, ...] = (kernels[rows], kernel_ns[rows].astype(np.float64))
    found = _by_place(context, launches.api[rows], launches.operator_row[rows], context.stacks.of_launch[rows], values)
    return [
        OutsideDoc(
            api=api,
            operator=operator,
            line=line,
            launches=totals.rows,
            kernels=int(totals.sums[0]),
            kernel_ns=int(totals.sums[1]),
            launches_per_step=context.per_step(totals.rows, context.replaying),
        )
        for (api, operator, line), totals in sorted(found.items(), key=lambda item: -item[1].rows)
    ]


def between_replays(context: Context) -> list[BetweenDoc]:
    """What steps that replay do beside it; without steps, what lies between the first replay and the last."""
    docs = [*_waits(context), *_copies(context, OpKind.MEMCPY, "copy"), *_copies(context, OpKind.MEMSET, "set")]
    return sorted(docs, key=lambda doc: -doc.ns)


def _waits(context: Context) -> list[BetweenDoc]:
    calls = context.trace.blocking_calls
    rows = np.flatnonzero(_chosen(context, context.steps.blocking_step, calls.start_ns))
    ns, idle = calls.dur_ns[rows].astype(np.float64), _idle_around(context)[rows]
    found = _by_place(
        context, calls.api[rows], calls.operator_row[rows], context.stacks.of_blocking_call[rows], (ns, idle)
    )
    with_period = context.replaying & (context.period_ns[context.device] != NONE)
    return [
        _between(context, "sync", place, totals, context.per_step(totals.sums[1], with_period))
        for place, totals in found.items()
    ]


def _copies(context: Context, kind: OpKind, what: str) -> list[BetweenDoc]:
    ops, launches = context.trace.gpu_ops, context.trace.launches
    alone = (ops.kind == kind) & (ops.launch_row != NONE)
    alone &= ~follow(launches.is_graph, ops.launch_row, absent=False)
    rows = np.flatnonzero(alone & _chosen(context, context.steps.op_step, ops.start_ns))
    launched = ops.launch_row[rows]
    ns = ops.dur_ns[rows].astype(np.float64)
    found = _by_place(
        context, ops.name[rows], launches.operator_row[launched], context.stacks.of_launch[launched], (ns,)
    )
    return [_between(context, what, place, totals, None) for place, totals in found.items()]


def _between(context: Context, what: str, place: Place, totals: _Totals, idle_ns: float | None) -> BetweenDoc:
    return BetweenDoc(
        what=what,
        name=place[0],
        operator=place[1],
        line=place[2],
        count=totals.rows,
        count_per_step=context.per_step(totals.rows, context.replaying),
        ns=int(totals.sums[0]),
        idle_ns_per_step=idle_ns,
    )


def _by_place(
    context: Context, name: Ints, operator_row: Ints, stack: Ints, values: tuple[Reals, ...]
) -> dict[Place, _Totals]:
    """How many rows each place has, and the sums of their values; by API, operator, and the places' first stack."""
    operator = follow(context.trace.host_ops.name, operator_row)
    line = context.line_of_stack[stack]
    number = numbered(name, operator, line)
    _, first, count = np.unique(number, return_index=True, return_counts=True)
    sums = np.array([np.bincount(number, weights=each, minlength=len(first)) for each in values]).T
    first_stack = np.full(len(first), len(context.stacks.stacks))
    np.minimum.at(first_stack, number, stack)
    order = np.lexsort((first_stack, operator[first], name[first]))
    places = zip(*(named(context.trace.names, column[first[order]]) for column in (name, operator, line)), strict=True)
    totals = zip(count[order].tolist(), sums[order].tolist(), strict=True)
    return {
        (api or "", of_operator, of_user): _Totals(rows, its_sums)
        for (api, of_operator, of_user), (rows, its_sums) in zip(places, totals, strict=True)
    }


def _chosen(context: Context, step_of_rows: Ints, start_ns: Ints) -> Bools:
    if context.has_steps:
        return context.in_replaying(step_of_rows)
    starts = context.trace.launches.start_ns[context.graph_launches]
    inside: Bools = np.logical_and(start_ns > starts.min(), start_ns < starts.max())
    return inside


def _idle_around(context: Context) -> Reals:
    """[blocking calls] steady idle time, ns, of the gaps in which the call is the last to end.

    The launch call of the replay that ends a gap is left out: that is told by itself.
    """
    calls, gaps = context.trace.blocking_calls, context.headline_gaps
    around = np.zeros(len(calls))
    if len(calls):
        order = np.argsort(calls.end_ns, kind="stable")
        last = np.searchsorted(calls.end_ns[order], gaps.end_ns, side="right") - 1
        row = order[np.maximum(last, 0)]
        is_after = (last >= 0) & (calls.end_ns[row] > gaps.start_ns)
        idle = gaps.dur_ns - np.where(gaps.observer, gaps.parts_ns["launch"], 0)
        np.add.at(around, row[is_after], idle[is_after])
    return around
