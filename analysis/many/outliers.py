"""Which ranks stand out, by what figure and by how much. The rules are those of docs/many-ranks.md.

Robust: the median and the median deviation from it don't move with the odd ones, as a mean and a standard deviation do.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..figures.registry import values
from ..model.document import Summary
from ..model.units import duration, number, share, written
from .document import DistributionDoc, OddDoc, RankRow

FEWEST: Final = 4
"""Ranks from which one can stand out: of three, one or two could be the odd ones."""

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


def odd_ones(rows: Sequence[RankRow], known: Sequence[DistributionDoc]) -> list[OddDoc]:
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
    told, typical = written(value, its.unit), written(its.median, its.unit)
    if its.unit == "ns" and its.median > 0:
        return f"{told}, {value / its.median:.2f}× the median {typical}"
    if its.unit == "share":
        return f"{told}, the median is {typical}"
    difference = value - its.median
    return f"{told}, {number(abs(difference))} {'more' if difference > 0 else 'fewer'} than the median {typical}"


def _stragglers(rows: Sequence[RankRow]) -> Iterator[OddDoc]:
    """Ranks for which the others wait, the longest first."""
    late = sorted((-(row.awaited_ns or 0.0), index) for index, row in enumerate(rows) if row.straggler)
    for _, index in late:
        last, chance, of = rows[index].arrives_last_share, rows[index].arrives_last_chance, rows[index].arrivals
        told = f"arrives last in {share(last)} of {number(of)} collectives (by chance {share(chance)})"
        told += f": the others wait {duration(rows[index].awaited_ns)} a step for it"
        yield OddDoc(row=index, kind="straggler", message=told, figure="arrives_last_share", value=last)


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
        cut = [warning.message for warning in row.warnings if warning.code in _CUT]
        if cut:
            yield OddDoc(row=index, kind="cut", message=cut[0])
        elif row.unreliable:
            yield OddDoc(row=index, kind="unreliable", message=f"not reliable: {'; '.join(row.unreliable)}")
        elif not row.steps:
            yield OddDoc(
                row=index, kind="no_steps", message="no steps found" if not row.steps_found else "no step kept"
            )


def _same_rank(rows: Sequence[RankRow]) -> Iterator[OddDoc]:
    """Files that say that they are of the same rank: one of them is not what it is taken for."""
    first: dict[int, int] = {}
    for index, row in enumerate(rows):
        if row.rank is None or row.error is not None:
            continue
        if row.rank in first:
            told = f"of rank {row.rank}, as {rows[first[row.rank]].name} is"
            yield OddDoc(row=index, kind="same_rank", message=told)
        first.setdefault(row.rank, index)


def missing_words(missing: Sequence[int], world_size: int) -> str:
    """``4 of 256 ranks (2 %) without a file: 17–19, 200``."""
    runs: list[list[int]] = []
    for rank in missing:
        if runs and runs[-1][1] == rank - 1:
            runs[-1][1] = rank
        else:
            runs.append([rank, rank])
    told = ", ".join(f"{a}" if a == b else f"{a}–{b}" for a, b in runs)
    return f"{len(missing):,} of {world_size:,} ranks ({share(len(missing) / world_size)}) without a file: {told}"


FIGURES: Final = {
    "period_ns": "ns",
    "busy_ns": "ns",
    "gpu_work_without_waiting_ns": "ns",
    "idle_fraction": "share",
    "launch_tax_ns": "ns",
    "launch_tax_share": "share",
    "kernels": "count",
    "launches": "count",
    "collectives": "count",
    "communication_exposed_ns": "ns",
    "communication_hidden_ns": "ns",
    "communication_transfer_ns": "ns",
    "communication_waiting_ns": "ns",
    "arrives_last_share": "share",
    "steps": "count",
    **{value.name: value.kind for _, value in values() if value.of_ranks},
}
"""Field of a row, or name among its ``figures`` → its unit: ns, share or count."""


def value_of(row: RankRow, figure: str) -> float | None:
    """A figure of a row, of a summary its median; null for one that is not among them."""
    if figure in row.figures:
        return row.figures[figure]
    value: Summary | float | None = getattr(row, figure, None) if figure in FIGURES else None
    return value.median if isinstance(value, Summary) else value


def distributions(rows: Sequence[RankRow]) -> list[DistributionDoc]:
    """One of each figure that any row has, over the files that are reliable."""
    found = []
    for figure, unit in FIGURES.items():
        told = [(value_of(row, figure), index) for index, row in enumerate(rows) if not row.unreliable]
        known = [(value, index) for value, index in told if value is not None]
        if not known:
            continue
        values = np.array([value for value, _ in known], dtype=np.float64)
        low, p10, median, p90, high = np.percentile(values, (0, 10, 50, 90, 100)).tolist()
        found.append(
            DistributionDoc(
                figure=figure,
                unit=unit,
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
