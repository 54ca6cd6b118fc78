"""Did CUDA graphs engage in a trace: what runs in replays, what is launched beside them, and which steps fell back.

Over the kept steps where there are any, else over the whole file. docs/metrics.md, "Graph doctor", defines all.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from .bound import graph_launch_cost_ns
from .capture import Calibration
from .columns import follow
from .gaps import Gaps
from .graph_document import (
    BetweenDoc,
    FallbackDoc,
    GraphDoctorDoc,
    GraphLaunchDoc,
    GraphStepDoc,
    OutsideDoc,
)
from .graphs import GraphReplays
from .intervals import Intervals
from .stacks import CallStacks
from .steps import Steps, first_op_ns
from .trace import NONE, Bools, Ints, OpKind, Trace
from .user_lines import users_line

Place = tuple[str, str | None, str | None]
"""API or copy, operator, the user's line."""


@dataclass(frozen=True, eq=False)
class Examined:
    """A trace and what the other analyses found in it; ``gaps`` are the headline device's, whole and steady."""

    trace: Trace
    steps: Steps
    replays: GraphReplays
    stacks: CallStacks
    whole: Gaps
    steady: Gaps | None
    own_capture: bool
    calibration: Calibration | None

    @cached_property
    def has_steps(self) -> bool:
        return len(self.steps.kept_rows) > 0

    def in_scope(self, step_of_rows: Ints) -> Bools:
        """Rows of a kept step; all where there is none."""
        if not self.has_steps:
            return np.ones(len(step_of_rows), np.bool_)
        return follow(self.steps.kept, step_of_rows, absent=False)

    def counted(self, step_of_rows: Ints) -> Ints:
        """[steps] how many of these rows lie in each step."""
        return np.bincount(step_of_rows[step_of_rows != NONE], minlength=len(self.steps))

    @cached_property
    def replaying(self) -> Bools:
        """[steps] kept steps that launch a graph."""
        return self.steps.kept & (self.counted(self.steps.launch_step[self.trace.launches.is_graph]) > 0)

    def beside_replays(self, step_of_rows: Ints) -> Bools:
        """Rows of a step that replays; without kept steps all."""
        if not self.has_steps:
            return np.ones(len(step_of_rows), np.bool_)
        return follow(self.replaying, step_of_rows, absent=False)

    @cached_property
    def linked(self) -> Bools:
        """Kernels in scope whose launch is in the file."""
        ops = self.trace.gpu_ops
        return np.logical_and(ops.is_kernel & (ops.launch_row != NONE), self.in_scope(self.steps.op_step))

    @cached_property
    def in_graph(self) -> Bools:
        """Those of them that ran in a replay."""
        return self.linked & follow(self.trace.launches.is_graph, self.trace.gpu_ops.launch_row, absent=False)

    @cached_property
    def graph_launches(self) -> Ints:
        """Rows of the graph launches in scope."""
        return np.flatnonzero(self.trace.launches.is_graph & self.in_scope(self.steps.launch_step))

    def per_step(self, count: float, steps: Bools) -> float | None:
        """A total of these steps as a mean; None without any."""
        return count / int(steps.sum()) if self.has_steps and steps.any() else None


def graph_doctor(examined: Examined) -> GraphDoctorDoc:
    """Everything that the trace tells; the findings are added by those who put them in words."""
    e, ops, launches = examined, examined.trace.gpu_ops, examined.trace.launches
    replays = np.flatnonzero(np.isin(e.replays.launch_row, e.graph_launches)) if len(e.graph_launches) else ()
    kernels, in_graphs = int(e.linked.sum()), int(e.in_graph.sum())
    outside = ~launches.is_graph & e.in_scope(e.steps.launch_step)
    return GraphDoctorDoc(
        engaged=None if not kernels else "none" if not in_graphs else "all" if in_graphs == kernels else "part",
        scope="steps" if e.has_steps else "whole",
        kernels=kernels,
        kernels_in_graphs=in_graphs,
        kernel_ns=int(ops.dur_ns[e.linked].sum()),
        kernel_ns_in_graphs=int(ops.dur_ns[e.in_graph].sum()),
        launches_outside=int(outside.sum()),
        replays=len(replays),
        kernels_per_replay=_kernels_per_replay(e),
        under_recorded=int(e.replays.under_recorded.sum()),
        graph_launch=_graph_launch(e),
        fallback=_fallback(e),
        outside=_outside(e) if in_graphs else [],
        between=_between(e) if len(replays) > 1 else [],
        steps=_steps(e) if e.replaying.any() else [],
        findings=[],
    )


def _kernels_per_replay(e: Examined) -> list[int]:
    ops = e.trace.gpu_ops
    counts = np.bincount(ops.launch_row[e.in_graph], minlength=len(e.trace.launches))[e.graph_launches]
    return [int(counts.min()), int(np.median(counts)), int(counts.max())] if len(counts) else []


def _graph_launch(e: Examined) -> GraphLaunchDoc | None:
    """Unprofiled, by the calibration, in our own captures, where most of the call is CUPTI's; else as profiled."""
    rows, launches = e.graph_launches, e.trace.launches
    if not len(rows):
        return None
    launch_row = e.trace.gpu_ops.launch_row
    nodes = np.bincount(launch_row[launch_row != NONE], minlength=len(launches))[rows]
    idle = Intervals.union(e.whole.start_ns, e.whole.end_ns)
    exposed = idle.covered_ns(launches.start_ns[rows], launches.end_ns[rows]).astype(np.float64)
    profiled, source = launches.dur_ns[rows], "as profiled"
    host: float | None = float(np.median(profiled))
    told: float | None = float(exposed.sum())
    if e.own_capture:
        costs = [None if e.calibration is None else graph_launch_cost_ns(int(n), e.calibration) for n in nodes]
        known = np.array([cost for cost in costs if cost is not None])
        has_cost = len(known) == len(rows)
        source = "calibration" if has_cost else "as profiled"
        host = float(np.median(known)) if has_cost else None
        told = float(np.minimum(exposed, known).sum()) if has_cost else None
    steps = e.replaying
    return GraphLaunchDoc(
        count=len(rows),
        per_step=e.per_step(len(rows), steps),
        nodes=float(np.median(nodes)),
        host_ns=host,
        as_profiled_ns=float(np.median(profiled)),
        source=source,
        exposed_ns=told if told is None or not e.has_steps else e.per_step(told, steps),
    )


def _fallback(e: Examined) -> FallbackDoc | None:
    fell = e.steps.kept & ~e.replaying & (e.counted(e.steps.op_step[e.linked]) > 0)
    if not e.replaying.any() or not fell.any():
        return None
    periods = _periods(e)
    kernels = e.counted(e.steps.op_step[e.linked])
    rows = np.flatnonzero(fell)
    return FallbackDoc(
        steps=[e.steps.names[row] for row in rows.tolist()],
        of=int(e.steps.kept.sum()),
        kernels=float(np.median(kernels[fell])),
        period_ns=_median(periods[fell]),
        replayed_kernels=float(np.median(kernels[e.replaying])),
        replayed_period_ns=_median(periods[e.replaying]),
        shared_kernels=_shared(e, _typical(kernels, fell), _typical(kernels, e.replaying)),
    )


def _periods(e: Examined) -> Ints:
    """[steps] ns from a step's first op on the headline device to that of the step after it, NONE without one."""
    first = first_op_ns(e.trace, e.steps, e.whole.device)
    periods = np.full(len(first), NONE, np.int64)
    both = np.flatnonzero((first[:-1] != NONE) & (first[1:] != NONE))
    periods[both] = first[both + 1] - first[both]
    return periods


def _median(periods: Ints) -> float | None:
    known = periods[periods != NONE]
    return float(np.median(known)) if len(known) else None


def _typical(kernels: Ints, steps: Bools) -> int:
    """The step whose number of kernels is the middle one."""
    rows = np.flatnonzero(steps)
    return int(rows[np.argsort(kernels[rows], kind="stable")[len(rows) // 2]])


def _shared(e: Examined, one: int, other: int) -> float:
    names = e.trace.gpu_ops.name
    counts = [Counter(names[e.linked & (e.steps.op_step == step)].tolist()) for step in (one, other)]
    return (counts[0] & counts[1]).total() / max(counts[0].total(), counts[1].total())


def _outside(e: Examined) -> list[OutsideDoc]:
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


def _between(e: Examined) -> list[BetweenDoc]:
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
    with_period = e.replaying & (_periods(e) != NONE) if e.has_steps else e.replaying
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


def _steps(e: Examined) -> list[GraphStepDoc]:
    ops, launches, steps = e.trace.gpu_ops, e.trace.launches, e.steps
    columns = [e.counted(steps.launch_step[launches.is_graph])]
    columns += [e.counted(steps.op_step[rows]) for rows in (e.linked, e.in_graph)]
    for rows in (e.linked, e.in_graph):
        inside = rows & (steps.op_step != NONE)
        columns.append(np.bincount(steps.op_step[inside], weights=ops.dur_ns[inside], minlength=len(steps)))
    columns.append(e.counted(steps.launch_step[~launches.is_graph]))
    return [
        GraphStepDoc(
            step=steps.names[row],
            **dict(zip(GraphStepDoc.__struct_fields__[1:], (int(column[row]) for column in columns), strict=True)),
        )
        for row in steps.kept_rows.tolist()
    ]
