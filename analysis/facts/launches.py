"""Launches: what they cost the host, how long their work waited, who made them, and how deep the queue was; and stacks.

A stack are the operators and Python frames around a host call, outermost first.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..model.columns import follow, last_reaching, named, outermost_first, threads
from ..model.document import LaunchesDoc, OperatorDoc, QueueDepthDoc
from ..model.statistics import summarize
from ..model.trace import NONE, HostKind, Ints, Trace, narrow
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


Stack = tuple[int, ...]
"""Indices into Trace.names, outermost first."""


@dataclass(frozen=True, eq=False)
class CallStacks:
    """The stack of every launch and blocking call: its number, a row each; () where nothing is around the call."""

    of_launch: Ints
    of_blocking_call: Ints
    stacks: Sequence[Stack]  # by number

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """A stack are the operators and Python frames open on the call's thread when it starts.

        Annotations are left out: their numbers would make every step a place of its own.
        """
        tables = (trace.launches, trace.blocking_calls)
        columns = (np.concatenate([getattr(t, name) for t in tables]) for name in ("start_ns", "process", "thread"))
        number, stacks = _enclosing(trace, *columns)
        return cls(number[: len(trace.launches)], number[len(trace.launches) :], stacks)


def _enclosing(trace: Trace, start_ns: Ints, process: Ints, thread: Ints) -> tuple[Ints, list[Stack]]:
    host = trace.host_ops
    frames = narrow(np.flatnonzero((host.kind == HostKind.OPERATOR) | (host.kind == HostKind.PYTHON)))
    frames_of = threads(host.process[frames], host.thread[frames])
    number = np.zeros(len(start_ns), np.int64)
    stacks: list[Stack] = [()]
    for key, calls in threads(process, thread).items():
        if key in frames_of:
            number[calls], its_stacks = _stacks(trace, frames[frames_of[key]], start_ns[calls])
            if len(stacks) == 1:
                stacks = its_stacks
            else:
                known = {stack: place for place, stack in enumerate(stacks)}
                number[calls] = np.array([known.setdefault(each, len(known)) for each in its_stacks])[number[calls]]
                stacks = list(known)
    return number, stacks


def _stacks(trace: Trace, frames: Ints, times_ns: Ints) -> tuple[Ints, list[Stack]]:
    """One thread: the number of the stack at each time, and the stacks by number."""
    host = trace.host_ops
    frames = frames[outermost_first(host.start_ns[frames], host.end_ns[frames])]
    start_ns, end_ns, name = host.start_ns[frames], host.end_ns[frames], host.name[frames]
    del frames
    top = last_reaching(end_ns, np.searchsorted(start_ns, times_ns, side="right"), times_ns)
    around, waiting = _ancestors(start_ns, end_ns, top)
    del start_ns, end_ns
    number = np.full(len(around) + 1, NONE, np.int64)  # of the stack up to each frame
    number[NONE] = 0  # () is around the outermost
    stacks: list[Stack] = [()]
    while len(waiting):
        is_ready = number[around[waiting]] != NONE
        ready, waiting = waiting[is_ready], waiting[~is_ready]
        longer, place = np.unique(number[around[ready]] * len(trace.names) + name[ready], return_inverse=True)
        number[ready] = len(stacks) + place
        outer, inner = (part.tolist() for part in np.divmod(longer, len(trace.names)))
        stacks += [(*stacks[its], frame) for its, frame in zip(outer, inner, strict=True)]
    return number[top], stacks


def _ancestors(start_ns: Ints, end_ns: Ints, frames: Ints) -> tuple[Ints, Ints]:
    """The frame around each frame where it is known, else NONE; and these frames with all around them, by start."""
    around: Ints = np.full(len(start_ns), NONE, np.int32 if len(start_ns) < 2**31 else np.int64)
    is_known = np.zeros(len(start_ns) + 1, np.bool_)
    is_known[NONE] = True
    while len(frames):
        is_fresh = np.zeros(len(start_ns) + 1, np.bool_)
        is_fresh[frames] = True
        frames = np.flatnonzero(is_fresh & ~is_known)
        is_known[frames] = True
        around[frames] = last_reaching(end_ns, frames, start_ns[frames])
        frames = around[frames]
    return around, np.flatnonzero(is_known[:-1])


def stack_of_launch(trace: Trace, launch: int) -> list[str]:
    """The stack around this launch, in names."""
    calls = trace.launches.take(np.array([launch]))
    (stack,) = stacks_at(trace, calls.start_ns, calls.process, calls.thread)
    return [trace.name(frame) for frame in stack]


def stacks_at(trace: Trace, start_ns: Ints, process: Ints, thread: Ints) -> list[Stack]:
    """The stacks of a few host calls that are near each other, by the rules of ``CallStacks``."""
    if not len(start_ns):
        return []
    host = trace.host_ops
    near = (host.start_ns <= start_ns.max()) & (host.end_ns >= start_ns.min())
    number, stacks = _enclosing(replace(trace, host_ops=host.take(near)), start_ns, process, thread)
    return [stacks[each] for each in number.tolist()]
