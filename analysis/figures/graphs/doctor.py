"""Did CUDA graphs engage in a trace: what runs in replays, what is launched beside them, and which steps fell back.

Over the kept steps where there are any, else over the whole file. docs/metrics.md, "Graph doctor", defines all.
"""

from __future__ import annotations

import numpy as np

from ...facts.context import Context
from ...model.graph_document import GraphDoctorDoc, GraphStepDoc
from ...model.trace import NONE
from .beside import between_replays, launched_outside
from .fallback import fallback
from .launch_cost import graph_launch


def graph_doctor(context: Context) -> GraphDoctorDoc:
    """Everything that the trace tells; the findings are added by those who put them in words."""
    ops, launches = context.trace.gpu_ops, context.trace.launches
    replays = (
        np.flatnonzero(np.isin(context.replays.launch_row, context.graph_launches))
        if len(context.graph_launches)
        else ()
    )
    kernels, in_graphs = int(context.linked_kernels.sum()), int(context.graph_kernels.sum())
    outside = ~launches.is_graph & context.in_scope(context.steps.launch_step)
    return GraphDoctorDoc(
        engaged=None if not kernels else "none" if not in_graphs else "all" if in_graphs == kernels else "part",
        scope="steps" if context.has_steps else "whole",
        kernels=kernels,
        kernels_in_graphs=in_graphs,
        kernel_ns=int(ops.dur_ns[context.linked_kernels].sum()),
        kernel_ns_in_graphs=int(ops.dur_ns[context.graph_kernels].sum()),
        launches_outside=int(outside.sum()),
        replays=len(replays),
        kernels_per_replay=_kernels_per_replay(context),
        under_recorded=int(context.replays.under_recorded.sum()),
        graph_launch=graph_launch(context),
        fallback=fallback(context),
        outside=launched_outside(context) if in_graphs else [],
        between=between_replays(context) if len(replays) > 1 else [],
        steps=_steps(context) if context.replaying.any() else [],
        findings=[],
    )


def _kernels_per_replay(context: Context) -> list[int]:
    ops = context.trace.gpu_ops
    counts = np.bincount(ops.launch_row[context.graph_kernels], minlength=len(context.trace.launches))[
        context.graph_launches
    ]
    return [int(counts.min()), int(np.median(counts)), int(counts.max())] if len(counts) else []


def _steps(context: Context) -> list[GraphStepDoc]:
    ops, launches, steps = context.trace.gpu_ops, context.trace.launches, context.steps
    columns = [context.steps.counted(steps.launch_step[launches.is_graph])]
    columns += [context.steps.counted(steps.op_step[rows]) for rows in (context.linked_kernels, context.graph_kernels)]
    for rows in (context.linked_kernels, context.graph_kernels):
        inside = rows & (steps.op_step != NONE)
        columns.append(np.bincount(steps.op_step[inside], weights=ops.dur_ns[inside], minlength=len(steps)))
    columns.append(context.steps.counted(steps.launch_step[~launches.is_graph]))
    return [
        GraphStepDoc(
            step=steps.names[row],
            **dict(zip(GraphStepDoc.__struct_fields__[1:], (int(column[row]) for column in columns), strict=True)),
        )
        for row in steps.kept_rows.tolist()
    ]
