"""What steps that replay do outside of their replays: kernels launched one by one, waits, copies and sets."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from ...facts.context import Context
from ...model.columns import follow, named, numbered
from ...model.graph_document import BetweenDoc, OutsideDoc
from ...model.trace import NONE, Bools, Ints, OpKind, Reals


class _Place(NamedTuple):
    """Rows of one API or copy, operator and line of the user's, and the sums of their values."""

    name: str
    operator: str | None
    line: str | None
    rows: int
    sums: list[float]


def launched_outside(context: Context) -> list[OutsideDoc]:
    """Kernels that steps with replays launch one by one, those of most launches first."""
    launches, ops = context.trace.launches, context.trace.gpu_ops
    alone = context.linked_kernels & ~context.graph_kernels & context.in_replaying(context.steps.op_step)
    kernels = np.bincount(ops.launch_row[alone], minlength=len(launches)).astype(np.float64)
    kernel_ns = np.bincount(ops.launch_row[alone], ops.dur_ns[alone], len(launches)).astype(np.float64)
    rows = np.flatnonzero(kernels)
    columns = (launches.api[rows], launches.operator_row[rows], context.stacks.of_launch[rows])
    docs = [
        OutsideDoc(
            api=place.name,
            operator=place.operator,
            line=place.line,
            launches=place.rows,
            kernels=int(place.sums[0]),
            kernel_ns=int(place.sums[1]),
            launches_per_step=context.per_step(place.rows, context.replaying),
        )
        for place in _places(context, *columns, kernels[rows], kernel_ns[rows])
    ]
    return sorted(docs, key=lambda doc: -doc.launches)


def between_replays(context: Context) -> list[BetweenDoc]:
    """What steps that replay do beside it; without steps, what lies between the first replay and the last."""
    trace, stacks = context.trace, context.stacks
    calls, ops, launches = trace.blocking_calls, trace.gpu_ops, trace.launches
    rows = np.flatnonzero(_between(context, context.steps.blocking_step, calls.start_ns))
    columns = (calls.api[rows], calls.operator_row[rows], stacks.of_blocking_call[rows])
    waits = _places(context, *columns, calls.dur_ns[rows].astype(np.float64), _idle_around(context)[rows])
    with_period = context.replaying & (context.period_ns[context.device] != NONE)
    docs = [_document(context, "sync", wait, context.per_step(wait.sums[1], with_period)) for wait in waits]
    alone = (ops.launch_row != NONE) & ~follow(launches.is_graph, ops.launch_row, absent=False)
    alone &= _between(context, context.steps.op_step, ops.start_ns)
    for kind, what in ((OpKind.MEMCPY, "copy"), (OpKind.MEMSET, "set")):
        rows = np.flatnonzero(alone & (ops.kind == kind))
        launched = ops.launch_row[rows]
        columns = (ops.name[rows], launches.operator_row[launched], stacks.of_launch[launched])
        copies = _places(context, *columns, ops.dur_ns[rows].astype(np.float64))
        docs += [_document(context, what, copy, None) for copy in copies]
    return sorted(docs, key=lambda doc: -doc.ns)


def _document(context: Context, what: str, place: _Place, idle_ns: float | None) -> BetweenDoc:
    return BetweenDoc(
        what=what,
        name=place.name,
        operator=place.operator,
        line=place.line,
        count=place.rows,
        count_per_step=context.per_step(place.rows, context.replaying),
        ns=int(place.sums[0]),
        idle_ns_per_step=idle_ns,
    )


def _places(context: Context, name: Ints, operator_row: Ints, stack: Ints, *values: Reals) -> list[_Place]:
    """By API, operator, and the places' first stack."""
    operator = follow(context.trace.host_ops.name, operator_row)
    line = context.line_of_stack[stack]
    number = numbered(name, operator, line)
    _, first, count = np.unique(number, return_index=True, return_counts=True)
    sums = np.array([np.bincount(number, weights=each, minlength=len(first)) for each in values]).T
    first_stack = np.full(len(first), len(context.stacks.stacks))
    np.minimum.at(first_stack, number, stack)
    order = np.lexsort((first_stack, operator[first], name[first]))
    names, operators, lines = (named(context.trace.names, column[first[order]]) for column in (name, operator, line))
    counted = zip(names, operators, lines, count[order].tolist(), sums[order].tolist(), strict=True)
    return [_Place(api or "", *others) for api, *others in counted]


def _between(context: Context, step_of_rows: Ints, start_ns: Ints) -> Bools:
    """Rows of steps that replay; without steps those between the first replay and the last."""
    if context.has_steps:
        return context.in_replaying(step_of_rows)
    starts = context.trace.launches.start_ns[context.graph_launches]
    inside: Bools = (start_ns > starts.min()) & (start_ns < starts.max())
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
