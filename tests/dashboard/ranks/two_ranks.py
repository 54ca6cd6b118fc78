"""Two ranks of hand-made steps: rank 0 reaches each all-reduce 30 µs before rank 1, whose clock is 1 ms ahead."""

from __future__ import annotations

import tempfile
from functools import cache
from pathlib import Path

from launchscope.analysis.report import Report, analyze
from launchscope.dashboard.opened_report import OpenedReport, open_bands
from launchscope.fixtures.builder import TraceBuilder, trace

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"


def rank_trace(rank: int, *, first: int = 0, steps: int = 4, collectives: bool = True, begin: int = 10) -> TraceBuilder:
    """Steps of 100 µs: 20 µs of compute from ``begin`` on, then an all-reduce: of 40 µs on rank 0, of 10 on rank 1."""
    builder = trace()
    for number in range(first, first + steps):
        at = 1_000 * rank + 100 * number
        builder.step(number, at, 95).launch(at + 2, 4).kernel(at + begin, 20, name="gemm")
        wait = 0 if rank else 30
        if collectives:
            builder.launch(at + 12, 4).kernel(at + 60 - wait, 10 + wait, name=ALL_REDUCE)
    return builder


def report_of(**traces: TraceBuilder) -> Report:
    """A report of these traces, by name."""
    with tempfile.TemporaryDirectory() as folder:
        files = [each.write(Path(folder) / f"{name}.json") for name, each in traces.items()]
        return analyze(*files, cache=False)


@cache
def two_ranks() -> OpenedReport:
    return open_bands(report_of(rank0=rank_trace(0), rank1=rank_trace(1)))
