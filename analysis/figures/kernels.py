"""GPU ops by name: which kernels take the time, how many are short, and what memory operations move."""

from __future__ import annotations

from typing import Final

import numpy as np

from ..facts.launches import launching_operators
from ..facts.steps import Steps
from ..model.columns import numbered
from ..model.document import KernelDoc, MemoryOpsDoc, ShortKernelsDoc, ShortShareDoc
from ..model.trace import NONE, Ints, OpKind, Trace, narrow

SHORT_NS: Final = 10_000
"""A decode step's kernels take 1–10 µs; below this a launch from the host costs as much as the kernel."""


def kernel_table(trace: Trace, device: int, *, steps: Steps | None = None) -> list[KernelDoc]:
    """One row per name and category of the device's GPU ops, the longest in total first.

    The operator is the one most of them were launched by, null where none was recorded. Per-step figures are over
    kept steps and their own ops, null without any.
    """
    ops = trace.gpu_ops
    rows = narrow(np.flatnonzero(ops.device == device))
    group = narrow(numbered(ops.name[rows], ops.kind[rows]))
    order = narrow(np.argsort(group, kind="stable"))
    members = np.split(rows[order], np.flatnonzero(np.diff(group[order])) + 1) if len(rows) else []
    op_sum = int(ops.dur_ns[rows].sum())
    del rows, group, order
    operator = narrow(launching_operators(trace))
    docs = [_kernel_doc(trace, its_rows, op_sum, operator, steps) for its_rows in members]
    return sorted(docs, key=lambda doc: (-doc.total_ns, doc.name, doc.category))


def short_kernels(
    trace: Trace, device: int, *, tau_ns: float | None = None, tau_source: str | None = None
) -> ShortKernelsDoc:
    """Share of the device's kernels below 10 µs and below τ, by count and by time; null without kernels (or τ)."""
    ops = trace.gpu_ops
    dur_ns = ops.dur_ns[ops.is_kernel & (ops.device == device)]
    return ShortKernelsDoc(
        below_10us=_share_below(dur_ns, SHORT_NS),
        below_tau=None if tau_ns is None else _share_below(dur_ns, tau_ns),
        tau_ns=tau_ns,
        tau_source=None if tau_ns is None else tau_source,
    )


def memory_ops(trace: Trace, device: int) -> MemoryOpsDoc:
    """Bytes and GPU time of the device's copies and sets; bytes are null when the file lacks some op's."""
    ops = trace.gpu_ops
    moving = ~ops.is_kernel & (ops.device == device)
    moved = ops.bytes[moving]
    return MemoryOpsDoc(bytes=None if (moved == NONE).any() else int(moved.sum()), ns=int(ops.dur_ns[moving].sum()))


def _kernel_doc(trace: Trace, rows: Ints, op_sum: int, operator: Ints, steps: Steps | None) -> KernelDoc:
    ops = trace.gpu_ops
    dur_ns = ops.dur_ns[rows]
    total = int(dur_ns.sum())
    median, p90 = np.percentile(dur_ns, (50, 90))
    names, counts = np.unique(operator[rows], return_counts=True)
    likely = int(names[np.argmax(counts)])
    kept = steps.kept_rows if steps is not None else np.zeros(0, dtype=np.int64)
    per_step = np.isin(steps.op_step[rows], kept) if steps is not None else np.zeros(len(rows), dtype=np.bool_)
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
