"""What launching graphs takes the host, and how much of it the GPU is idle for."""

from __future__ import annotations

import numpy as np

from ...facts.context import Context
from ...model.capture import Calibration
from ...model.graph_document import GraphLaunchDoc
from ...model.trace import NONE, Ints, Reals
from ...step_model.bound import graph_launch_cost_ns


def graph_launch(context: Context) -> GraphLaunchDoc | None:
    """Unprofiled, by the calibration, in our own captures, where most of the call is CUPTI's; else as profiled.

    Exposed is the part of the call in the gap before the replay, over the steady windows where there are any: the
    first launch of all always finds an idle GPU.
    """
    rows, launch_row = context.graph_launches, context.trace.gpu_ops.launch_row
    if not len(rows):
        return None
    gaps = context.headline_gaps
    before_replay = np.flatnonzero(gaps.observer)
    exposed_ns = gaps.parts_ns["launch"][before_replay].astype(np.float64)
    nodes = np.bincount(launch_row[launch_row != NONE], minlength=len(context.trace.launches))
    if not context.own_capture:
        host = float(np.median(context.trace.launches.dur_ns[rows]))
        return _document(context, nodes, host, "as profiled", float(exposed_ns.sum()))
    costs = _calibrated(nodes, context.calibration)
    if costs is None:
        return _document(context, nodes, None, "as profiled", None)
    launched = launch_row[gaps.next_op[before_replay]]
    exposed_ns = np.minimum(exposed_ns, _unhidden(context, launched, costs[launched]))
    return _document(context, nodes, float(np.median(costs[rows])), "calibration", float(exposed_ns.sum()))


def _document(
    context: Context, nodes: Ints, host_ns: float | None, source: str, exposed_ns: float | None
) -> GraphLaunchDoc:
    rows, launches = context.graph_launches, context.trace.launches
    with_period = context.period_ns[context.device] != NONE
    steps = context.replaying if context.headline_steady is None else context.replaying & with_period
    return GraphLaunchDoc(
        count=len(rows),
        per_step=context.per_step(len(rows), context.replaying),
        nodes=float(np.median(nodes[rows])),
        host_ns=host_ns,
        as_profiled_ns=float(np.median(launches.dur_ns[rows])),
        source=source,
        exposed_ns=exposed_ns if exposed_ns is None or not context.has_steps else context.per_step(exposed_ns, steps),
    )


def _calibrated(nodes: Ints, calibration: Calibration | None) -> Reals | None:
    """Unprofiled host cost of launching a graph of so many nodes; None without a calibration of it."""
    if calibration is None or graph_launch_cost_ns(1, calibration) is None:
        return None
    return np.array([graph_launch_cost_ns(count, calibration) for count in nodes.tolist()], np.float64)


def _unhidden(context: Context, rows: Ints, costs: Reals) -> Reals:
    """How much of each launch the replay before it can't hide.

    All of it, where the host waited for the GPU since the launch before. Else the host runs ahead: only what it takes
    from one launch to the next, longer than that replay. Profiled, it falls behind by the profiler's own doing.
    """
    launches, calls = context.trace.launches, context.trace.blocking_calls
    every = np.flatnonzero(launches.is_graph)
    place = np.searchsorted(every, rows)
    before = every[np.maximum(place - 1, 0)]
    since, until = launches.end_ns[before], launches.start_ns[rows]
    ends = np.sort(calls.end_ns)
    waited = (place == 0) | (np.searchsorted(ends, until, "right") > np.searchsorted(ends, since, "right"))
    replay_ns = np.zeros(len(launches))
    linked = context.replays.launch_row != NONE
    replay_ns[context.replays.launch_row[linked]] = (context.replays.end_ns - context.replays.start_ns)[linked]
    ahead = np.clip(until - since + costs - replay_ns[before], 0, costs)
    return np.where(waited, costs, ahead)
