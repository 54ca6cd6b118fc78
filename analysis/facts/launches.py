"""Launches: what they cost the host, how long their work waited, who made them, and how deep the queue was."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ..model.columns import follow, named
from ..model.document import LaunchesDoc, OperatorDoc, QueueDepthDoc
from ..model.statistics import summarize
from ..model.trace import NONE, Ints, Trace
from .stacks import CallStacks
from .steps import Steps


@dataclass(frozen=True, eq=False)
class LaunchTimes:
    """Times of every launch, a row each of Trace.launches. Negative ones are kept: METRICS says what they mean."""

    first_op: Ints  # row of its earliest GPU op
    overhead_ns: Ints  # host time inside the call
    latency_ns: Ints  # call start to start of its earliest GPU op; negative: the clocks disagree
    queue_ns: Ints  # call end to start of its earliest GPU op; negative: the op started before the call returned


def launch_times(trace: Trace) -> LaunchTimes:
    """Overhead, latency and queue time of each launch, by its earliest GPU op."""
    launches, ops = trace.launches, trace.gpu_ops
    first_op = trace.first_ops()
    first_start = ops.start_ns[first_op]
    return LaunchTimes(first_op, launches.dur_ns, first_start - launches.start_ns, first_start - launches.end_ns)


def launches_doc(trace: Trace, times: LaunchTimes, stacks: CallStacks, steps: Steps) -> LaunchesDoc:
    """The ``launches`` object of the report."""
    counts = np.bincount(trace.launches.api, minlength=len(trace.names))
    apis = np.flatnonzero(counts)
    apis = apis[np.argsort(-counts[apis], kind="stable")]
    return LaunchesDoc(
        overhead_ns=summarize(times.overhead_ns),
        latency_ns=summarize(times.latency_ns),
        queue_ns=summarize(times.queue_ns),
        by_api={trace.name(api): int(counts[api]) for api in apis.tolist()},
        by_operator=_by_operator(trace, stacks, steps),
    )


def _by_operator(trace: Trace, stacks: CallStacks, steps: Steps) -> list[OperatorDoc]:
    """Launches and their kernels by innermost operator and the stack around the call, most launches first.

    Without recorded operators: one row, operator null. Per-step counts are over kept steps, null without any.
    """
    launches, ops = trace.launches, trace.gpu_ops
    operator = follow(trace.host_ops.name, launches.operator_row)
    stack = stacks.of_launch
    _, first, group, count = np.unique(
        (operator - NONE) * len(stacks.stacks) + stack, return_index=True, return_inverse=True, return_counts=True
    )
    of_kernel = ops.launch_row[ops.is_kernel & (ops.launch_row != NONE)]
    kept, in_step = int(steps.kept.sum()), follow(steps.kept, steps.launch_step, absent=False)

    def counts(rows: Ints) -> Ints:
        return np.bincount(group[rows], minlength=len(first))

    its_kernels = counts(of_kernel)
    step_launches, step_kernels = counts(np.flatnonzero(in_step)), counts(of_kernel[in_step[of_kernel]])
    order = np.lexsort((first, -count))
    heads, name_of = first[order], trace.names.__getitem__
    rows = zip(
        named(trace.names, operator[heads]),
        stack[heads].tolist(),
        count[order].tolist(),
        its_kernels[order].tolist(),
        step_launches[order].tolist(),
        step_kernels[order].tolist(),
        strict=True,
    )
    return [
        OperatorDoc(
            operator=name,
            launches=launched,
            kernels=ran,
            stack=list(map(name_of, stacks.stacks[number])),
            launches_per_step=launched_in_steps / kept if kept else None,
            kernels_per_step=ran_in_steps / kept if kept else None,
        )
        for name, number, launched, ran, launched_in_steps, ran_in_steps in rows
    ]


def launching_operators(trace: Trace, launch_row: Ints) -> Ints:
    """Name of the innermost operator around each of these launches, NONE where none is recorded."""
    return follow(trace.host_ops.name, follow(trace.launches.operator_row, launch_row))


def queue_depth(trace: Trace, device: int, windows: Sequence[tuple[int, int]] | None = None) -> QueueDepthDoc:
    """GPU ops launched (call ended) and not started: the median over time and the maximum, in the windows.

    Without windows: from the device's first GPU op to its last. Null when no op's launch is in the file.
    """
    ops = trace.gpu_ops
    linked = (ops.device == device) & (ops.launch_row != NONE)
    if not linked.any():
        return QueueDepthDoc(median=None, max=None)
    if windows is None:
        on_device = ops.device == device
        windows = [(int(ops.start_ns[on_device].min()), int(ops.end_ns[on_device].max()))]
    called_ns = trace.launches.end_ns[ops.launch_row[linked]]
    median, most = _depth(called_ns, ops.start_ns[linked], windows)
    first_op = trace.first_ops()
    its_launches = np.flatnonzero(linked[first_op])
    _, most_launches = _depth(trace.launches.end_ns[its_launches], ops.start_ns[first_op[its_launches]], windows)
    return QueueDepthDoc(median=median, max=most, max_launches=most_launches)


def _depth(called_ns: Ints, started_ns: Ints, windows: Sequence[tuple[int, int]]) -> tuple[float | None, int | None]:
    """Median over time and maximum of the number of open intervals [called, started), null in windows of no length."""
    waits = started_ns > called_ns
    edges = np.array(windows, dtype=np.int64)
    times = np.concatenate([called_ns[waits], started_ns[waits], edges.ravel()])
    origin, count = edges.min(), int(waits.sum())
    edges -= origin
    times -= origin
    times *= 4  # one column to sort: a time, and in its two lowest bits the change there plus 1
    times[:count] += 2
    times[2 * count :] += 1
    times.sort()
    depth = np.cumsum((times & 3).astype(np.int8) - 1, dtype=np.int32)[:-1]
    times >>= 2
    inside = np.zeros(len(depth), np.bool_)
    for begin, end in np.searchsorted(times, edges).tolist():
        inside[begin:end] = True
    lasts_ns = np.diff(times)
    inside &= lasts_ns > 0
    if not inside.any():
        return None, None
    of_depth_ns = np.bincount(depth[inside], lasts_ns[inside])
    until = np.cumsum(of_depth_ns)
    return float(np.searchsorted(until, until[-1] / 2)), len(of_depth_ns) - 1
