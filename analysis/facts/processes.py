"""One trace for each process of a file that merges several ranks: marks, launches and streams are of one process."""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ..model.columns import follow
from ..model.trace import Bools, Ints, Trace
from .lost_calls import find_lost_calls

LEAST_SHARE: Final = 0.01
"""Of the launch calls: a process that makes fewer is a helper, not a rank."""

MOST_LOST: Final = 0.01
"""Of a process's launch calls without a GPU op: over that the ops went to another process's launches."""


def launching_processes(trace: Trace) -> tuple[Ints, Ints]:
    """The processes that launch, by their first call, and how many launch calls each makes."""
    lost = find_lost_calls(trace).rows
    process = np.append(trace.launches.process, trace.host_ops.process[lost])
    start_ns = np.append(trace.launches.start_ns, trace.host_ops.start_ns[lost])
    found, counts = np.unique(process, return_counts=True)
    first_ns = np.array([start_ns[process == each].min() for each in found.tolist()], np.int64)
    order = np.argsort(first_ns, kind="stable")
    return found[order], counts[order]


def by_process(trace: Trace) -> list[Trace]:
    """The trace of each rank, by its first launch; the trace itself where one process launches, or where the links of
    several can't be told apart (their ids collide on one device): that is then refused as merged.
    """
    processes, counts = launching_processes(trace)
    ranks = processes[counts > LEAST_SHARE * counts.sum()]
    if len(ranks) < 2:
        return [trace]
    parts = [_of_process(trace, int(process)) for process in ranks.tolist()]
    lossy = any(len(find_lost_calls(part).rows) > MOST_LOST * max(len(part.launches), 1) for part in parts)
    return [trace] if lossy else parts


def _of_process(trace: Trace, process: int) -> Trace:
    ops, launches, calls, host = trace.gpu_ops, trace.launches, trace.blocking_calls, trace.host_ops
    of_ops, of_launches, of_calls, of_host = (table.process == process for table in (ops, launches, calls, host))
    own_ops, own_launches, own_calls = ops.take(of_ops), launches.take(of_launches), calls.take(of_calls)
    devices = set(np.unique(own_ops.device).tolist())
    return replace(
        trace,
        gpu_ops=replace(own_ops, launch_row=_moved(own_ops.launch_row, of_launches)),
        launches=replace(own_launches, operator_row=_moved(own_launches.operator_row, of_host)),
        blocking_calls=replace(own_calls, operator_row=_moved(own_calls.operator_row, of_host)),
        host_ops=host.take(of_host),
        device_names={device: name for device, name in trace.device_names.items() if device in devices},
    )


def _moved(rows: Ints, kept: Bools) -> Ints:
    """References to rows of a table of which these are kept."""
    place = np.where(kept, np.cumsum(kept) - 1, -1)
    return follow(place, rows)
