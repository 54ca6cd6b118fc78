"""A sweep over batch sizes, prompt lengths and numbers of ranks: a capture each, and what the step turns into."""

from __future__ import annotations

import csv
import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path

import msgspec

from ..figures.verdict import GPU_BOUND_FRACTION
from ..model import __version__
from ..model.capture import UNGRAPHED
from ..model.document import ModeDoc, ProfileDoc, RankDoc, ReportDocument, StepTimeDoc, TargetDoc
from ..model.errors import LaunchscopeError
from ..model.paths import content
from ..profile.measured_mode import median_or_none
from ..report import load
from ..step_model import NS_PER_S


@dataclass(frozen=True)
class Measured:
    """One size; ``capture`` is null where nothing could be measured: ``error`` says why."""

    size: int
    capture: Path | None
    error: str | None = None
    kind: str = "batch"  # what it is the size of: 'batch', 'prompt', 'ranks'


class SweepRowDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One mode at one batch size of a decode step, or at one prompt length of a prefill. Times in ns per step."""

    batch_size: int
    prompt_length: int | None = None  # null: a decode step, one token per sequence
    mode: str
    step_ns: StepTimeDoc | None
    tokens_per_s: float | None  # batch size × tokens of a prompt ÷ T
    gpu_work_ns: float | None
    host_submit_ns: float | None  # N·τ
    launches: float | None
    launch_tax_ns: float | None
    graph_memory_bytes: int | None
    capture_ns: float | None
    error: str | None


class RanksRowDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One mode on one number of ranks. Times in ns per step; T is of all together.

    What is alike on all ranks is the median over them. Of what is not, the largest stands here: the rank that launches
    the slowest pays the launch tax, while the others wait for it.
    """

    ranks: int
    mode: str
    step_ns: StepTimeDoc | None
    gpu_work_ns: float | None  # the largest
    gpu_work_without_waiting_ns: float | None
    kernels: float | None
    launches: float | None
    launch_tax_ns: float | None  # the largest
    launch_share: float | None  # launch tax and waiting of one rank ÷ T: the median over ranks
    waiting_ns: float | None  # the largest, as a part of T
    transfer_ns: float | None  # inside collectives, as recorded; null where none was
    exposed_ns: float | None  # collectives with no other GPU op beside them, waiting included: the largest, as recorded
    graph_speedup: float | None  # T of the mode that launches the same kernels one by one ÷ T
    error: str | None


class EagerDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What running without graphs would give back and cost (`enforce_eager` of serving engines)."""

    graph_memory_bytes: int  # of all captured sizes' graphs, each measured alone: in a pool together they take less
    slower_low: float  # share of tokens per second lost, over the batch sizes that both modes were timed at
    slower_high: float
    slower: float | None = None  # over the steps of the histogram; null without one


class SweepDoc(msgspec.Struct, frozen=True, kw_only=True):
    """The whole sweep. ``knees``: by mode the smallest batch from which on W ≥ 0.85 T; null where no batch is.

    ``prompt_knees`` are the same of prompt lengths: from there on the launch tax of a prefill is hidden.
    """

    schema: str = "launchscope.sweep/1"
    launchscope: str
    target: TargetDoc | None
    environment: dict[str, str | int | float | bool | None] | None
    rows: list[SweepRowDoc]
    knees: dict[str, int | None]
    prompt_knees: dict[str, int | None] = {}
    unmeasured: dict[int, str] = {}  # batch sizes of which nothing could be measured, and why
    unmeasured_prompts: dict[int, str] = {}
    ranks: list[RanksRowDoc] = []  # by number of ranks, and mode
    unmeasured_ranks: dict[int, str] = {}
    enforce_eager: EagerDoc | None = None  # null where no batch size has a graph and an eager step
    ladder: LadderDoc | None = None
    better_ladder: LadderDoc | None = None


def sweep_document(
    measured: Sequence[Measured],
    capture_sizes: Sequence[int] = (),
    histogram: Mapping[int, float] | None = None,
) -> SweepDoc:
    """The document of a sweep; with a histogram of batch sizes the ladder of captured ones is judged too.

    LaunchscopeError where nothing was measured, and where the ladder lies outside of what was.
    """
    found = sorted((each for each in measured if each.capture is not None), key=lambda each: each.size)
    if not found:
        raise LaunchscopeError(f"nothing was measured: {'; '.join(each.error or '' for each in measured)}")
    documents = [load(each.capture).document for each in found if each.capture is not None]
    rows: list[SweepRowDoc] = []
    prompts: list[SweepRowDoc] = []
    ranks: list[RanksRowDoc] = []
    for each, document in zip(found, documents, strict=True):
        if each.kind == "batch":
            rows += _rows(each.size, None, document)
        elif each.kind == "prompt":
            prompts += _rows((document.target and document.target.batch_size) or 1, each.size, document)
        elif document.profile is not None:
            ranks += ranks_rows(each.size, document.profile)
    ladder = better = None
    times = {
        mode: {row.batch_size: row.step_ns.median for row in rows if row.mode == mode and row.step_ns}
        for mode in ("eager", "graph")
    }
    if histogram:
        eager, graph = curve(times["eager"]), curve(times["graph"])
        sizes = list(capture_sizes) or sorted(times["graph"])
        ladder = judge_ladder(sizes, histogram, graph, eager)
        better = judge_ladder(better_ladder(len(sizes), histogram, graph), histogram, graph, eager)
    return SweepDoc(
        launchscope=__version__,
        target=documents[0].target,
        environment=documents[0].environment,
        rows=[*rows, *prompts],
        knees=_knees(rows, lambda row: row.batch_size),
        prompt_knees=_knees(prompts, lambda row: row.prompt_length or 0),
        unmeasured=_unmeasured(measured, "batch"),
        unmeasured_prompts=_unmeasured(measured, "prompt"),
        ranks=ranks,
        unmeasured_ranks=_unmeasured(measured, "ranks"),
        enforce_eager=_without_graphs(rows, times, ladder, histogram),
        ladder=ladder,
        better_ladder=better,
    )


def _unmeasured(measured: Sequence[Measured], kind: str) -> dict[int, str]:
    return {each.size: each.error or "" for each in measured if each.capture is None and each.kind == kind}


def _without_graphs(
    rows: Sequence[SweepRowDoc],
    times: Mapping[str, Mapping[int, float]],
    ladder: LadderDoc | None,
    histogram: Mapping[int, float] | None,
) -> EagerDoc | None:
    """Memory of the graphs of the ladder, of all sizes without one, and the tokens per second that go with them."""
    both = sorted(set(times["eager"]) & set(times["graph"]))
    if not both:
        return None
    held = [row for row in rows if row.mode == "graph" and (ladder is None or row.batch_size in ladder.capture_sizes)]
    slower = [1 - times["graph"][size] / times["eager"][size] for size in both]
    over_all = None
    if histogram and ladder is not None:
        eager = curve(times["eager"])
        steps = sum(histogram.values())
        over_all = 1 - ladder.mean_step_ns / (sum(count * eager(size) for size, count in histogram.items()) / steps)
    return EagerDoc(
        graph_memory_bytes=sum(row.graph_memory_bytes or 0 for row in held),
        slower_low=min(slower),
        slower_high=max(slower),
        slower=over_all,
    )


def _rows(batch_size: int, prompt_length: int | None, document: ReportDocument) -> Iterator[SweepRowDoc]:
    tokens = batch_size * (prompt_length or 1)
    for name, mode in ({} if document.profile is None else document.profile.modes).items():
        yield SweepRowDoc(
            batch_size=batch_size,
            prompt_length=prompt_length,
            mode=name,
            step_ns=mode.step_ns,
            tokens_per_s=None if mode.step_ns is None else tokens / mode.step_ns.median * NS_PER_S,
            gpu_work_ns=mode.gpu_work_ns,
            host_submit_ns=mode.host_submit_ns,
            launches=mode.launches,
            launch_tax_ns=mode.launch_tax_ns,
            graph_memory_bytes=mode.graph_memory_bytes,
            capture_ns=mode.capture_ns,
            error=mode.error,
        )


def ranks_rows(ranks: int, profile: ProfileDoc) -> Iterator[RanksRowDoc]:
    """A row per mode of a profile on so many ranks: one target, and what of a rank's step shrinks as they grow."""
    together = None if profile.ranks is None else profile.ranks.modes
    times = {name: mode.step_ns if together is None else together[name].step_ns for name, mode in profile.modes.items()}
    for name, mode in profile.modes.items():
        step, before = times[name], times.get(UNGRAPHED.get(name, ""))
        each: Sequence[ModeDoc | RankDoc] = [mode] if together is None else together[name].ranks
        alone = mode.gpu_work_ns if together is None else None  # it waits for nobody
        yield RanksRowDoc(
            ranks=ranks,
            mode=name,
            step_ns=step,
            gpu_work_ns=max(_known(each, "gpu_work_ns"), default=None),
            gpu_work_without_waiting_ns=median_or_none(_known(each, "gpu_work_without_waiting_ns")) or alone,
            kernels=median_or_none(_known(each, "kernels")),
            launches=median_or_none(_known(each, "launches")),
            launch_tax_ns=max(_known(each, "launch_tax_ns"), default=None),
            launch_share=None if step is None else median_or_none(_launching(each, step.median)),
            waiting_ns=max(_known(each, "waiting_of_step_ns"), default=None),
            transfer_ns=median_or_none(_known(each, "transfer_ns")),
            exposed_ns=max(_known(each, "exposed_ns"), default=None),
            graph_speedup=None if step is None or before is None else before.median / step.median,
            error=next((one.error for one in each if one.error is not None), None),
        )


def _launching(ranks: Iterable[ModeDoc | RankDoc], step_ns: float) -> list[float]:
    """The share of T for which each does nothing as its host is launching, or another's is."""
    return [
        (each.launch_tax_ns + (getattr(each, "waiting_of_step_ns", None) or 0.0)) / step_ns
        for each in ranks
        if each.launch_tax_ns is not None
    ]


def _known(ranks: Iterable[ModeDoc | RankDoc], figure: str) -> list[float]:
    """The figure of those that have it."""
    return [value for each in ranks if (value := getattr(each, figure, None)) is not None]


def _knees(rows: Sequence[SweepRowDoc], size_of: Callable[[SweepRowDoc], int]) -> dict[str, int | None]:
    """By mode the smallest size from which on the step is GPU-bound, as its verdict would say."""
    knees: dict[str, int | None] = dict.fromkeys(row.mode for row in rows)
    for mode in knees:
        for row in sorted((row for row in rows if row.mode == mode), key=size_of, reverse=True):
            if row.gpu_work_ns is None or row.step_ns is None:  # not measured, so no evidence either way
                continue
            if row.gpu_work_ns < GPU_BOUND_FRACTION * row.step_ns.median:
                break
            knees[mode] = size_of(row)
    return knees


def read_histogram(path: Path) -> dict[int, float]:
    """Batch size → number of steps, from a CSV of two columns, a heading before them or not. LaunchscopeError."""
    found: dict[int, float] = {}
    try:
        rows = list(csv.reader(content(path).decode("utf-8-sig").splitlines()))
    except (UnicodeDecodeError, csv.Error) as error:
        raise LaunchscopeError(f"{path}: can't be read as a CSV of batch sizes ({error})") from error
    for number, cells in enumerate(rows, 1):
        if not cells or (number == 1 and not cells[0].strip().isdigit()):
            continue
        try:
            size, count = int(cells[0]), float(cells[1])
        except (ValueError, IndexError):
            size, count = 0, 0.0
        if size < 1 or not 0 < count < math.inf:
            raise LaunchscopeError(f"{path}, line {number}: write a batch size, a comma and a number of steps: 13,250")
        found[size] = found.get(size, 0.0) + count
    if not found:
        raise LaunchscopeError(f"{path}: no batch size in it; write lines such as 13,250")
    return found


Curve = Callable[[int], float]
"""Step time in ns of a batch size."""


class LadderDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What one ladder makes of a histogram of batch sizes."""

    capture_sizes: list[int]
    mean_step_ns: float  # over the steps of the histogram
    padding: float  # rows that are padding, of all rows of graph steps; 0 without any
    fallback: float  # steps above the largest size, of all


def curve(times_ns: Mapping[int, float]) -> Curve:
    """Step time by batch size, straight between measured ones. LaunchscopeError for one outside of them."""
    sizes = sorted(times_ns)

    def at(size: int) -> float:
        for low, high in pairwise(sizes):
            if low <= size <= high:
                share = (size - low) / (high - low)
                return times_ns[low] + share * (times_ns[high] - times_ns[low])
        if size in times_ns:
            return times_ns[size]
        measured = f"{sizes[0]} to {sizes[-1]}" if sizes else "none"
        raise LaunchscopeError(
            f"a batch of {size} lies outside of the measured ones ({measured}): measure it too, --batch-sizes"
        )

    return at


def judge_ladder(ladder: Sequence[int], histogram: Mapping[int, float], graph: Curve, eager: Curve) -> LadderDoc:
    """What steps of these batch sizes (size → how many) take with these captured ones."""
    rungs = sorted(set(ladder))
    steps = sum(histogram.values())
    time_ns = rows = padded = above = 0.0
    for size, count in histogram.items():
        rung = next((each for each in rungs if each >= size), None)
        if rung is None:
            above += count
            time_ns += count * eager(size)
        else:
            time_ns += count * graph(rung)
            rows += count * rung
            padded += count * (rung - size)
    return LadderDoc(
        capture_sizes=rungs,
        mean_step_ns=time_ns / steps,
        padding=padded / rows if rows else 0.0,
        fallback=above / steps,
    )


def better_ladder(rungs: int, histogram: Mapping[int, float], graph: Curve) -> list[int]:
    """The ladder of so many rungs at the most, up to the largest batch, whose steps take the least time together."""
    sizes = sorted(histogram)
    least: dict[int, tuple[float, list[int]]] = {-1: (0.0, [])}  # by the last size that is covered
    for _ in range(min(rungs, len(sizes))):
        longer = dict(least)
        for last, (time_ns, chosen) in least.items():
            covered = 0.0
            for place in range(last + 1, len(sizes)):
                covered += histogram[sizes[place]]
                total = time_ns + covered * graph(sizes[place])
                if place not in longer or total < longer[place][0]:
                    longer[place] = (total, [*chosen, sizes[place]])
        least = longer
    return least[len(sizes) - 1][1]
