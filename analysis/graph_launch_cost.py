"""What launching graphs takes the host, and how much of it the GPU is idle for."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from .bound import graph_launch_cost_ns
from .capture import Calibration
from .graph_document import GraphLaunchDoc
from .graph_scope import Examined
from .intervals import Intervals
from .trace import NONE, Ints

Reals = NDArray[np.float64]


def graph_launch(e: Examined) -> GraphLaunchDoc | None:
    """Unprofiled, by the calibration, in our own captures, where most of the call is CUPTI's; else as profiled."""
    rows, launches = e.graph_launches, e.trace.launches
    if not len(rows):
        return None
    launch_row = e.trace.gpu_ops.launch_row
    nodes = np.bincount(launch_row[launch_row != NONE], minlength=len(launches))[rows]
    idle = Intervals.union(e.whole.start_ns, e.whole.end_ns)
    exposed_ns = idle.covered_ns(launches.start_ns[rows], launches.end_ns[rows]).astype(np.float64)
    source, exposed = "as profiled", float(exposed_ns.sum())
    host: float | None = float(np.median(launches.dur_ns[rows]))
    told: float | None = exposed
    if e.own_capture:
        costs = _calibrated(nodes, e.calibration)
        source = "as profiled" if costs is None else "calibration"
        host = None if costs is None else float(np.median(costs))
        told = None if costs is None else float(np.minimum(exposed_ns, _unhidden(e, costs)).sum())
    return GraphLaunchDoc(
        count=len(rows),
        per_step=e.per_step(len(rows), e.replaying),
        nodes=float(np.median(nodes)),
        host_ns=host,
        as_profiled_ns=float(np.median(launches.dur_ns[rows])),
        source=source,
        exposed_ns=told if told is None or not e.has_steps else e.per_step(told, e.replaying),
    )


def _calibrated(nodes: Ints, calibration: Calibration | None) -> Reals | None:
    """Unprofiled host cost of each launch; None without a calibration of it."""
    costs = [None if calibration is None else graph_launch_cost_ns(int(count), calibration) for count in nodes]
    known = [cost for cost in costs if cost is not None]
    return np.array(known) if len(known) == len(costs) else None


def _unhidden(e: Examined, costs: Reals) -> Reals:
    """How much of each launch the replay before it can't hide.

    All of it, where the host waited for the GPU since the launch before. Else the host runs ahead: only what it takes
    from one launch to the next, longer than that replay. Profiled, it falls behind by the profiler's own doing.
    """
    rows, launches, calls = e.graph_launches, e.trace.launches, e.trace.blocking_calls
    every = np.flatnonzero(launches.is_graph)
    place = np.searchsorted(every, rows)
    before = every[np.maximum(place - 1, 0)]
    since, until = launches.end_ns[before], launches.start_ns[rows]
    ends = np.sort(calls.end_ns)
    waited = (place == 0) | (np.searchsorted(ends, until, "right") > np.searchsorted(ends, since, "right"))
    replay_ns = np.zeros(len(launches))
    linked = e.replays.launch_row != NONE
    replay_ns[e.replays.launch_row[linked]] = (e.replays.end_ns - e.replays.start_ns)[linked]
    ahead = np.clip(until - since + costs - replay_ns[before], 0, costs)
    return np.where(waited, costs, ahead)
