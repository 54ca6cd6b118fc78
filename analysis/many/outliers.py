"""How each figure lies over the ranks, and which ranks stand out: the rules are those of docs/many-ranks.md.

Robust: the median and the median deviation from it don't move with outliers, as a mean and a standard deviation do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..figures.registry import values
from ..model.document import Summary
from ..model.units import duration, number, share, written
from ..story import Kind
from .document import DistributionDoc, OddDoc, RankRow


class RankFigure(NamedTuple):
    """A figure of every rank: a field of its row, or a name among the row's ``figures``."""

    name: str
    kind: Kind  # ns, share or count
    title: str  # of a row of a table of text
    words: str  # on the page
    of_registry: bool = False  # among ``figures``


RANK_FIGURES: Final = {
    figure.name: figure
    for figure in (
        RankFigure("period_ns", "ns", "step", "step time"),
        RankFigure("busy_ns", "ns", "GPU work W", "GPU work W"),
        RankFigure("gpu_work_without_waiting_ns", "ns", "W without waiting", "W without waiting, median"),
        RankFigure("idle_fraction", "share", "idle", "GPU idle"),
        RankFigure("launch_tax_ns", "ns", "launch tax", "launch tax"),
        RankFigure("launch_tax_share", "share", "of the step", "launch tax ÷ step"),
        RankFigure("kernels", "count", "kernels", "kernels per step"),
        RankFigure("launches", "count", "launches", "launches per step"),
        RankFigure("collectives", "count", "collectives", "collectives per step"),
        RankFigure("communication_exposed_ns", "ns", "communication, exposed", "communication, exposed, mean"),
        RankFigure("communication_hidden_ns", "ns", "communication, hidden", "communication, hidden, mean"),
        RankFigure("communication_transfer_ns", "ns", "transfer", "communication, transfer, mean"),
        RankFigure("communication_waiting_ns", "ns", "waiting", "waiting in collectives, mean"),
        RankFigure("arrives_last_share", "share", "arrives last", "arrives last"),
        RankFigure("steps", "count", "steps", "steps recorded"),
        *(
            RankFigure(value.name, value.kind, value.words, value.words, True)
            for _, value in values()
            if value.of_ranks
        ),
    )
}
"""Those whose distribution over the ranks is told, by name."""

OF_REGISTRY: Final = tuple(figure for figure in RANK_FIGURES.values() if figure.of_registry)


FEWEST: Final = 4
"""Ranks from which one can stand out: of three, one or two could be the outliers."""

DEVIATIONS: Final = 5.0
"""Scaled median deviations from the median: of a bell curve's figures, 6 in 10 million lie outside."""

SCALE: Final = 1.4826  # a bell curve's standard deviation ÷ its median deviation

_CUT: Final = ("cut_file", "damaged_file")


class Rule(NamedTuple):
    """From where on a figure stands out: beyond DEVIATIONS, and by this part of the median, and by this much."""

    kind: str
    figure: str
    words: str  # of what the figure is
    least_part: float
    least: float = 0.0
    both_ways: bool = False


RULES: Final = (
    Rule("slow_steps", "period_ns", "step time", 0.05),
    Rule("more_work", "gpu_work_without_waiting_ns", "GPU work without waiting", 0.05),
    Rule("other_kernels", "kernels", "kernels per step", 0.01, 0.5, both_ways=True),
    Rule("other_launches", "launches", "launches per step", 0.01, 0.5, both_ways=True),
    Rule("launch_tax", "launch_tax_ns", "launch tax per step", 0.10),
    Rule("idle", "idle_fraction", "idle", 0.0, 0.05),
    Rule("few_steps", "steps", "steps", 0.10, 1.5, both_ways=True),
)


def value_of(row: RankRow, figure: str) -> float | None:
    """A figure of a row, of a summary its median; null for one that is not among them."""
    if figure in row.figures:
        return row.figures[figure]
    value: Summary | float | None = getattr(row, figure, None) if figure in RANK_FIGURES else None
    return value.median if isinstance(value, Summary) else value


def distributions(rows: Sequence[RankRow]) -> list[DistributionDoc]:
    """One of each figure that any row has, over the files that are reliable."""
    found = []
    for figure in RANK_FIGURES.values():
        found_in = [(value_of(row, figure.name), index) for index, row in enumerate(rows) if not row.unreliable]
        known = [(value, index) for value, index in found_in if value is not None]
        if not known:
            continue
        values = np.array([value for value, _ in known], dtype=np.float64)
        low, p10, median, p90, high = np.percentile(values, (0, 10, 50, 90, 100)).tolist()
        found.append(
            DistributionDoc(
                figure=figure.name,
                unit=figure.kind,
                count=len(values),
                min=low,
                p10=p10,
                median=median,
                p90=p90,
                max=high,
                spread=float(np.median(np.abs(values - median))),
                min_at=known[int(values.argmin())][1],
                max_at=known[int(values.argmax())][1],
            )
        )
    return found


def outliers(rows: Sequence[RankRow], known: Sequence[DistributionDoc]) -> list[OddDoc]:
    """Everything that stands out, the files that tell nothing first, then by how far."""
    by_figure = {each.figure: each for each in known}
    figures = [
        odd for rule in RULES if rule.figure in by_figure for odd in _outside(rule, rows, by_figure[rule.figure])
    ]
    return [
        *_failed(rows),
        *_doubtful(rows),
        *_same_rank(rows),
        *_stragglers(rows),
        *sorted(figures, key=lambda odd: -(odd.excess or 0.0)),
    ]


def _outside(rule: Rule, rows: Sequence[RankRow], its: DistributionDoc) -> Iterator[OddDoc]:
    if its.count < FEWEST:
        return
    limit = max(DEVIATIONS * SCALE * its.spread, rule.least_part * abs(its.median), rule.least)
    for index, row in enumerate(rows):
        value = value_of(row, rule.figure)
        if value is None or row.unreliable or limit <= 0:
            continue
        beyond = value - its.median
        if beyond > limit or (rule.both_ways and -beyond > limit):
            yield OddDoc(
                row=index,
                kind=rule.kind,
                message=f"{rule.words} {_compared(value, its)}",
                figure=rule.figure,
                value=value,
                typical=its.median,
                excess=abs(beyond) / limit,
            )


def _compared(value: float, its: DistributionDoc) -> str:
    """``12.4 ms, 1.24× the median 10.0 ms``; shares and counts by their difference."""
    text, typical = written(value, its.unit), written(its.median, its.unit)
    if its.unit == "ns" and its.median > 0:
        return f"{text}, {value / its.median:.2f}× the median {typical}"
    if its.unit == "share":
        return f"{text}, the median is {typical}"
    difference = value - its.median
    return f"{text}, {number(abs(difference))} {'more' if difference > 0 else 'fewer'} than the median {typical}"


def _stragglers(rows: Sequence[RankRow]) -> Iterator[OddDoc]:
    """Ranks for which the others wait, the longest first."""
    late = sorted((-(row.awaited_ns or 0.0), index) for index, row in enumerate(rows) if row.straggler)
    for _, index in late:
        last, chance, of = rows[index].arrives_last_share, rows[index].arrives_last_chance, rows[index].arrivals
        text = f"arrives last in {share(last)} of {number(of)} collectives (by chance {share(chance)})"
        text += f": the others wait {duration(rows[index].awaited_ns)} a step for it"
        yield OddDoc(row=index, kind="straggler", message=text, figure="arrives_last_share", value=last)


def _failed(rows: Sequence[RankRow]) -> Iterator[OddDoc]:
    for index, row in enumerate(rows):
        if row.error is not None:
            yield OddDoc(row=index, kind=row.error_kind or "unreadable", message=row.error)
        elif not row.gpu_ops:
            yield OddDoc(row=index, kind="no_gpu_ops", message=row.verdict_reason or "no GPU op in the file")


def _doubtful(rows: Sequence[RankRow]) -> Iterator[OddDoc]:
    for index, row in enumerate(rows):
        if row.error is not None or not row.gpu_ops:
            continue
        cut = next((warning.message for warning in row.warnings if warning.code in _CUT), None)
        if cut is not None:
            yield OddDoc(row=index, kind="cut", message=cut)
        elif row.unreliable:
            yield OddDoc(row=index, kind="unreliable", message=f"not reliable: {'; '.join(row.unreliable)}")
        elif not row.steps:
            yield OddDoc(row=index, kind="no_steps", message="no step kept" if row.steps_found else "no steps found")


def _same_rank(rows: Sequence[RankRow]) -> Iterator[OddDoc]:
    """Files that say that they are of the same rank: one of them is not what it is taken for."""
    first: dict[int, RankRow] = {}
    for index, row in enumerate(rows):
        if row.rank is None or row.error is not None:
            continue
        if (other := first.setdefault(row.rank, row)) is not row:
            yield OddDoc(row=index, kind="same_rank", message=f"of rank {row.rank}, as {other.name} is")


def missing_words(missing: Sequence[int], world_size: int) -> str:
    """``4 of 256 ranks (2 %) without a file: 17–19, 200``."""
    runs: list[list[int]] = []
    for rank in missing:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    ranks = ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in runs)
    return f"{len(missing):,} of {world_size:,} ranks ({share(len(missing) / world_size)}) without a file: {ranks}"
