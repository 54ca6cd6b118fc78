"""Did CUDA graphs engage in a trace: what runs in replays, what is launched beside them, and which steps fell back.

Over the kept steps where there are any, else over the whole file. docs/metrics.md, "Graph doctor", defines all.
"""

from __future__ import annotations

import numpy as np

from ...model.graph_document import GraphDoctorDoc, GraphStepDoc
from ...model.trace import NONE
from .beside import between_replays, launched_outside
from .fallback import fallback
from .launch_cost import graph_launch
from .scope import Examined


def graph_doctor(examined: Examined) -> GraphDoctorDoc:
    """Everything that the trace tells; the findings are added by those who put them in words."""
    e, ops, launches = examined, examined.trace.gpu_ops, examined.trace.launches
    replays = np.flatnonzero(np.isin(e.replays.launch_row, e.graph_launches)) if len(e.graph_launches) else ()
    kernels, in_graphs = int(e.linked.sum()), int(e.in_graph.sum())
    outside = ~launches.is_graph & e.in_scope(e.steps.launch_step)
    return GraphDoctorDoc(
        engaged=None if not kernels else "none" if not in_graphs else "all" if in_graphs == kernels else "part",
        scope="steps" if e.has_steps else "whole",
        kernels=kernels,
        kernels_in_graphs=in_graphs,
        kernel_ns=int(ops.dur_ns[e.linked].sum()),
        kernel_ns_in_graphs=int(ops.dur_ns[e.in_graph].sum()),
        launches_outside=int(outside.sum()),
        replays=len(replays),
        kernels_per_replay=_kernels_per_replay(e),
        under_recorded=int(e.replays.under_recorded.sum()),
        graph_launch=graph_launch(e),
        fallback=fallback(e),
        outside=launched_outside(e) if in_graphs else [],
        between=between_replays(e) if len(replays) > 1 else [],
        steps=_steps(e) if e.replaying.any() else [],
        findings=[],
    )


def _kernels_per_replay(e: Examined) -> list[int]:
    ops = e.trace.gpu_ops
    counts = np.bincount(ops.launch_row[e.in_graph], minlength=len(e.trace.launches))[e.graph_launches]
    return [int(counts.min()), int(np.median(counts)), int(counts.max())] if len(counts) else []


def _steps(e: Examined) -> list[GraphStepDoc]:
    ops, launches, steps = e.trace.gpu_ops, e.trace.launches, e.steps
    columns = [e.counted(steps.launch_step[launches.is_graph])]
    columns += [e.counted(steps.op_step[rows]) for rows in (e.linked, e.in_graph)]
    for rows in (e.linked, e.in_graph):
        inside = rows & (steps.op_step != NONE)
        columns.append(np.bincount(steps.op_step[inside], weights=ops.dur_ns[inside], minlength=len(steps)))
    columns.append(e.counted(steps.launch_step[~launches.is_graph]))
    return [
        GraphStepDoc(
            step=steps.names[row],
            **dict(zip(GraphStepDoc.__struct_fields__[1:], (int(column[row]) for column in columns), strict=True)),
        )
        for row in steps.kept_rows.tolist()
    ]
