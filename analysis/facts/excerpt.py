"""A part of a trace as a trace of its own: one mode of a profiler session that several modes shared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ..model.columns import follow
from ..model.trace import NONE, Bools, Ints, Trace


def excerpt(trace: Trace, start_ns: int, end_ns: int | None) -> Trace:
    """What the host began in [start, end), to the end of the trace for null, and the GPU ops of its launches; of ops
    without a launch, those that start there.

    The devices and what the reader had to say stay those of the whole file.
    """
    ops, launches, blocking = trace.gpu_ops, trace.launches, trace.blocking_calls
    launched_ns = follow(launches.start_ns, ops.launch_row)
    op = _within(np.where(ops.launch_row == NONE, ops.start_ns, launched_ns), start_ns, end_ns)
    launch = _within(launches.start_ns, start_ns, end_ns)
    call = _within(blocking.start_ns, start_ns, end_ns)
    host_op = _within(trace.host_ops.start_ns, start_ns, end_ns)
    return replace(
        trace,
        gpu_ops=replace(ops.take(op), launch_row=_moved(ops.launch_row[op], launch)),
        launches=replace(launches.take(launch), operator_row=_moved(launches.operator_row[launch], host_op)),
        blocking_calls=replace(blocking.take(call), operator_row=_moved(blocking.operator_row[call], host_op)),
        host_ops=trace.host_ops.take(host_op),
    )


def _within(times_ns: Ints, start_ns: int, end_ns: int | None) -> Bools:
    begun = times_ns >= start_ns
    return begun if end_ns is None else begun & (times_ns < end_ns)


def _moved(rows: Ints, kept: Bools) -> Ints:
    """References to the rows of a table of which ``kept`` remain; NONE to one that does not."""
    return follow(np.where(kept, np.cumsum(kept) - 1, NONE), rows)
