"""A sweep told: a row per size and mode, where the GPU becomes the limit, and the ladder."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..model.document import StepTimeDoc
from ..model.units import MISSING, byte_size, duration, duration_interval, number, share, times
from ..render import outputs_of
from ..story import Bar, Bars, Block, Cells, Column, Fact, Heading, Headline, Listing, Table
from .sweep import EagerDoc, LadderDoc, RanksRowDoc, SweepDoc, SweepRowDoc


def _time(step: StepTimeDoc | None) -> str:
    return MISSING if step is None else duration_interval(step.median, step.ci_low, step.ci_high)


_COLUMNS: Final[Cells] = (
    (Column("batch"), lambda row: number(row.batch_size)),
    (Column("prompt"), lambda row: number(row.prompt_length)),
    (Column("mode", right=False), lambda row: row.mode),
    (Column("step T"), lambda row: _time(row.step_ns)),
    (Column("tokens/s"), lambda row: number(row.tokens_per_s and round(row.tokens_per_s))),
    (Column("GPU work"), lambda row: duration(row.gpu_work_ns)),
    (Column("host N·τ"), lambda row: duration(row.host_submit_ns)),
    (Column("launches"), lambda row: number(row.launches)),
    (Column("launch tax"), lambda row: duration(row.launch_tax_ns)),
    (Column("graph\nmemory", rank=-1), lambda row: byte_size(row.graph_memory_bytes)),
    (Column("capture", rank=-1), lambda row: duration(row.capture_ns)),
)
_RANKS: Final[Cells] = (
    (Column("ranks"), lambda row: number(row.ranks)),
    (Column("mode", right=False), lambda row: row.mode),
    (Column("step T"), lambda row: _time(row.step_ns)),
    (Column("× by\ngraph"), lambda row: times(row.graph_speedup)),
    (Column("kernels\na rank", rank=-1), lambda row: number(row.kernels)),
    (Column("launches\na rank"), lambda row: number(row.launches)),
    (Column("launch tax¹"), lambda row: duration(row.launch_tax_ns)),
    (Column("waiting¹"), lambda row: duration(row.waiting_ns)),
    (Column("both,\nof T"), lambda row: share(row.launch_share)),
    (Column("GPU work\nbut waiting"), lambda row: duration(row.gpu_work_without_waiting_ns)),
    (Column("transfer"), lambda row: duration(row.transfer_ns)),
)
_MOST: Final = "of the rank that has the most of it; all else is of the median rank"
_ONE_PROCESS: Final = (
    "every time is of one process, so without an interval; on a shared host eager times of two processes differ by up "
    "to a factor of two, and the size where the GPU becomes the limit with them: --repeats 3 tells intervals"
)


def _tell(doc: SweepDoc, *, verbose: bool) -> Iterator[Block]:
    del verbose  # there is no more to tell
    sizes = {
        "batch": sorted({row.batch_size for row in doc.rows if row.prompt_length is None}),
        "prompt": sorted({row.prompt_length for row in doc.rows if row.prompt_length is not None}),
        "ranks": sorted({row.ranks for row in doc.ranks}),
    }
    gpu = None if doc.environment is None else doc.environment.get("gpu")
    ranges = [f"{word} {each[0]} to {each[-1]}" for word, each in sizes.items() if each]
    name = "sweep" if doc.target is None else doc.target.name
    yield Heading(name, " · ".join([*ranges, str(gpu)] if gpu else ranges))
    if doc.rows:
        knees = [_knee(mode, knee, sizes["batch"], "batch") for mode, knee in doc.knees.items()]
        knees += [_knee(f"{mode} prefill", knee, sizes["prompt"], "prompt") for mode, knee in doc.prompt_knees.items()]
        yield Headline("; ".join(knees))
        yield Listing(Table.of(_COLUMNS, doc.rows).without_empty_columns(MISSING))
    yield from _plot(doc)
    if doc.ranks:
        yield Headline(_scaling(doc.ranks))
        yield Listing(Table.of(_RANKS, doc.ranks).without_empty_columns(MISSING), [_MOST])
    every = [*(row.step_ns for row in doc.rows), *(row.step_ns for row in doc.ranks)]
    timed = [time for time in every if time is not None]
    if timed and all(time.ci_low is None for time in timed):
        yield Fact("spread", [_ONE_PROCESS], concern=True)
    failed = [f"{_point(row)}, {row.mode}: {row.error}" for row in doc.rows if row.error is not None]
    failed += [f"batch {size}: {why}" for size, why in doc.unmeasured.items()]
    failed += [f"prompt {size}: {why}" for size, why in doc.unmeasured_prompts.items()]
    failed += [f"{row.ranks} ranks, {row.mode}: {row.error}" for row in doc.ranks if row.error is not None]
    failed += [f"{size} ranks: {why}" for size, why in doc.unmeasured_ranks.items()]
    if failed:
        yield Fact("not measured", failed, concern=True)
    if doc.enforce_eager is not None:
        yield Fact("eager only", [_eager(doc.enforce_eager)])
    if doc.ladder is not None and doc.better_ladder is not None:
        yield Fact("ladder", [_ladder(doc.ladder), f"better: {_ladder(doc.better_ladder)}"])


def _knee(mode: str, knee: int | None, sizes: list[int], word: str) -> str:
    if knee is None:
        return f"{mode}: the GPU waits at every {word} up to {sizes[-1]}"
    if knee == sizes[0]:
        return f"{mode}: GPU-bound from {word} {knee} on"
    return f"{mode}: the GPU waits below {word} {knee}, GPU-bound from there on"


def _scaling(rows: Sequence[RanksRowDoc]) -> str:
    """By mode, T on the fewest and on the most ranks."""
    texts = []
    for mode in dict.fromkeys(row.mode for row in rows):
        taken = [(row.ranks, row.step_ns.median) for row in rows if row.mode == mode and row.step_ns is not None]
        if len(taken) > 1:
            (few, first), (many, last) = taken[0], taken[-1]
            texts.append(f"{mode}: {duration(first)} on {few} → {duration(last)} on {many}, {times(first / last)}")
    return "; ".join(texts) or "the step on several ranks"


def _point(row: SweepRowDoc) -> str:
    return f"batch {row.batch_size}" if row.prompt_length is None else f"prompt {row.prompt_length}"


def _eager(doc: EagerDoc) -> str:
    """What `enforce_eager` would do."""
    most = share(max(doc.slower_high, 0.0))
    lost = f"{share(max(doc.slower_low, 0.0))} to {most} of the tokens per second at these batches"
    if doc.slower is not None:
        lost = f"{share(max(doc.slower, 0.0))} of the tokens per second of the histogram"
    return (
        f"running without graphs gives back {byte_size(doc.graph_memory_bytes)} at the most (each graph was measured "
        f"alone) and costs {lost}"
    )


def _plot(doc: SweepDoc) -> Iterator[Block]:
    longest = max((row.step_ns.median for row in doc.rows if row.step_ns is not None), default=0.0)
    for point in dict.fromkeys(map(_point, doc.rows)):
        bars = [
            Bar(row.mode, row.step_ns.median / longest, duration(row.step_ns.median))
            for row in doc.rows
            if _point(row) == point and row.step_ns is not None
        ]
        if bars:
            yield Bars(point, bars)


def _ladder(ladder: LadderDoc) -> str:
    sizes = ", ".join(map(str, ladder.capture_sizes))
    return (
        f"{sizes}: {duration(ladder.mean_step_ns)} per step in the mean; {share(ladder.padding)} of the rows are "
        f"padding, {share(ladder.fallback)} of the steps run without a graph"
    )


render_terminal, render_json, render_markdown = outputs_of(_tell)
