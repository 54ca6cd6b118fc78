"""One limit against one snapshot: what was measured, what is allowed, and what that comes to."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Final

from msgspec.structs import replace

from ...model.units import printable, written
from ..check_document import HOLDS, INCONCLUSIVE, REGRESSION, RUNS, TO_FIX, FindingDoc, IntervalDoc
from ..difference import Change, against_value, change, is_host_paced
from . import sentences
from .limits import COUNT, FIGURES, SHARE, TIME, TIMED, Limit
from .sides import Sides, samples, value_of

FLOAT_NOISE: Final = 1e-9
"""Share by which means of whole counts, and shares of them, may be off."""

_ANYTHING: Final = 1e6  # by how much more idle time of nothing may differ than the step time


def judged(sides: Sides, limit: Limit) -> FindingDoc:
    """What came of one limit."""
    obstacle = _obstacle(sides, limit)
    if obstacle is not None:
        outcome, message = obstacle
        return _finding(sides, limit, outcome, message)
    if limit.figure not in TIMED or limit.figure == "gpu_work":
        return _of_values(sides, limit)
    return _of_times(sides, limit) if limit.relative else _of_times_alone(sides, limit)


def of_running(sides: Sides, outcome: str, message: str, *, where: str, first_look: str | None = None) -> FindingDoc:
    """Whether a mode that failed, or is lacking, was measured at all: 1 on a side that was, 0 on one that was not."""
    was = None if sides.baseline is None else float(sides.baseline.error is None)
    found = _finding(sides, Limit("launches", "==", 1.0, text=RUNS, where=where), outcome, message)
    return replace(found, figure=RUNS, measured=0.0, baseline=was, first_look=first_look)


def _finding(
    sides: Sides,
    limit: Limit,
    outcome: str,
    message: str,
    difference: Change | None = None,
    needed: int | None = None,
) -> FindingDoc:
    """The finding with everything that is known of the figure."""
    values = sides.values(limit.figure)
    is_known = not limit.relative or values.baseline is not None
    return FindingDoc(
        target=sides.current.target,
        mode=sides.current.mode,
        figure=limit.figure,
        unit=FIGURES[limit.figure].unit,
        limit=limit.text,
        where=limit.where,
        outcome=outcome,
        measured=values.measured,
        allowed=limit.allowed(values.baseline) if is_known else None,
        baseline=values.baseline,
        interval=None if difference is None else _interval(difference),
        needed_processes=needed,
        message=message,
        first_look=None,
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


def _obstacle(sides: Sides, limit: Limit) -> tuple[str, str] | None:
    """Why the limit can't be held against anything, after what that makes of it; None when it can."""
    figure, now, base, values = limit.figure, sides.current, sides.baseline, sides.values(limit.figure)
    recorded = figure not in ("step_time", "graph_memory")
    if recorded and now.unreliable:
        return INCONCLUSIVE, f"the recording can't be trusted: {printable('; '.join(now.unreliable))}"
    if values.measured is None:
        why = now.withheld.get(figure, "it was not measured")
        return INCONCLUSIVE, f"it can't be told: {printable(why)}"
    if not limit.relative:
        return None
    if base is None:
        return TO_FIX, sides.why_no_baseline
    if sides.differs and (figure in TIMED or sides.same_machine):
        what = "; ".join(f"{part} {ours}, the baseline's {its}" for part, (its, ours) in sides.differs.items())
        told = "times" if figure in TIMED else "figures"
        return TO_FIX, f"{told} of another machine are not comparable ({printable(what)}): save a baseline of this one"
    if recorded and base.unreliable:
        return INCONCLUSIVE, f"the baseline's recording can't be trusted: {printable('; '.join(base.unreliable))}"
    if values.baseline is None:
        why = base.error or base.withheld.get(figure, "it was not measured")
        return INCONCLUSIVE, f"the baseline doesn't tell it: {printable(why)}"
    return None


def _measured(sides: Sides, limit: Limit) -> float:
    measured = sides.values(limit.figure).measured
    assert measured is not None, "what can't be told is an obstacle"
    return measured


def _before(sides: Sides, limit: Limit) -> float:
    baseline = sides.values(limit.figure).baseline
    assert baseline is not None, "what the baseline doesn't tell is an obstacle"
    return baseline


def _of_values(sides: Sides, limit: Limit) -> FindingDoc:
    """Counts, shares of them and bytes are exact; W is one figure for all processes, compared as it is."""
    unit, measured = FIGURES[limit.figure].unit, _measured(sides, limit)
    baseline = _before(sides, limit) if limit.relative else None
    noise = FLOAT_NOISE * max(1.0 if unit in (COUNT, SHARE) else 0.0, abs(measured), abs(baseline or 0.0))
    message = sentences.beside_allowed(limit, measured, baseline)
    if baseline is not None:
        message += f" (the baseline's {written(baseline, unit)})"
    if unit == TIME:
        message += ": one figure of all recordings, without an interval"
    holds = limit.holds(measured, baseline, noise=noise)
    return _finding(sides, limit, HOLDS if holds else REGRESSION, message)


def _of_times(sides: Sides, limit: Limit) -> FindingDoc:
    """Times by process against the baseline's: a regression is significant and larger than allowed."""
    baseline = _before(sides, limit)
    now, base, paired = sides.processes(limit.figure)
    if not _positive(base):
        return _from_nothing(sides, limit)
    if not _positive(now):
        message = sentences.beside_baseline(limit.figure, _measured(sides, limit), baseline)
        return _finding(sides, limit, HOLDS, message)
    difference = change(now, base, paired=paired, between_runs=_between_runs(sides, limit.figure, paired=paired))
    allowed = limit.amount if limit.proportional else limit.amount / baseline
    outcome, needed = difference.decide(allowed)
    if outcome == INCONCLUSIVE:
        message = sentences.undecided_change(limit.figure, difference, allowed, baseline, needed)
    else:
        message = sentences.of_change(limit.figure, difference, allowed, baseline)
    return _finding(sides, limit, outcome, message, difference, needed)


def _of_times_alone(sides: Sides, limit: Limit) -> FindingDoc:
    """Times by process against a value."""
    now, measured = samples(sides.current, limit.figure), _measured(sides, limit)
    message, needed = sentences.beside_allowed(limit, measured, None), None
    if not _positive(now) or not limit.amount:
        outcome = HOLDS if limit.holds(measured, None) else REGRESSION
    else:
        outcome, needed = against_value(now, limit.amount).decide(0.0)
    if outcome == INCONCLUSIVE:
        message = sentences.undecided_value(limit, measured, len(now), needed)
    return _finding(sides, limit, outcome, message, needed=needed)


def _from_nothing(sides: Sides, limit: Limit) -> FindingDoc:
    """A baseline of 0: a share of it allows nothing, and no change can be told as a share."""
    kind, measured, baseline = FIGURES[limit.figure], _measured(sides, limit), _before(sides, limit)
    if limit.holds(measured, max(baseline, 0.0)):
        return _finding(sides, limit, HOLDS, sentences.beside_baseline(limit.figure, measured, baseline))
    message = (
        f"the baseline's {kind.words} is {written(baseline, kind.unit)}, of which no change can be told: "
        f'limit the value, {limit.figure} = "{"<= 0.1" if kind.unit == SHARE else "<= 100 us"}", say'
    )
    return _finding(sides, limit, TO_FIX, message)


def _positive(processes: Sequence[Sequence[float]]) -> bool:
    return bool(processes) and all(median(each) > 0 for each in processes)


def _between_runs(sides: Sides, figure: str, *, paired: bool) -> float:
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
