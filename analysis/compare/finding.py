"""One limit against one snapshot: what was measured, what is allowed, and what that comes to, in a sentence."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Final, NamedTuple

from msgspec.structs import replace

from ..model.units import apart, number, percents, plural, printable, written
from .config import Limits
from .difference import PROCESSES, Change, against_value, between_runs, change, in_pairs
from .documents import HOLDS, INCONCLUSIVE, REGRESSION, RUNS, TO_FIX, FindingDoc, IntervalDoc
from .limits import COUNT, FIGURES, SHARE, TIME, TIMED, Limit
from .snapshot import Snapshot

FLOAT_NOISE: Final = 1e-9
"""Share by which means of whole counts, and shares of them, may be off."""

_ANYTHING: Final = 1e6  # by how much more idle time of nothing may differ than the step time
_MOST_REPEATS: Final = 100  # processes that one may have the patience for
_IN_TURN: Final = "measure both in turn (launchscope profile TARGET --against OTHER)"


@dataclass(frozen=True)
class Sides:
    """What is checked, what it is compared with, and by which rules."""

    current: Snapshot
    baseline: Snapshot | None
    limits: Limits = field(default_factory=Limits)
    same_machine: bool = False
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

    def values(self, figure: str) -> tuple[float | None, float | None]:
        """The figure, and the baseline's: ns, bytes, per step or a share; null where it can't be told."""
        base = self.baseline
        return value_of(self.current, figure), None if base is None else value_of(base, figure)


class _Answer(NamedTuple):
    """What comes of a limit."""

    outcome: str
    message: str
    difference: Change | None = None
    needed: int | None = None


def judged(sides: Sides, limit: Limit) -> FindingDoc:
    """What came of one limit."""
    measured, baseline = sides.values(limit.figure)
    answer = _obstacle(sides, limit, measured, baseline)
    if answer is None:
        assert measured is not None, "what can't be told is an obstacle"
        baseline = baseline if limit.relative else None
        if limit.figure not in TIMED or limit.figure == "gpu_work":
            answer = _of_values(limit, measured, baseline)
        elif baseline is None:
            answer = _of_times_alone(sides.current, limit, measured)
        else:
            answer = _of_times(sides, limit, measured, baseline)
    return _finding(sides, limit, answer)


def of_running(sides: Sides, outcome: str, message: str, *, where: str, first_look: str | None = None) -> FindingDoc:
    """Whether a mode that failed, or is lacking, was measured at all: 1 on a side that was, 0 on one that was not."""
    was = None if sides.baseline is None else float(sides.baseline.error is None)
    found = _finding(sides, Limit("launches", "==", 1.0, text=RUNS, where=where), _Answer(outcome, message))
    return replace(found, figure=RUNS, measured=0.0, baseline=was, first_look=first_look)


def _finding(sides: Sides, limit: Limit, answer: _Answer) -> FindingDoc:
    """The finding with everything that is known of the figure."""
    measured, baseline = sides.values(limit.figure)
    is_known, difference = not limit.relative or baseline is not None, answer.difference
    return FindingDoc(
        target=sides.current.target,
        mode=sides.current.mode,
        figure=limit.figure,
        unit=FIGURES[limit.figure].unit,
        limit=limit.text,
        where=limit.where,
        outcome=answer.outcome,
        measured=measured,
        allowed=limit.allowed(baseline) if is_known else None,
        baseline=baseline,
        interval=None if difference is None else IntervalDoc(**vars(difference) | difference.ends),
        needed_processes=answer.needed,
        message=answer.message,
        first_look=None,
    )


def _obstacle(sides: Sides, limit: Limit, measured: float | None, baseline: float | None) -> _Answer | None:
    """Why the limit can't be held against anything, after what that makes of it; None when it can."""
    figure, now, base = limit.figure, sides.current, sides.baseline
    recorded = figure not in ("step_time", "graph_memory")
    if now.unreliable and (recorded or measured is None):
        return _Answer(TO_FIX, f"the recording can't be trusted: {printable('; '.join(now.unreliable))}")
    if measured is None:
        why = now.withheld.get(figure, "it was not measured")
        return _Answer(INCONCLUSIVE, f"it can't be told: {printable(why)}")
    if not limit.relative:
        return None
    if base is None:
        return _Answer(TO_FIX, sides.why_no_baseline)
    if sides.differs and (figure in TIMED or sides.same_machine):
        what = "; ".join(f"{part} {ours}, the baseline's {its}" for part, (its, ours) in sides.differs.items())
        which = "times" if figure in TIMED else "figures"
        return _Answer(
            TO_FIX, f"{which} of another machine are not comparable ({printable(what)}): save a baseline of this one"
        )
    if recorded and base.unreliable:
        return _Answer(TO_FIX, f"the baseline's recording can't be trusted: {printable('; '.join(base.unreliable))}")
    if baseline is None:
        why = base.error or base.withheld.get(figure, "it was not measured")
        return _Answer(INCONCLUSIVE, f"the baseline doesn't tell it: {printable(why)}")
    return None


def _of_values(limit: Limit, measured: float, baseline: float | None) -> _Answer:
    """Counts, shares of them and bytes are exact; W is one figure for all processes, compared as it is."""
    unit = FIGURES[limit.figure].unit
    noise = FLOAT_NOISE * max(1.0 if unit in (COUNT, SHARE) else 0.0, abs(measured), abs(baseline or 0.0))
    message = _against_limit(limit, measured, baseline)
    if baseline is not None:
        message += f" (the baseline's {written(baseline, unit)})"
    if unit == TIME:
        message += ": one figure of all recordings, without an interval"
    return _Answer(HOLDS if limit.holds(measured, baseline, noise=noise) else REGRESSION, message)


def _of_times(sides: Sides, limit: Limit, measured: float, baseline: float) -> _Answer:
    """Times by process against the baseline's: a regression is significant and larger than allowed."""
    now, base, paired = _processes(sides, limit.figure)
    if not _positive(base):
        return _of_nothing(limit, measured, baseline)
    if not _positive(now):
        return _Answer(HOLDS, _against_baseline(limit.figure, measured, baseline))
    difference = change(now, base, paired=paired, between_runs=_between_runs(sides, limit.figure, paired=paired))
    allowed = limit.amount if limit.proportional else limit.amount / baseline
    outcome, needed = difference.decide(allowed)
    have = _processes_of(difference)
    if outcome != INCONCLUSIVE:
        return _Answer(outcome, _changed(limit.figure, difference, allowed, baseline, f", {have}"), difference, needed)
    changed = _changed(limit.figure, difference, allowed, baseline)
    return _Answer(outcome, f"can't tell with {have}: {changed}; {_needed(needed, paired=paired)}", difference, needed)


def _of_times_alone(current: Snapshot, limit: Limit, measured: float) -> _Answer:
    """Times by process against a value."""
    processes, message = samples(current, limit.figure), _against_limit(limit, measured, None)
    if not _positive(processes) or not limit.amount:
        return _Answer(HOLDS if limit.holds(measured, None) else REGRESSION, message)
    outcome, needed = against_value(processes, limit.amount).decide(0.0)
    if outcome == INCONCLUSIVE:
        message = f"can't tell with {_count(len(processes))}: {message}; {_needed(needed, paired=True)}"
    return _Answer(outcome, message, needed=needed)


def _of_nothing(limit: Limit, measured: float, baseline: float) -> _Answer:
    """A baseline of 0: a share of it allows nothing, and no change can be told as a share."""
    if limit.holds(measured, max(baseline, 0.0)):
        return _Answer(HOLDS, _against_baseline(limit.figure, measured, baseline))
    kind = FIGURES[limit.figure]
    message = (
        f"the baseline's {kind.words} is {written(baseline, kind.unit)}, of which no change can be told: "
        f'limit the value, {limit.figure} = "{"<= 0.1" if kind.unit == SHARE else "<= 100 us"}", say'
    )
    return _Answer(TO_FIX, message)


def _processes(sides: Sides, figure: str) -> tuple[Sequence[Sequence[float]], Sequence[Sequence[float]], bool]:
    """Samples by process of both sides, and whether these are pairs: of one run, the repeats that both have."""
    assert sides.baseline is not None, "relative"
    both = [sides.current, sides.baseline]
    now, base = (samples(side, figure) for side in both)
    if sides.current.run is not None and sides.current.run == sides.baseline.run:
        repeats = [[timing.repeat for timing in side.timings] for side in both]
        ours, theirs = in_pairs(*(dict(zip(*each, strict=True)) for each in zip(repeats, (now, base), strict=True)))
        if ours:
            return ours, theirs, True
    return now, base, False


def _positive(processes: Sequence[Sequence[float]]) -> bool:
    return bool(processes) and all(median(each) > 0 for each in processes)


def _between_runs(sides: Sides, figure: str, *, paired: bool) -> float:
    """By how much the same code's figure may differ between two runs: what moves T moves T − W by more.

    Each side has W of one recording, so that of idle times even two sides of one run differ by what moves W.
    """
    assert sides.baseline is not None, "relative"
    both = (sides.current, sides.baseline)
    rules = sides.limits
    of_step = between_runs(
        *(side.timings for side in both), paired=paired, gpu_paced=rules.gpu_paced, host_paced=rules.host_paced
    )
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


def value_of(snapshot: Snapshot, figure: str) -> float | None:
    """A figure of a snapshot in ns, bytes, per step or as a share; of times the median over processes."""
    match figure:
        case "step_time" | "launch_tax" | "true_idle":
            if not samples(snapshot, figure):
                return None
            return _of_step(snapshot, figure, median(median(timing.samples_ns) for timing in snapshot.timings))
        case "gpu_work":
            return snapshot.gpu_work_ns
        case "graph_memory":
            return snapshot.graph_memory_bytes
        case _:
            value: float | None = getattr(snapshot, figure, snapshot.figures.get(figure))
            return value


def samples(snapshot: Snapshot, figure: str) -> list[list[float]]:
    """A time in ns, or a share of the step time, by process; empty where it can't be told.

    W, waiting and the share of the launch tax were measured once for all processes: the step time alone varies.
    """
    if figure in snapshot.withheld:
        return []
    found = [[_of_step(snapshot, figure, ns) for ns in timing.samples_ns] for timing in snapshot.timings]
    return [[value for value in each if value is not None] for each in found if None not in each]


def _of_step(snapshot: Snapshot, figure: str, step_ns: float) -> float | None:
    """A time, or a share of the step time, of a step that takes so long; null where it can't be told."""
    work, tax = snapshot.gpu_work_ns, snapshot.launch_tax_share
    if figure == "step_time":
        return step_ns
    if work is None:
        return None
    idle_ns = (step_ns - work) * (1 - snapshot.waiting_share)
    match figure:
        case "launch_tax":
            return None if tax is None else tax * idle_ns
        case "true_idle":
            return idle_ns / step_ns
        case _:
            return None


def _against_limit(limit: Limit, value: float, baseline: float | None) -> str:
    """``735 launches per step where at most 300 are allowed``."""
    allowed = limit.allowed(baseline)
    bound = apart(allowed, value, FIGURES[limit.figure].unit)
    sign = {"+": "<=", "-": ">="}.get(limit.sign, limit.sign)
    words = {"<=": "at most", "<": "less than", "==": "exactly", ">=": "at least", ">": "more than"}[sign]
    verb = "are" if FIGURES[limit.figure].unit == COUNT and bound != "1" else "is"
    what = "asked for" if sign in (">=", ">") else "allowed"
    return f"{_in_words(limit.figure, value, allowed)} where {words} {bound} {verb} {what}"


def _against_baseline(figure: str, value: float, baseline: float) -> str:
    """``launch tax per step 20.0 µs, the baseline's 0``."""
    return f"{_in_words(figure, value)}, the baseline's {written(baseline, FIGURES[figure].unit)}"


def _in_words(figure: str, value: float, other: float | None = None) -> str:
    """``735 launches per step``, ``step time 2.29 ms``; with digits that tell it from another value."""
    kind = FIGURES[figure]
    digits = apart(value, other, kind.unit)
    if kind.unit != COUNT:
        return f"{kind.words} {digits}"
    return f"{digits} {kind.one if value == 1 else kind.words}"


def _changed(figure: str, difference: Change, allowed: float, baseline: float, processes: str = "") -> str:
    """``step time +10.0 % (99 % interval +8.9 % to +11.1 %, 8 processes) where +3.0 % is allowed``.

    Of a share in points: per cent of one could mean two things.
    """
    kind = FIGURES[figure]
    whole, unit = (baseline, "points") if kind.unit == SHARE else (1.0, "%")
    ends = [difference.low, difference.high] if difference.is_known else []
    change, limit, *interval_ends = percents(*(each * whole for each in (difference.change, allowed, *ends)), unit=unit)
    interval = f"99 % interval {' to '.join(interval_ends)}" if interval_ends else "no interval"
    return f"{kind.words} {change} ({interval}{processes}) where {limit} is allowed"


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
