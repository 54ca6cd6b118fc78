"""A table of ranks by hand: rank 0 to 4, rank 3 slow in one step, rank 4 not readable."""

from __future__ import annotations

from pathlib import Path

from launchscope.analysis.many.document import AlignmentDoc, OddDoc, RankRow, RanksDocument, StepSeriesDoc
from launchscope.analysis.many.outliers import distributions
from launchscope.analysis.model.statistics import summarize
from launchscope.fixtures.builder import trace

MS = 1_000_000
PERIODS_MS: dict[int, list[float | None]] = {
    0: [10, 11, None],
    1: [12, 12, None],
    2: [10, 10, None],
    3: [10, 90, None],
}


def row(rank: int, folder: Path) -> RankRow:
    """Steps 5, 6 and 7: busy for half of 10 ms each."""
    periods = [None if ms is None else round(ms * MS) for ms in PERIODS_MS[rank]]
    return RankRow(
        path=str(folder / f"rank{rank}.json"),
        name=f"rank{rank}.json",
        rank=rank,
        world_size=6,
        bytes=2_000,
        gpu="Test GPU",
        gpu_ops=4,
        steps=3,
        steps_found=3,
        period_ns=summarize([float(ns) for ns in periods if ns is not None]),
        busy_ns=summarize([5.0 * MS] * 3),
        launch_tax_ns=float(rank * MS),
        kernels=8.0,
        launches=8.0,
        verdict_class="launch-bound",
        series=StepSeriesDoc(every=1, number=[5, 6, 7], period_ns=periods, busy_ns=[5 * MS] * 3),
    )


def table(folder: Path = Path("run")) -> RanksDocument:
    rows = [row(rank, folder) for rank in PERIODS_MS]
    rows.append(
        RankRow(path=str(folder / "rank4.json"), name="rank4.json", rank=4, error="cut", error_kind="unreadable")
    )
    return RanksDocument(
        launchscope="0",
        inputs=[str(folder)],
        seconds=1.0,
        workers=1,
        world_size=6,
        missing_ranks=[5],
        alignment=AlignmentDoc(kind="none", reason="no collective matches"),
        distributions=distributions(rows),
        odd=[
            OddDoc(row=4, kind="unreadable", message="cut"),
            OddDoc(row=3, kind="slow_steps", message="step time 50.0 ms, 4.55× the median", figure="period_ns"),
        ],
        rows=rows,
    )


def write_traces(folder: Path) -> RanksDocument:
    """The table, and the files of ranks 0 to 3: two steps with a kernel each, that of rank 3 twice as long."""
    for rank in PERIODS_MS:
        builder = trace()
        for number in range(3):
            at = 100 * number
            builder.step(number, at, 95).launch(at, 5).kernel(at + 10, 40 if rank == 3 else 20)
        builder.write(folder / f"rank{rank}.json")
    return table(folder)
