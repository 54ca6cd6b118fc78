"""One limit against one snapshot: what was measured, what is allowed, and what that comes to, in a sentence."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Final

from ..units import apart, number, percents, plural, printable, written
from .config import Limits
from .difference import PROCESSES, Change, against_value, change, is_host_paced
from .document import HOLDS, INCONCLUSIVE, REGRESSION, TO_FIX, FindingDoc, IntervalDoc
from .limits import COUNT, FIGURES, SHARE, TIME, TIMED, Figure, Limit
from .snapshot import Snapshot

FLOAT_NOISE: Final = 1e-9
"""Share by which means of whole counts, and shares of them, may be off."""

_ANYTHING: Final = 1e6  # by how much more idle time of nothing may differ than the step time
_REPEATS: Final = 100  # processes that one may have the patience for
_IN_TURN: Final = "measure both in turn: launchscope profile TARGET --against OTHER"


@dataclass(frozen=True)
class Side:
    """A figure on both sides; null where it can't be told, or where there is no baseline."""

    measured: float | None = None
    baseline: float | None = None


@dataclass(frozen=True)
class Pair:
    """What is checked, what it is compared with, and by which rules."""

    current: Snapshot
    baseline: Snapshot | None
    limits: Limits
    same_machine: bool
    why_no_baseline: str = ""

    @property
    def differs(self) -> dict[str, list[str]]:
        """Parts of the machine that are not the baseline's: [the baseline's, the current one's]."""
        if self.baseline is None:
            return {}
        was, now = self.baseline.fingerprint, self.current.fingerprint
        return {
            part: ["unknown" if each is None else str(each) for each in (was[part], now[part])]
            for part in now
            if was[part] != now[part]
        }

    @property
    def paired(self) -> bool:
        """Whether both were measured in turn in one run."""
        return self.baseline is not None and self.current.run is not None and self.current.run == self.baseline.run


def judged(sides: Pair, limit: Limit) -> FindingDoc:
    """What came of one limit."""
    kind = FIGURES[limit.figure]
    obstacle = _obstacle(sides, limit)
    if obstacle is not None:
        return finding(sides, limit, outcome=obstacle[0], message=obstacle[1], side=_values(sides, limit.figure))
    if limit.figure in TIMED and limit.figure != "gpu_work":
        return _of_times(sides, limit, kind)
    return _of_values(sides, limit, kind)


def finding(
    sides: Pair,
    limit: Limit,
    *,
    outcome: str,
    message: str,
    side: Side,
    figure: str | None = None,
    difference: Change | None = None,
    needed: int | None = None,
    first_look: str | None = None,
) -> FindingDoc:
    """The finding with everything that is known of the figure; ``figure`` overrules the limit's."""
    allowed = None
    if not limit.relative or side.baseline is not None:
        allowed = limit.allowed(side.baseline)
    return FindingDoc(
        target=sides.current.target,
        mode=sides.current.mode,
        figure=figure or limit.figure,
        unit=FIGURES[limit.figure].unit,
        limit=limit.text,
        where=limit.where,
        outcome=outcome,
        measured=side.measured,
        allowed=allowed,
        baseline=side.baseline,
        interval=None if difference is None else _interval(difference),
        needed_processes=needed,
        message=message,
        first_look=first_look,
    )


def _interval(difference: Change) -> IntervalDoc:
    return IntervalDoc(
        change=difference.change,
        low=difference.low if difference.is_known else None,
        high=difference.high if difference.is_known else None,
        paired=difference.paired,
        processes=difference.processes,
        processes_baseline=difference.processes_baseline,
        between_runs=difference.between_runs,
    )


def _obstacle(sides: Pair, limit: Limit) -> tuple[str, str] | None:
    """Why the limit can't be held against anything, with what that makes of it; None when it can."""
    figure, now, base = limit.figure, sides.current, sides.baseline
    timed = figure in TIMED
    recorded = figure not in ("step_time", "graph_memory")
    if recorded and now.unreliable:
        return INCONCLUSIVE, f"the recording can't be trusted: {printable('; '.join(now.unreliable))}"
    if _values(sides, figure).measured is None:
        why = now.withheld.get(figure, "it was not measured")
        return INCONCLUSIVE, f"it can't be told: {printable(why)}"
    if not limit.relative:
        return None
    if base is None:
        return TO_FIX, sides.why_no_baseline
    if sides.differs and (timed or sides.same_machine):
        what = "; ".join(f"{part} {ours}, the baseline's {its}" for part, (its, ours) in sides.differs.items())
        told = "times" if timed else "figures"
        return TO_FIX, f"{told} of another machine are not comparable: {printable(what)}: save a baseline of this one"
    if recorded and base.unreliable:
        return INCONCLUSIVE, f"the baseline's recording can't be trusted: {printable('; '.join(base.unreliable))}"
    if _values(sides, figure).baseline is None:
        why = base.error or base.withheld.get(figure, "it was not measured")
        return INCONCLUSIVE, f"the baseline doesn't tell it: {printable(why)}"
    return None


def _values(sides: Pair, figure: str) -> Side:
    return Side(value_of(sides.current, figure), None if sides.baseline is None else value_of(sides.baseline, figure))


def value_of(snapshot: Snapshot, figure: str) -> float | None:
    """A figure of a snapshot in ns, bytes, per step or as a share; of times the median over processes."""
    match figure:
        case "step_time" | "launch_tax" | "true_idle":
            found = samples(snapshot, figure)
            return median(median(each) for each in found) if found else None
        case "gpu_work":
            return snapshot.gpu_work_ns
        case "graph_memory":
            return snapshot.graph_memory_bytes
        case _:
            value: float | None = getattr(snapshot, figure)
            return value


def samples(snapshot: Snapshot, figure: str) -> list[list[float]]:
    """A time, or a share of the step time, by process; empty where it can't be told.

    W and the share of the launch tax were measured once for all processes, so that the step time alone varies.
    """
    timings, work, tax = snapshot.timings, snapshot.gpu_work_ns, snapshot.launch_tax_share
    if figure in snapshot.withheld:
        return []
    match figure:
        case "step_time":
            return [list(timing.samples_ns) for timing in timings]
        case "launch_tax" if work is not None and tax is not None:
            return [[tax * (ns - work) for ns in timing.samples_ns] for timing in timings]
        case "true_idle" if work is not None:
            return [[(ns - work) / ns for ns in timing.samples_ns] for timing in timings]
        case _:
            return []


def _of_values(sides: Pair, limit: Limit, kind: Figure) -> FindingDoc:
    """Counts, shares of them and bytes are exact; W is one figure for all processes, compared as it is."""
    side = _values(sides, limit.figure)
    assert side.measured is not None, "what can't be told is an obstacle"
    base = side.baseline if limit.relative else None
    noise = FLOAT_NOISE * max(1.0 if kind.unit in (COUNT, SHARE) else 0.0, abs(side.measured), abs(base or 0.0))
    holds = limit.holds(side.measured, base, noise=noise)
    message = _beside_allowed(limit, kind, side.measured, base)
    if limit.relative and side.baseline is not None:
        message += f" (the baseline's {written(side.baseline, kind.unit)})"
    if kind.unit == TIME:
        message += ": one figure of all recordings, without an interval"
    return finding(sides, limit, outcome=HOLDS if holds else REGRESSION, message=message, side=side)


def _beside_allowed(limit: Limit, kind: Figure, value: float, baseline: float | None) -> str:
    """``735 launches per step where at most 300 are allowed``"""
    allowed = limit.allowed(baseline)
    told = apart(allowed, value, kind.unit)
    sign = {"+": "<=", "-": ">="}.get(limit.sign, limit.sign)
    verb = "are" if kind.unit == COUNT and told != "1" else "is"
    word = {"<=": f"at most {told}", "<": f"less than {told}", "==": f"exactly {told}"}.get(sign)
    if word is None:
        word, verb = f"{'at least' if sign == '>=' else 'more than'} {told}", f"{verb} asked for"
    else:
        verb = f"{verb} allowed"
    return f"{_told_as(kind, value, allowed)} where {word} {verb}"


def _told_as(kind: Figure, value: float, beside: float | None = None) -> str:
    """``735 launches per step``, ``step time 2.29 ms``; with digits that tell it from another value."""
    told = apart(value, beside, kind.unit)
    if kind.unit != COUNT:
        return f"{kind.words} {told}"
    return f"{told} {kind.one if value == 1 else kind.words}"


def _of_times(sides: Pair, limit: Limit, kind: Figure) -> FindingDoc:
    """Times by process: a regression is significant and larger than allowed."""
    side = _values(sides, limit.figure)
    assert side.measured is not None, "what can't be told is an obstacle"
    if not limit.relative:
        return _against_a_value(sides, limit, kind, side)
    assert side.baseline is not None, "what the baseline doesn't tell is an obstacle"
    now, base, paired = _processes(sides, limit.figure)
    if not _positive(base):
        return _from_nothing(sides, limit, kind, side)
    if not _positive(now):
        message = f"{_told_as(kind, side.measured)}, the baseline's {written(side.baseline, kind.unit)}"
        return finding(sides, limit, outcome=HOLDS, message=message, side=side)
    between = _between_runs(sides, limit.figure, paired=paired)
    difference = change(now, base, paired=paired, between_runs=between)
    allowed = limit.amount if limit.proportional else limit.amount / side.baseline
    outcome, needed = difference.decide(allowed)
    return finding(
        sides,
        limit,
        outcome=outcome,
        message=_told(difference, allowed, outcome, needed, kind, side.baseline, paired=paired),
        side=side,
        difference=difference,
        needed=needed,
    )


def _against_a_value(sides: Pair, limit: Limit, kind: Figure, side: Side) -> FindingDoc:
    now = samples(sides.current, limit.figure)
    assert side.measured is not None, "what can't be told is an obstacle"
    needed = None
    if not _positive(now) or not limit.amount:
        outcome = HOLDS if limit.holds(side.measured, None) else REGRESSION
    else:
        difference = against_value(now, limit.amount)
        outcome, needed = difference.decide(0.0)
    message = _beside_allowed(limit, kind, side.measured, None)
    if outcome == INCONCLUSIVE:
        message = f"can't tell with {_processes_of(len(now))}: {message}; {_needed(needed, paired=True)}"
    return finding(sides, limit, outcome=outcome, message=message, side=side, needed=needed)


def _from_nothing(sides: Pair, limit: Limit, kind: Figure, side: Side) -> FindingDoc:
    """A baseline of 0: a share of it allows nothing, and no change can be told as a share."""
    assert side.measured is not None, "what can't be told is an obstacle"
    assert side.baseline is not None, "what the baseline doesn't tell is an obstacle"
    if limit.holds(side.measured, max(side.baseline, 0.0)):
        message = f"{_told_as(kind, side.measured)}, the baseline's {written(side.baseline, kind.unit)}"
        return finding(sides, limit, outcome=HOLDS, message=message, side=side)
    message = (
        f"the baseline's {kind.words} is {written(side.baseline, kind.unit)}, of which no change can be told: "
        f'limit it by a value: {limit.figure} = "{"<= 0.1" if kind.unit == SHARE else "<= 100 us"}", say'
    )
    return finding(sides, limit, outcome=TO_FIX, message=message, side=side)


def _processes(sides: Pair, figure: str) -> tuple[list[list[float]], list[list[float]], bool]:
    """Samples by process of both sides; of one run only the repeats that both have, in their order."""
    assert sides.baseline is not None, "relative"
    now, base = samples(sides.current, figure), samples(sides.baseline, figure)
    by_repeat = [
        {timing.repeat: each for timing, each in zip(side.timings, found, strict=True)}
        for side, found in ((sides.current, now), (sides.baseline, base))
    ]
    both = sorted(by_repeat[0].keys() & by_repeat[1].keys())
    if sides.paired and both:
        return [by_repeat[0][repeat] for repeat in both], [by_repeat[1][repeat] for repeat in both], True
    return now, base, False


def _positive(processes: Sequence[Sequence[float]]) -> bool:
    return bool(processes) and all(median(each) > 0 for each in processes)


def _between_runs(sides: Pair, figure: str, *, paired: bool) -> float:
    """By how much the same code's figure may differ between two runs: what moves T moves T − W by more.

    Each side has W of one recording, so that of idle times even two sides of one run differ by what moves W.
    """
    assert sides.baseline is not None, "relative"
    both = (sides.current, sides.baseline)
    host = any(is_host_paced(side.timings) for side in both)
    of_step = 0.0 if paired else sides.limits.host_paced if host else sides.limits.gpu_paced
    if figure == "step_time":
        return of_step
    factors = []
    for side in both:
        step, work = value_of(side, "step_time"), side.gpu_work_ns
        assert step is not None, "an idle time has a step time"
        assert work is not None, "and W"
        idle = step - work
        moved = of_step * (work if figure == "true_idle" else step) + sides.limits.gpu_paced * work
        factors.append(moved / idle if idle > 0 else _ANYTHING)
    return max(factors)


def _told(
    difference: Change,
    allowed: float,
    outcome: str,
    needed: int | None,
    kind: Figure,
    baseline: float,
    *,
    paired: bool,
) -> str:
    """The change with its interval, of a share in points: per cent of one could mean two things."""
    ends = [each for each in (difference.low, difference.high) if math.isfinite(each)]
    whole, unit = (baseline, " points") if kind.unit == SHARE else (1.0, " %")
    told = [
        text.replace(" %", unit) for text in percents(*(each * whole for each in (difference.change, allowed, *ends)))
    ]
    interval = f"99 % interval {' to '.join(told[2:])}" if len(ends) == 2 else "no interval"
    count = _processes_of(difference.processes)
    if paired:
        count = plural(difference.processes, "pair")
    elif difference.processes != difference.processes_baseline:
        count += f" against {number(difference.processes_baseline)}"
    moved = f"{kind.words} {told[0]} ({interval}, {count}) where {told[1]} is allowed"
    if outcome != INCONCLUSIVE:
        return moved
    return f"can't tell with {count}: {moved}; {_needed(needed, paired=paired)}"


def _needed(needed: int | None, *, paired: bool) -> str:
    if needed is None and paired:
        return "it is as close to the limit as the samples can tell: more processes don't help"
    if needed is None:
        return f"more processes don't help, as two runs of the same code differ by so much: {_IN_TURN}"
    least = f"at least {_processes_of(needed)} are needed{'' if paired else ' on each side'}"
    if needed > _REPEATS:
        return f"{least}, as it is so close to the limit"
    return f"{least}: launchscope profile --for-check{f' --repeats {needed}' if needed > PROCESSES else ''}"


def _processes_of(count: int) -> str:
    return plural(count, "process", "processes")
