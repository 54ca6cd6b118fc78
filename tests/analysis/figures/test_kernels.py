"""The table of GPU ops, the share of short kernels, and memory operations."""

from __future__ import annotations

import copy

from launchscope.analysis.facts.context import Context
from launchscope.analysis.figures.kernels import kernel_table
from launchscope.analysis.figures.memory_ops import MEMORY_OPS
from launchscope.analysis.figures.short_kernels import SHORT_KERNELS
from launchscope.analysis.model.document import KernelDoc, MemoryOpsDoc, ShortKernelsDoc, ShortShareDoc
from launchscope.fixtures.builder import trace

US = 1000


def test_one_row_per_name_the_longest_in_total_first() -> None:
    builder = trace().op("aten::mm", 0, 25)
    for at, dur in ((0, 10), (20, 20)):
        builder.launch(at=at, dur=2).kernel(at=at + 5, dur=dur, name="gemm")
    builder.launch(at=40, dur=2).memset(at=50, dur=10)
    assert kernel_table(Context(builder.build())) == [
        KernelDoc(
            name="gemm",
            category="kernel",
            count=2,
            total_ns=30 * US,
            median_ns=15 * US,
            p90_ns=19 * US,
            share_of_busy=0.75,
            operator="aten::mm",
        ),
        KernelDoc(
            name="Memset (Device)",
            category="memset",
            count=1,
            total_ns=10 * US,
            median_ns=10 * US,
            p90_ns=10 * US,
            share_of_busy=0.25,
            operator=None,
        ),
    ]


def test_the_operator_is_the_one_of_most_launches() -> None:
    builder = trace().op("aten::add", 0, 5).op("aten::mul", 10, 30)
    for at in (1, 12, 22):
        builder.launch(at=at, dur=2).kernel(at=at + 4, dur=1, name="elementwise")
    assert [row.operator for row in kernel_table(Context(builder.build()))] == ["aten::mul"]


def test_only_ops_of_the_busiest_device() -> None:
    builder = trace().launch(at=0, dur=1).kernel(at=2, dur=5, name="a").kernel(at=10, dur=5, name="b")
    for dur, expected in ((9, ["a", "b"]), (11, ["c"])):
        both = copy.deepcopy(builder).kernel(at=20, dur=dur, name="c", device=1)
        assert [row.name for row in kernel_table(Context(both.build()))] == expected
    assert kernel_table(Context(trace().build())) == []


def test_per_step_figures_are_over_kept_steps() -> None:
    builder = trace()
    for step in range(3):
        builder.annotation(f"step {step}", step * 100, 50)
        for at in (0, 20):
            builder.launch(at=step * 100 + at, dur=2).kernel(at=step * 100 + at + 5, dur=4)
    builder.launch(at=400, dur=2).kernel(at=410, dur=50)  # outside of every step
    row = kernel_table(Context(builder.build()))[0]
    assert (row.count, row.count_per_step, row.ns_per_step) == (7, 2.0, 8 * US)


def test_short_kernels_by_count_and_by_time() -> None:
    builder = trace().launch(at=0, dur=5)
    for at, dur in ((0, 2), (10, 8), (20, 30)):
        builder.kernel(at=at, dur=dur)
    builder.memset(at=60, dur=1)  # not a kernel
    assert SHORT_KERNELS.of(Context(builder.build())) == ShortKernelsDoc(
        below_10us=ShortShareDoc(by_count=2 / 3, by_time=0.25),
        below_tau=ShortShareDoc(by_count=1 / 3, by_time=0.05),
        tau_ns=5_000.0,
        tau_source="median launch overhead",
    )


def test_short_kernels_are_unknown_without_kernels_or_tau() -> None:
    nothing = ShortKernelsDoc(below_10us=None, below_tau=None, tau_ns=None, tau_source=None)
    assert SHORT_KERNELS.of(Context(trace().build())) == nothing
    without_tau = SHORT_KERNELS.of(Context(trace().kernel(at=2, dur=1, launch=False).build()))
    assert (without_tau.below_10us, without_tau.tau_source) == (ShortShareDoc(by_count=1.0, by_time=1.0), None)
    without_kernels = SHORT_KERNELS.of(Context(trace().launch(at=0, dur=1).memset(at=2, dur=1).build()))
    assert (without_kernels.below_10us, without_kernels.below_tau) == (None, None)


def test_bytes_of_memory_ops_are_unknown_when_one_ops_are() -> None:
    builder = trace().launch(at=0, dur=1).memcpy(at=2, dur=3, bytes=100).memset(at=10, dur=1, bytes=4)
    assert MEMORY_OPS.of(Context(builder.build())) == MemoryOpsDoc(bytes=104, ns=4 * US)
    events = builder.events()
    del events[-1]["args"]["bytes"]
    unknown = trace()
    for event in events:
        unknown.raw(event)
    assert MEMORY_OPS.of(Context(unknown.build())) == MemoryOpsDoc(bytes=None, ns=4 * US)
