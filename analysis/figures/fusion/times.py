"""What a step's GPU ops take, and the host before their launches, from the passes that stretch neither.

No time is taken from the `stacks` pass, which has the shapes: its ops are matched, one by one, with those of the `cuda`
pass of the same mode.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ...facts.alignment import step_ops
from ...facts.context import Context
from ...model.columns import follow
from ...model.op_names import same_op
from ...model.trace import NONE, Ints, OpKind, Trace
from .step import OpTimes


def op_times(context: Context, names: Sequence[str], host_submit_ns: float | None) -> OpTimes | None:
    """Medians over the kept steps that run ops of these names in this order; None where none does.

    The host's time is from the start of one launch call to that of the next, the first one's from the step's own
    start, scaled to ``host_submit_ns`` in all, which no profiler stretched. None without it.
    """
    trace = context.trace
    found = [rows for rows in _steps_rows(context) if _names(trace, rows) == list(names)]
    if not found:
        return None
    ns = np.median([trace.gpu_ops.dur_ns[rows] for rows in found], axis=0)
    host = np.median([_host_ns(context, rows) for rows in found], axis=0)
    scaled = None if host_submit_ns is None or host.sum() <= 0 else (host * host_submit_ns / host.sum()).tolist()
    return OpTimes(context.name, ns.tolist(), scaled)


def names_of_step(context: Context) -> list[str]:
    """What the GPU ops of a typical step are matched by, in launch order."""
    return _names(context.trace, step_ops(context))


def _steps_rows(context: Context) -> list[Ints]:
    """GPU ops of each kept step, in launch order."""
    trace, steps, ops = context.trace, context.steps, context.trace.gpu_ops
    launched = np.where(ops.launch_row == NONE, ops.start_ns, follow(trace.launches.start_ns, ops.launch_row))
    found = []
    for step in steps.kept_rows.tolist():
        rows = np.flatnonzero(steps.op_step == step)
        found.append(rows[np.lexsort((ops.start_ns[rows], launched[rows]))])
    return found


def _names(trace: Trace, rows: Ints) -> list[str]:
    ops = trace.gpu_ops
    pairs = zip(ops.name[rows].tolist(), ops.kind[rows].tolist(), strict=True)
    return [same_op(trace.name(name), OpKind(kind).word) for name, kind in pairs]


def _host_ns(context: Context, rows: Ints) -> NDArray[np.float64]:
    """From the launch call before to that of each op."""
    trace, steps = context.trace, context.steps
    launch_row = trace.gpu_ops.launch_row[rows]
    begun = int(steps.start_ns[steps.op_step[rows[0]]]) if len(rows) else 0
    starts = np.where(launch_row == NONE, begun, follow(trace.launches.start_ns, launch_row))
    return np.maximum(np.diff(np.maximum.accumulate(starts), prepend=begun), 0).astype(np.float64)
