"""Plans of the simulator with other launches: as one CUDA graph, and with further ops between."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ...model.document import CalibrationDoc
from ...model.errors import LaunchscopeError
from ...model.trace import NONE, Bools, Ints
from ...step_model.bound import graph_launch_cost_ns
from .simulator import Plan, Times


def as_graph(plan: Plan, op_step: Ints, costs: CalibrationDoc | None) -> Plan:
    """One launch per step, its ops ν apart. LaunchscopeError without a calibration."""
    steps = len(np.unique(op_step))
    launch_ns = None if costs is None else graph_launch_cost_ns(len(op_step) / steps, costs)
    if costs is None or launch_ns is None or costs.node_gap_ns is None or costs.replay_gap_ns is None:
        raise LaunchscopeError("--graph takes what graphs cost on the machine: profile after launchscope calibrate")
    is_first = np.diff(op_step, prepend=-1) > 0
    return replace(
        plan,
        thread=np.zeros(steps, np.int64),
        before_ns=np.zeros(steps),
        call_ns=np.full(steps, launch_ns),
        blocks=np.zeros(steps, np.bool_),
        op_call=op_step,
        stream=np.zeros(len(op_step), np.int64),
        latency_ns=np.zeros(len(op_step)),
        gap_ns=np.where(is_first, costs.replay_gap_ns, costs.node_gap_ns),
        after=np.full(len(op_step), NONE),
        lag_ns=np.zeros(len(op_step)),
    )


def with_ops_after(plan: Plan, rows: Ints, op_ns: float) -> tuple[Plan, Ints]:
    """A further op after each of these (ascending, some twice), in the same stream, and the row each op came from.

    In a replay it is one more node; else a call of its own launches it, which costs what the plan's calls do in the
    median.
    """
    alone = np.bincount(plan.op_call)[plan.op_call[rows]] == 1
    calls = plan.op_call[rows[alone]]
    call_of_old = _moved(len(plan.thread), calls)
    call_of_new = call_of_old[plan.op_call[rows]] + np.where(alone, 1 + _nth(plan.op_call[rows]), 0)
    op_of_old = _moved(len(plan.op_call), rows)
    launching = ~plan.blocks
    longer = replace(
        plan,
        thread=np.insert(plan.thread, calls + 1, plan.thread[calls]),
        before_ns=np.insert(plan.before_ns, calls + 1, _median(plan.before_ns[launching])),
        call_ns=np.insert(plan.call_ns, calls + 1, _median(plan.call_ns[launching])),
        blocks=np.insert(plan.blocks, calls + 1, False),
        op_call=np.insert(call_of_old[plan.op_call], rows + 1, call_of_new),
        stream=np.insert(plan.stream, rows + 1, plan.stream[rows]),
        op_ns=np.insert(plan.op_ns, rows + 1, op_ns),
        latency_ns=np.insert(plan.latency_ns, rows + 1, _median(plan.latency_ns)),
        gap_ns=np.insert(plan.gap_ns, rows + 1, _median(plan.gap_ns)),
        after=np.insert(np.where(plan.after == NONE, NONE, op_of_old[plan.after]), rows + 1, NONE),
        lag_ns=np.insert(plan.lag_ns, rows + 1, 0.0),
    )
    return longer, np.insert(np.arange(len(plan.op_call)), rows + 1, rows)


def _moved(count: int, rows: Ints) -> Ints:
    """Where each of so many rows is when another stands after each of these."""
    return np.arange(count) + np.searchsorted(rows, np.arange(count), side="left")


def without_ops(plan: Plan, rows: Ints) -> tuple[Plan, Ints]:
    """The plan without these ops and the calls that launched them alone, and the row that each op left came from."""
    kept = np.ones(len(plan.op_call), np.bool_)
    kept[rows] = False
    launching, still = np.unique(plan.op_call), np.unique(plan.op_call[kept])
    calls = np.ones(len(plan.thread), np.bool_)
    calls[np.setdiff1d(launching, still)] = False
    row_of, call_of = np.cumsum(kept) - 1, np.cumsum(calls) - 1
    origin = np.flatnonzero(kept)
    after = plan.after[origin]
    is_there = (after != NONE) & kept[np.maximum(after, 0)]
    return replace(
        plan,
        **{name: getattr(plan, name)[calls] for name in ("thread", "before_ns", "call_ns", "blocks")},
        **{name: getattr(plan, name)[origin] for name in ("stream", "op_ns", "latency_ns", "gap_ns", "lag_ns")},
        op_call=call_of[plan.op_call[origin]],
        after=np.where(is_there, row_of[after], NONE),
    ), origin


def spread_evenly(op_step: Ints, may_go: Bools, count: int) -> Ints:
    """So many rows of each step, of those that may go, at even distances; all of these where there are fewer."""
    chosen = []
    for step in np.unique(op_step):
        rows = np.flatnonzero((op_step == step) & may_go)
        chosen.append(rows[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(np.int64))])
    return np.concatenate(chosen) if chosen else np.zeros(0, np.int64)


def _nth(values: Ints) -> Ints:
    """How many times each has come before; equal ones stand together."""
    return np.arange(len(values)) - np.searchsorted(values, values, side="left")


def _median(values: Times) -> float:
    return float(np.median(values)) if len(values) else 0.0
