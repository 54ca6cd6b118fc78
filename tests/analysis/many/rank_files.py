"""Rank files whose figures can be worked out in the head: a step each millisecond, kernels of 10 µs, an all-reduce."""

from __future__ import annotations

from pathlib import Path

from launchscope.analysis.inputs.sources import Source
from launchscope.analysis.many.document import RankRow
from launchscope.analysis.many.one_file import Job
from launchscope.fixtures.builder import TraceBuilder, trace

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
STEPS = 6
KERNELS = 4
KERNEL = 10  # µs
PERIOD = 1000  # µs


def rank_trace(
    rank: int,
    *,
    world: int = 8,
    steps: int = STEPS,
    kernels: int = KERNELS,
    period: int = PERIOD,
    kernel: int = KERNEL,
    waiting: int | None = None,
) -> TraceBuilder:
    """A rank: every step launches its kernels 50 µs apart, each starts 10 µs later and runs 10 µs.

    With ``waiting`` it then waits so long inside an all-reduce, of which 5 µs more are transfer.
    """
    made = trace().header(distributedInfo={"backend": "nccl", "rank": rank, "world_size": world})
    for number in range(steps):
        begun = 100 + period * number
        made.step(number, begun, period - 10)
        for place in range(kernels):
            made.launch(begun + 50 * place, 5).kernel(begun + 50 * place + 10, kernel)
        if waiting is not None:
            end = begun + 50 * kernels + 400
            made.launch(end - waiting - 15, 5).kernel(end - waiting - 5, waiting + 5, name=ALL_REDUCE)
    return made


def write_ranks(folder: Path, count: int) -> list[Path]:
    """Files of so many ranks that are all alike, plain and packed in turn."""
    folder.mkdir(exist_ok=True)
    names = [f"rank{rank}.json" + (".gz" if rank % 2 else "") for rank in range(count)]
    return [rank_trace(rank, world=count).write(folder / name) for rank, name in enumerate(names)]


def job_of(path: Path | str) -> Job:
    """What a worker gets for a local file."""
    return Job(Source(str(path), Path(path).name))


def row(rank: int, **figures: object) -> RankRow:
    """A row with what a test is about."""
    known = {"gpu_ops": 100, "steps": 10, "steps_found": 10} | figures
    return RankRow(path=f"/traces/rank{rank}.json", name=f"rank{rank}.json", rank=rank, **known)  # type: ignore[arg-type]
