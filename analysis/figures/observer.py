"""What the profiler itself cost, and the idle time of a step without it.

CUPTI makes the host call of a graph replay 1–2 ms long (NVIDIA H200, CUDA 13.0, 735 nodes), where it takes 25 µs
without a profiler. The `launch` part of a gap before a replay is therefore replaced by what `launchscope calibrate`
measured for a graph of as many nodes (docs/metrics.md, "A profiled model").
"""

from __future__ import annotations

from collections.abc import Iterable
from statistics import median
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model.capture import Calibration
from ..model.document import ObserverDoc
from ..model.trace import NONE
from ..step_model import graph_launch_cost_ns

KERNEL_STRETCH_NS: Final = 130.0
"""CUPTI stretches each kernel of a replay by about this much: NVIDIA H200, CUDA 13.0, torch 2.11, 2026."""


def observer_effect(sessions: Iterable[tuple[str, float, float]]) -> dict[str, ObserverDoc]:
    """Per pass: step time inside the session ÷ unprofiled step time of the same process; its range over processes.

    ``sessions`` are (pass, step time inside in ns, unprofiled step time in ns), one per process. A pass of one
    process has no range.
    """
    ratios: dict[str, list[float]] = {}
    for name, inside, unprofiled in sessions:
        if unprofiled > 0:
            ratios.setdefault(name, []).append(inside / unprofiled)
    return {
        name: ObserverDoc(
            median=median(found),
            low=min(found) if len(found) > 1 else None,
            high=max(found) if len(found) > 1 else None,
        )
        for name, found in ratios.items()
    }


def taxes_without_observer(context: Context, calibration: Calibration | None) -> dict[str, float] | None:
    """The six taxes of the headline device's idle time with the profiler's share of graph launches taken out, in ns.

    None when there is such a share and no calibration to put in its place. The replacement never exceeds the part
    that it stands for: unprofiled, a launch that fits behind the previous replay costs nothing.
    """
    gaps = context.headline_gaps
    taxes: dict[str, float] = {tax: float(ns) for tax, ns in gaps.taxes_ns().items()}
    rows = np.flatnonzero(gaps.observer)
    if not len(rows):
        return taxes
    if calibration is None or graph_launch_cost_ns(1, calibration) is None:
        return None
    launch_row = context.trace.gpu_ops.launch_row
    nodes = np.bincount(launch_row[launch_row != NONE], minlength=len(context.trace.launches))
    stalled = gaps.stall_launch_ns[rows]
    profiled = gaps.parts_ns["launch"][rows]
    costs = [graph_launch_cost_ns(int(nodes[launch_row[op]]), calibration) or 0.0 for op in gaps.next_op[rows]]
    unprofiled = np.minimum(profiled, np.asarray(costs))
    taxes["stall"] -= float(stalled.sum())
    taxes["launch"] += float(unprofiled.sum() - (profiled - stalled).sum())
    return taxes
