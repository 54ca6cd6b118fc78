"""GPU ops by name: which kernels take the time, how many are short, and what memory operations move."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..facts.context import Context
from ..facts.trace_times import submits_as_profiled
from ..model.columns import numbered
from ..model.document import KernelDoc, MemoryOpsDoc, ShortKernelsDoc, ShortShareDoc
from ..model.statistics import summarize
from ..model.trace import NONE, Ints, OpKind, narrow

SHORT_NS: Final = 10_000
"""A decode step's kernels take 1–10 µs; below this a launch from the host costs as much as the kernel."""


def kernel_table(context: Context) -> list[KernelDoc]:
    """One row per name and category of the headline device's GPU ops, the longest in total first.

    The operator is the one most of them were launched by, null where none was recorded. Per-step figures are over
    kept steps and their own ops, null without any.
    """
    ops = context.trace.gpu_ops
    rows = narrow(np.flatnonzero(ops.device == context.headline))
    group = narrow(numbered(ops.name[rows], ops.kind[rows]))
    order = narrow(np.argsort(group, kind="stable"))
    members = np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1) if len(rows) else []
    op_sum = int(ops.dur_ns[rows].sum())
    del rows, group, order
    docs = [_kernel_doc(context, its_rows, op_sum) for its_rows in members]
    return sorted(docs, key=lambda doc: (-doc.total_ns, doc.name, doc.category))


def short_kernels(context: Context) -> ShortKernelsDoc:
    """Share of the headline device's kernels below 10 µs and below τ, by count and by time; null without kernels or τ.

    τ is τ_step where it can be told, else the median launch overhead.
    """
    if context.headline is None:
        return ShortKernelsDoc(below_10us=None, below_tau=None, tau_ns=None, tau_source=None)
    ops = context.trace.gpu_ops
    dur_ns = ops.dur_ns[ops.is_kernel & (ops.device == context.headline)]
    tau_ns, tau_source = _tau(context)
    return ShortKernelsDoc(
        below_10us=_share_below(dur_ns, SHORT_NS),
        below_tau=None if tau_ns is None else _share_below(dur_ns, tau_ns),
        tau_ns=tau_ns,
        tau_source=None if tau_ns is None else tau_source,
    )


def _tau(context: Context) -> tuple[float | None, str]:
    steps, submit_ns = context.step_figures, context.host_submit_ns
    launches = None if steps is None else steps.launches.median
    if steps and launches and submit_ns is not None and not submits_as_profiled(steps, context.queue_depth):
        return submit_ns / launches, "tau_step"
    return summarize(context.launch_times.overhead_ns).median, "median launch overhead"


def memory_ops(context: Context) -> MemoryOpsDoc:
    """Bytes and GPU time of the headline device's copies and sets; bytes are null when the file lacks some op's."""
    if context.headline is None:
        return MemoryOpsDoc(bytes=None, ns=0)
    ops = context.trace.gpu_ops
    moving = ~ops.is_kernel & (ops.device == context.headline)
    moved = ops.bytes[moving]
    return MemoryOpsDoc(bytes=None if (moved == NONE).any() else int(moved.sum()), ns=int(ops.dur_ns[moving].sum()))


def _kernel_doc(context: Context, rows: Ints, op_sum: int) -> KernelDoc:
    trace, steps = context.trace, context.steps
    ops, kept = trace.gpu_ops, steps.kept_rows
    dur_ns = ops.dur_ns[rows]
    total = int(dur_ns.sum())
    median, p90 = np.percentile(dur_ns, (50, 90))
    names, counts = np.unique(context.operators[rows], return_counts=True)
    likely = int(names[np.argmax(counts)])
    per_step = np.isin(steps.op_step[rows], kept)
    return KernelDoc(
        name=trace.name(int(ops.name[rows[0]])),
        category=OpKind(ops.kind[rows[0]]).word,
        count=len(rows),
        total_ns=total,
        median_ns=float(median),
        p90_ns=float(p90),
        share_of_busy=total / op_sum if op_sum else 0.0,
        operator=None if likely == NONE else trace.name(likely),
        count_per_step=int(per_step.sum()) / len(kept) if len(kept) else None,
        ns_per_step=int(dur_ns[per_step].sum()) / len(kept) if len(kept) else None,
    )


def _share_below(dur_ns: Ints, limit_ns: float) -> ShortShareDoc | None:
    """Share of kernels that are shorter than the limit; null when there are none, or none that took any time."""
    total = int(dur_ns.sum())
    if not total:
        return None
    short = dur_ns < limit_ns
    return ShortShareDoc(by_count=float(np.mean(short)), by_time=int(dur_ns[short].sum()) / total)
