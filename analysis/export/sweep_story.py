"""A sweep over batch sizes told: a row per batch and mode, where the GPU becomes the limit, and the ladder."""

from __future__ import annotations

from collections.abc import Iterator

from ..ladder import LadderDoc
from ..sweep import SweepDoc, SweepRowDoc
from ..units import MISSING, byte_size, duration, duration_interval, number, share
from .blocks import Bar, Bars, Block, Fact, Heading, Headline, Listing
from .story_outputs import story_outputs
from .tables import Column, Row, Table

_COLUMNS = (
    Column("batch"),
    Column("mode", right=False),
    Column("step T"),
    Column("tokens/s"),
    Column("GPU work"),
    Column("host N·τ"),
    Column("launches"),
    Column("launch tax"),
    Column("graph\nmemory", rank=-1),
    Column("capture", rank=-1),
)


_ONE_PROCESS = (
    "every time is of one process, so without an interval; on a shared host eager times of two processes differ by up "
    "to a factor of two, and the batch where launching stops to be the limit with them: --repeats 3 tells intervals"
)


def _tell(doc: SweepDoc) -> Iterator[Block]:
    sizes = sorted({row.batch_size for row in doc.rows})
    gpu = None if doc.environment is None else doc.environment.get("gpu")
    name = "sweep" if doc.target is None else doc.target.name
    yield Heading(name, " · ".join(filter(None, [f"batch {sizes[0]} to {sizes[-1]}", str(gpu) if gpu else None])))
    yield Headline("; ".join(_knee(mode, knee, sizes) for mode, knee in doc.knees.items()))
    yield Listing(Table(_COLUMNS, [_row(row) for row in doc.rows]).without_empty_columns(MISSING))
    yield from _plot(doc)
    timed = [row.step_ns for row in doc.rows if row.step_ns is not None]
    if timed and all(time.ci_low is None for time in timed):
        yield Fact("spread", [_ONE_PROCESS], concern=True)
    failed = [f"batch {row.batch_size}, {row.mode}: {row.error}" for row in doc.rows if row.error is not None]
    failed += [f"batch {size}: {why}" for size, why in doc.unmeasured.items()]
    if failed:
        yield Fact("not measured", failed, concern=True)
    if doc.ladder is not None and doc.better_ladder is not None:
        yield Fact("ladder", [_ladder(doc.ladder), f"better: {_ladder(doc.better_ladder)}"])


def _knee(mode: str, knee: int | None, sizes: list[int]) -> str:
    if knee is None:
        return f"{mode}: launching is the limit at every batch up to {sizes[-1]}"
    if knee == sizes[0]:
        return f"{mode}: the GPU is the limit from batch {knee} on"
    return f"{mode}: launching is the limit below batch {knee}, the GPU from there on"


def _row(row: SweepRowDoc) -> Row:
    time = row.step_ns
    return Row(
        [
            number(row.batch_size),
            row.mode,
            MISSING if time is None else duration_interval(time.median, time.ci_low, time.ci_high),
            number(row.tokens_per_s and round(row.tokens_per_s)),
            duration(row.gpu_work_ns),
            duration(row.host_submit_ns),
            number(row.launches),
            duration(row.launch_tax_ns),
            byte_size(row.graph_memory_bytes),
            duration(row.capture_ns),
        ]
    )


def _plot(doc: SweepDoc) -> Iterator[Block]:
    longest = max((row.step_ns.median for row in doc.rows if row.step_ns is not None), default=0.0)
    for size in sorted({row.batch_size for row in doc.rows}):
        bars = [
            Bar(row.mode, row.step_ns.median / longest, duration(row.step_ns.median))
            for row in doc.rows
            if row.batch_size == size and row.step_ns is not None
        ]
        if bars:
            yield Bars(f"batch {size}", bars)


def _ladder(ladder: LadderDoc) -> str:
    sizes = ", ".join(map(str, ladder.capture_sizes))
    return (
        f"{sizes}: {duration(ladder.mean_step_ns)} per step in the mean; {share(ladder.padding)} of the rows are "
        f"padding, {share(ladder.fallback)} of the steps run without a graph"
    )


render_terminal, render_json, render_markdown = story_outputs(_tell)
