"""GPU ops by name: which kernels take the time."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from ..facts.context import Context
from ..model.columns import numbered
from ..model.document import KernelDoc
from ..model.kernel_names import short_names
from ..model.trace import NONE, Ints, OpKind, narrow
from ..story import Listing, TypedColumn, TypedTable
from .figure import Figure

ROWS: Final = 8  # names without --verbose


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
    busy_ns = float(context.busy_ns.sum()) if len(rows) else 0.0
    del rows, group, order
    docs = [_kernel_doc(context, its_rows, busy_ns) for its_rows in members]
    return sorted(docs, key=lambda doc: (-doc.total_ns, doc.name, doc.category))


def _kernel_doc(context: Context, rows: Ints, busy_ns: float) -> KernelDoc:
    """``busy_ns`` is that of the kept steps, or of the whole file without any, as the share is of."""
    trace, steps = context.trace, context.steps
    ops, kept = trace.gpu_ops, steps.kept_rows
    dur_ns = ops.dur_ns[rows]
    total = int(dur_ns.sum())
    median, p90 = np.percentile(dur_ns, (50, 90))
    names, counts = np.unique(context.operators[rows], return_counts=True)
    likely = int(names[np.argmax(counts)])
    per_step = np.isin(steps.op_step[rows], kept)
    counted = int(dur_ns[per_step].sum()) if len(kept) else total
    return KernelDoc(
        name=trace.name(int(ops.name[rows[0]])),
        category=OpKind(ops.kind[rows[0]]).word,
        count=len(rows),
        total_ns=total,
        median_ns=float(median),
        p90_ns=float(p90),
        share_of_busy=counted / busy_ns if busy_ns else 0.0,
        operator=None if likely == NONE else trace.name(likely),
        count_per_step=int(per_step.sum()) / len(kept) if len(kept) else None,
        ns_per_step=counted / len(kept) if len(kept) else None,
    )


class KernelRow(msgspec.Struct, frozen=True):
    """A kernel as tables show it."""

    kernel: str  # short, yet told apart from the others
    name: str
    category: str
    count: int
    per_step: float | None
    ns_per_step: float | None
    total_ns: int
    median_ns: float
    p90_ns: float
    share: float
    operator: str | None  # marked with * where it is inferred


def kernel_rows(docs: Sequence[KernelDoc]) -> list[KernelRow]:
    """One per document, the longest first: of the steps, where there are some."""
    names = short_names(doc.name for doc in docs)
    return [
        KernelRow(
            names[doc.name] or "(no name)",
            doc.name,
            doc.category,
            doc.count,
            doc.count_per_step,
            doc.ns_per_step,
            doc.total_ns,
            doc.median_ns,
            doc.p90_ns,
            doc.share_of_busy,
            f"{doc.operator}*" if doc.operator and doc.operator_inferred else doc.operator or None,
        )
        for doc in sorted(docs, key=lambda doc: (-(doc.ns_per_step or 0.0), -doc.total_ns))
    ]


def _table(docs: Sequence[KernelDoc], title: str = "kernel", limit: int | None = None) -> TypedTable:
    """By step where each has figures of a step, as the GPU work is."""
    rows = kernel_rows(docs)
    by_step = all(row.ns_per_step is not None and row.per_step is not None for row in rows[:limit])
    inferred = any(row.operator and row.operator.endswith("*") for row in rows[:limit])
    return TypedTable(
        [
            TypedColumn("kernel", title, "name", least=30, foreign=True, whole="name"),
            TypedColumn("category", "kind", "name", wide_only=True),
            TypedColumn("count", "count", wide_only=by_step),
            TypedColumn("per_step", "count\nper step", wide_only=not by_step),
            TypedColumn("ns_per_step", "time\nper step", "ns", wide_only=not by_step),
            TypedColumn("total_ns", "total", "ns", wide_only=by_step),
            TypedColumn("median_ns", "median", "ns", rank=1),
            TypedColumn("p90_ns", "p90", "ns", optional=True),
            TypedColumn("share", "of\nbusy", "share"),
            TypedColumn(
                "operator", "operator\n* inferred" if inferred else "operator", "name", rank=2, least=16, foreign=True
            ),
        ],
        rows,
        ["* operators of the aligned recording that has them"] if inferred else [],
    )


def longest_kernels(docs: Sequence[KernelDoc], title: str, limit: int | None) -> list[Listing]:
    """The kernels that took the most time, by name."""
    return _table(docs, title, limit).listing(limit)


KERNELS: Final = Figure(
    "kernels",
    "GPU ops by name: how many, how long, of which operator",
    list[KernelDoc],
    kernel_table,
    tables=lambda trace, verbose: longest_kernels(trace.kernels, "longest kernels", None if verbose else ROWS),
    table=_table,
)
