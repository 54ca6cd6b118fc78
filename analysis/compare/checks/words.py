"""A check's findings in words: figures beside what was allowed, changes with their interval, the answer in a line."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from ...model.units import MISSING, apart, number, percents, plural, written
from ..check_document import (
    GRAVEST_FIRST,
    HOLDS,
    INCONCLUSIVE,
    REGRESSION,
    RUNS,
    TO_FIX,
    CheckDoc,
    FindingDoc,
    PartDoc,
    SideDoc,
)

TOLD: Final = 3  # targets and modes that the answer names

ANSWERS: Final = {
    REGRESSION: ("REGRESSION", "is broken", "are broken", "all {} limits are broken"),
    TO_FIX: ("TO FIX", "can't be checked", "can't be checked", "none of {} limits can be checked"),
    INCONCLUSIVE: ("INCONCLUSIVE", "can't be told", "can't be told", "none of {} limits can be told"),
}
"""The outcome as a word, and what it makes of one limit, of several, and of all."""
WORDS: Final = {HOLDS: "holds", REGRESSION: "REGRESSION", TO_FIX: "to fix", INCONCLUSIVE: "can't tell"}


def answer(doc: CheckDoc) -> str:
    """The whole check in one line: how many limits don't hold, and which."""
    limits = [finding for part in doc.parts for finding in part.findings]
    if not limits:
        return "Nothing was checked."
    if doc.outcome == HOLDS:
        return "The only limit holds." if len(limits) == 1 else f"All {number(len(limits))} limits hold."
    grave = sum(finding.outcome == doc.outcome for finding in limits)
    word, one, several, every = ANSWERS[doc.outcome]
    if len(limits) == 1:
        told = f"the only limit {one}"
    elif grave == len(limits):
        told = every.format(number(grave))
    else:
        told = f"{number(grave)} of {number(len(limits))} limits {one if grave == 1 else several}"
    return f"{word}: {told}: {_which(doc.parts, doc.outcome)}"


def _which(parts: Iterable[PartDoc], outcome: str) -> str:
    told = []
    for part in parts:
        figures = dict.fromkeys(finding.figure for finding in part.findings if finding.outcome == outcome)
        if figures:
            told.append(f"{where(part.current)} ({', '.join(figures)})")
    more = [f"and {number(len(told) - TOLD)} more"] if len(told) > TOLD else []
    return "; ".join([*told[:TOLD], *more])


def where(side: SideDoc) -> str:
    """Target and mode: ``llama_1b.py, graph``."""
    return f"{side.target}, {side.mode}"


def gravity(finding: FindingDoc) -> int:
    """What sorts a regression before the others, and what holds behind them."""
    return GRAVEST_FIRST.index(finding.outcome)


def parts_in_order(doc: CheckDoc) -> list[PartDoc]:
    """The part with the gravest finding first."""
    return sorted(doc.parts, key=lambda part: min(map(gravity, part.findings), default=len(GRAVEST_FIRST)))


def measured(finding: FindingDoc) -> str:
    """The measured figure, with as many digits as tell it from what is allowed."""
    return _told(finding, finding.measured, finding.allowed)


def allowed(finding: FindingDoc) -> str:
    """The limit as it was written, and the value that it comes to where the baseline has a part in it."""
    if finding.figure == RUNS:
        return _told(finding, finding.allowed)
    if finding.allowed is None or not finding.limit.startswith(("+", "-")):
        return finding.limit
    return f"{finding.limit} ({apart(finding.allowed, finding.measured, finding.unit)})"


def baseline(finding: FindingDoc) -> str:
    """The baseline's figure."""
    return _told(finding, finding.baseline)


def _told(finding: FindingDoc, value: float | None, beside: float | None = None) -> str:
    """One of its values; whether a mode runs is a matter of yes and no."""
    if finding.figure == RUNS and value is not None:
        return "yes" if value else "no"
    return apart(value, beside, finding.unit)


def change(finding: FindingDoc) -> str:
    """From the baseline: of a time in per cent with its interval and processes, of a count the difference."""
    interval = finding.interval
    if interval is not None:
        whole, unit = (finding.baseline or 0.0, "points") if finding.unit == "share" else (1.0, "%")
        low, high = (None if each is None else each * whole for each in (interval.low, interval.high))
        told, span = changed(interval.change * whole, low, high, unit)
        return f"{told} ({span})"
    if finding.measured is None or finding.baseline is None or finding.figure == RUNS:
        return MISSING
    difference = finding.measured - finding.baseline
    if not difference:
        return "0"
    size = abs(difference)
    told = f"{size * 100:.3g} points" if finding.unit == "share" else written(size, finding.unit)
    return f"{'+' if difference > 0 else '−'}{told}"


def processes(finding: FindingDoc) -> str:
    """How many processes a change rests on: ``8 pairs``, ``8, 8``."""
    interval = finding.interval
    if interval is None:
        return MISSING
    if interval.paired:
        return plural(interval.processes, "pair")
    return f"{number(interval.processes)}, {number(interval.processes_baseline)}"


def changed(change: float, low: float | None, high: float | None, unit: str = "%") -> tuple[str, str]:
    """A change and its interval, ``+5.1 %`` and ``+3.9 to +6.2 %``; in words where that has no ends."""
    if low is None or high is None:
        return percents(change, unit=unit)[0], "too few processes"
    told, first, last = percents(change, low, high, unit=unit)
    return told, f"{first.removesuffix(f' {unit}')} to {last}"


def details(finding: FindingDoc) -> list[str]:
    """Everything known of one finding, as ``name: value`` lines for outputs without a table."""
    told: Sequence[tuple[str, str]] = (
        ("measured", measured(finding)),
        ("allowed", allowed(finding)),
        ("baseline", baseline(finding)),
        ("change", change(finding)),
        ("processes", processes(finding)),
        ("asked for by", finding.where),
        ("look first", finding.first_look or MISSING),
    )
    return [f"{name}: {value}" for name, value in told if value != MISSING]
