"""What came of a limit, in a sentence: the figure beside what is allowed, and how many processes could tell."""

from __future__ import annotations

from typing import Final

from ...model.units import apart, number, percents, plural, written
from ..difference import PROCESSES, Change
from .limits import COUNT, FIGURES, SHARE, Limit

_MOST_REPEATS: Final = 100  # processes that one may have the patience for
_IN_TURN: Final = "measure both in turn (launchscope profile TARGET --against OTHER)"


def beside_allowed(limit: Limit, value: float, baseline: float | None) -> str:
    """``735 launches per step where at most 300 are allowed``."""
    unit, allowed = FIGURES[limit.figure].unit, limit.allowed(baseline)
    told = apart(allowed, value, unit)
    sign = {"+": "<=", "-": ">="}.get(limit.sign, limit.sign)
    words = {"<=": "at most", "<": "less than", "==": "exactly", ">=": "at least", ">": "more than"}[sign]
    verb = "are" if unit == COUNT and told != "1" else "is"
    what = "asked for" if sign in (">=", ">") else "allowed"
    return f"{_told(limit.figure, value, allowed)} where {words} {told} {verb} {what}"


def beside_baseline(figure: str, value: float, baseline: float) -> str:
    """``launch tax per step 20.0 µs, the baseline's 0``."""
    return f"{_told(figure, value)}, the baseline's {written(baseline, FIGURES[figure].unit)}"


def of_change(figure: str, difference: Change, allowed: float, baseline: float) -> str:
    """``step time +10.0 % (99 % interval +8.9 % to +11.1 %, 8 processes) where +3.0 % is allowed``."""
    return _changed(figure, difference, allowed, baseline, f", {_processes_of(difference)}")


def undecided_change(figure: str, difference: Change, allowed: float, baseline: float, needed: int | None) -> str:
    """``can't tell with 3 processes: step time +10.0 % (no interval) where +3.0 % is allowed; …``."""
    changed = _changed(figure, difference, allowed, baseline, "")
    return f"can't tell with {_processes_of(difference)}: {changed}; {_needed(needed, paired=difference.paired)}"


def undecided_value(limit: Limit, value: float, processes: int, needed: int | None) -> str:
    """``can't tell with 1 process: step time 600 µs where at most 500 µs is allowed; …``."""
    return f"can't tell with {_count(processes)}: {beside_allowed(limit, value, None)}; {_needed(needed, paired=True)}"


def _told(figure: str, value: float, beside: float | None = None) -> str:
    """``735 launches per step``, ``step time 2.29 ms``; with digits that tell it from another value."""
    kind = FIGURES[figure]
    told = apart(value, beside, kind.unit)
    if kind.unit != COUNT:
        return f"{kind.words} {told}"
    return f"{told} {kind.one if value == 1 else kind.words}"


def _changed(figure: str, difference: Change, allowed: float, baseline: float, more: str) -> str:
    """The change with its interval, of a share in points: per cent of one could mean two things."""
    kind = FIGURES[figure]
    whole, unit = (baseline, "points") if kind.unit == SHARE else (1.0, "%")
    ends = [difference.low, difference.high] if difference.is_known else []
    change, limit, *told = percents(*(each * whole for each in (difference.change, allowed, *ends)), unit=unit)
    interval = f"99 % interval {' to '.join(told)}" if told else "no interval"
    return f"{kind.words} {change} ({interval}{more}) where {limit} is allowed"


def _processes_of(difference: Change) -> str:
    if difference.paired:
        return plural(difference.processes, "pair")
    others = difference.processes_baseline
    return _count(difference.processes) + ("" if others == difference.processes else f" against {number(others)}")


def _needed(needed: int | None, *, paired: bool) -> str:
    if needed is None and paired:
        return "it is as close to the limit as the samples can tell, and more processes don't help"
    if needed is None:
        return f"two runs of the same code may differ by as much, so more processes don't help; {_IN_TURN}"
    least = f"at least {_count(needed)} are needed{'' if paired else ' on each side'}"
    if needed > _MOST_REPEATS:
        return f"{least}, as it is so close to the limit"
    return f"{least} (launchscope profile --for-check{f' --repeats {needed}' if needed > PROCESSES else ''})"


def _count(processes: int) -> str:
    return plural(processes, "process", "processes")
