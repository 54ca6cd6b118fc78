"""Did CUDA graphs engage in a trace: what runs in replays, what launching them costs, and which steps fell back.

Over the kept steps where there are any, else over the whole file. docs/metrics.md, "Graph doctor", defines all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from itertools import islice
from typing import Final, NamedTuple

import msgspec
import numpy as np

from ...facts.context import Context
from ...facts.phase_names import kind_of
from ...model.advisor_documents import BetweenDoc, FallbackDoc, GraphDoctorDoc, GraphLaunchDoc, GraphStepDoc, OutsideDoc
from ...model.columns import follow, named, numbered
from ...model.trace import NONE, Bools, HostKind, Ints, OpKind, Reals
from ...step_model import graph_launch_cost_ns

SHAPES: Final = 3  # operators with other shapes that are told

_Shapes = dict[str, Counter[int]]
"""By operator: how often it was called with which shapes, as an index into Trace.shapes."""


def graph_doctor(context: Context) -> GraphDoctorDoc:
    """Everything that the trace tells; the findings are added by those who put them in words."""
    ops, launches, rows = context.trace.gpu_ops, context.trace.launches, context.graph_launches
    replays = int(np.isin(context.replays.launch_row, rows).sum()) if len(rows) else 0
    kernels, in_graphs = int(context.linked_kernels.sum()), int(context.graph_kernels.sum())
    whole = rows[~np.isin(rows, context.replays.launch_row[context.replays.cut])]
    counted = whole if len(whole) else rows
    counts = np.bincount(ops.launch_row[context.graph_kernels], minlength=len(launches))[counted]
    return GraphDoctorDoc(
        engaged=None if not kernels else "none" if not in_graphs else "all" if in_graphs == kernels else "part",
        scope="steps" if context.has_steps else "whole",
        kernels=kernels,
        kernels_in_graphs=in_graphs,
        kernel_ns=int(ops.dur_ns[context.linked_kernels].sum()),
        kernel_ns_in_graphs=int(ops.dur_ns[context.graph_kernels].sum()),
        launches_outside=int((~launches.is_graph & context.in_scope(context.steps.launch_step)).sum()),
        replays=replays,
        kernels_per_replay=[int(counts.min()), int(np.median(counts)), int(counts.max())] if len(rows) else [],
        under_recorded=int((context.replays.under_recorded & ~context.replays.cut).sum()),
        graph_launch=_graph_launch(context) if len(rows) else None,
        fallback=_fallback(context),
        outside=launched_outside(context) if in_graphs else [],
        between=between_replays(context) if replays > 1 else [],
        steps=_steps(context) if context.replaying.any() else [],
        findings=[],
    )


def _steps(context: Context) -> list[GraphStepDoc]:
    ops, launches, steps = context.trace.gpu_ops, context.trace.launches, context.steps
    kernels = (context.linked_kernels, context.graph_kernels)
    times = (np.flatnonzero(rows & (steps.op_step != NONE)) for rows in kernels)
    columns = [
        steps.counted(steps.launch_step[launches.is_graph]),
        *(steps.counted(steps.op_step[rows]) for rows in kernels),
        *(np.bincount(steps.op_step[rows], weights=ops.dur_ns[rows], minlength=len(steps)) for rows in times),
        steps.counted(steps.launch_step[~launches.is_graph]),
    ]
    fields = GraphStepDoc.__struct_fields__[1:]
    return [
        GraphStepDoc(
            step=steps.names[row],
            **dict(zip(fields, (int(column[row]) for column in columns), strict=True)),
        )
        for row in steps.kept_rows.tolist()
    ]


def _graph_launch(context: Context) -> GraphLaunchDoc:
    """Unprofiled, by the calibration, in our own captures, where most of the call is CUPTI's; else as profiled.

    Exposed is the part of the call in the gap before the replay, over the steady windows where there are any: the
    first launch of all always finds an idle GPU.
    """
    rows, launches, launch_row = context.graph_launches, context.trace.launches, context.trace.gpu_ops.launch_row
    gaps = context.headline_gaps
    before_replay = np.flatnonzero(gaps.observer)
    exposed_ns = gaps.parts_ns["launch"][before_replay].astype(np.float64)
    nodes = np.bincount(launch_row[launch_row != NONE], minlength=len(launches))
    profiled = float(np.median(launches.dur_ns[rows]))
    host, exposed, source = profiled, float(exposed_ns.sum()), "as profiled"
    costs = None  # unprofiled, of launching a graph of so many nodes
    if context.own_capture and context.calibration and graph_launch_cost_ns(1, context.calibration) is not None:
        costs = np.array([graph_launch_cost_ns(count, context.calibration) for count in nodes.tolist()], np.float64)
        launched = launch_row[gaps.next_op[before_replay]]
        exposed = float(np.minimum(exposed_ns, _unhidden(context, launched, costs[launched])).sum())
        host, source = float(np.median(costs[rows])), "calibration"
    is_known = costs is not None or not context.own_capture
    steps = (
        context.replaying
        if context.headline_steady is None
        else context.replaying & (context.period_ns[context.device] != NONE)
    )
    return GraphLaunchDoc(
        count=len(rows),
        per_step=context.per_step(len(rows), context.replaying),
        nodes=float(np.median(nodes[rows])),
        host_ns=host if is_known else None,
        as_profiled_ns=profiled,
        source=source,
        exposed_ns=None if not is_known else context.per_step(exposed, steps) if context.has_steps else exposed,
    )


def _unhidden(context: Context, rows: Ints, costs: Reals) -> Reals:
    """How much of each launch the replay before it can't hide.

    All of it, where the host waited for the GPU since the launch before. Else the host runs ahead: only what it takes
    from one launch to the next, longer than that replay. Profiled, it falls behind by the profiler's own doing.
    """
    launches, calls, replays = context.trace.launches, context.trace.blocking_calls, context.replays
    every = np.flatnonzero(launches.is_graph)
    place = np.searchsorted(every, rows)
    before = every[np.maximum(place - 1, 0)]
    since, until = launches.end_ns[before], launches.start_ns[rows]
    ends = np.sort(calls.end_ns)
    waited = (place == 0) | (np.searchsorted(ends, until, "right") > np.searchsorted(ends, since, "right"))
    replay_ns = np.zeros(len(launches))
    linked = replays.launch_row != NONE
    replay_ns[replays.launch_row[linked]] = (replays.end_ns - replays.start_ns)[linked]
    ahead = np.clip(until - since + costs - replay_ns[before], 0, costs)
    return np.where(waited, costs, ahead)


def _fallback(context: Context) -> FallbackDoc | None:
    """Steps that launch kernel by kernel where others replay; None where every one with kernels replays, or none."""
    steps, linked = context.steps, context.linked_kernels
    kernels = steps.counted(steps.op_step[linked])
    called = np.array([kind_of(name) for name in steps.names], object)
    replayed = {None, *called[context.replaying].tolist()}  # no prefill is to replay where none does
    fell = steps.kept & ~context.replaying & (kernels > 0) & np.array([kind in replayed for kind in called], np.bool_)
    if not context.replaying.any() or not fell.any():
        return None
    here, there = typical = [_typical(kernels, rows) for rows in (fell, context.replaying)]
    names = [Counter(context.trace.gpu_ops.name[linked & (steps.op_step == step)].tolist()) for step in typical]
    return FallbackDoc(
        steps=[steps.names[row] for row in np.flatnonzero(fell).tolist()],
        of=int(steps.kept.sum()),
        kernels=float(np.median(kernels[fell])),
        period_ns=_median(context.period_ns[context.device][fell]),
        replayed_kernels=float(np.median(kernels[context.replaying])),
        replayed_period_ns=_median(context.period_ns[context.device][context.replaying]),
        shared_kernels=(names[0] & names[1]).total() / max(each.total() for each in names),
        other_shapes=list(islice(_other_shapes(context, here, there), SHAPES)),
    )


def _median(periods: Ints) -> float | None:
    known = periods[periods != NONE]
    return float(np.median(known)) if len(known) else None


def _typical(kernels: Ints, steps: Bools) -> int:
    """The step whose number of kernels is the middle one."""
    rows = np.flatnonzero(steps)
    return int(rows[np.argsort(kernels[rows], kind="stable")[len(rows) // 2]])


def _other_shapes(context: Context, fell: int, replayed: int) -> Iterator[str]:
    """Operators that both steps call, outside of replays, and never with the same shapes: the batch, most likely."""
    here, there = _shapes_in(context, fell), _shapes_in(context, replayed)
    for name in here.keys() & there.keys():
        if not here[name] & there[name]:
            mine, its = (_dims(context, shapes[name].most_common(1)[0][0]) for shapes in (here, there))
            yield f"{name} of {mine}, in a step that replays of {its}"


def _shapes_in(context: Context, step: int) -> _Shapes:
    host = context.trace.host_ops
    inside = (host.start_ns >= context.steps.start_ns[step]) & (host.start_ns < context.steps.end_ns[step])
    rows = np.flatnonzero(inside & (host.kind == HostKind.OPERATOR) & (host.shapes != NONE))
    found: _Shapes = defaultdict(Counter)
    for name, shapes in zip(host.name[rows].tolist(), host.shapes[rows].tolist(), strict=True):
        found[context.trace.name(name)][shapes] += 1
    return found


def _dims(context: Context, shapes: int) -> str:
    """The dimensions alone: ``[[13, 1], [13, 1]]``."""
    try:
        dims = msgspec.json.decode(context.trace.shapes[shapes], type=tuple[msgspec.Raw, msgspec.Raw])[0]
    except msgspec.MsgspecError:
        return context.trace.shapes[shapes]
    return bytes(dims).decode()


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
