"""Which recording speaks for a mode: passes, repeats, reliable ones first. Whoever chooses among recordings asks here.

Of two equally good recordings the one whose process is nearest to T stands first.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import inf
from statistics import median
from typing import Final, Protocol, TypeVar

from ..figures.analyses import TraceAnalysis
from ..model.capture import AS_WRITTEN, ModeRecord, ProcessRecord
from ..model.document import ModeDoc, ProcessDoc, StepTimeDoc, TraceDoc

TIMES: Final = ("cuda", "cpu_cuda", "stacks")
"""Passes by how little they slow a step: times and counts come from the first."""

OPERATORS: Final = ("cpu_cuda", "stacks", "cuda")
"""Passes that know operators, by how little they slow a step."""

LINES: Final = ("stacks", "cpu_cuda", "cuda")
"""Passes by how much they know of operators and lines."""

COMPARED: Final = ("cpu_cuda", "cuda")
"""Passes that two sides are compared by, the one that knows operators first."""

PASS_OF_STACKS: Final = "stacks"
"""Its process is there for lines of Python alone: no time is taken from it."""


class TimedMode(Protocol):
    """A mode's T, and the processes that it is the median over."""

    @property
    def step_ns(self) -> StepTimeDoc | None: ...
    @property
    def processes(self) -> Sequence[ProcessDoc | ProcessRecord]: ...


Recording = TypeVar("Recording", TraceAnalysis, TraceDoc)


def mode_of(recording: TraceAnalysis | TraceDoc) -> str | None:
    """Its mode as the profile names it; None for a trace of others."""
    return _document(recording).mode or (None if _document(recording).trace_pass is None else AS_WRITTEN)


def mode_in_document(mode: str) -> str | None:
    """What a trace of the report says of its mode: null where the target ran as it is written."""
    return None if mode == AS_WRITTEN else mode


def of_mode(recordings: Iterable[Recording], mode: str | None) -> list[Recording]:
    """A mode's recordings; traces of others for None."""
    return [each for each in recordings if mode_of(each) == mode]


def of_pass(recordings: Iterable[Recording], *passes: str | None) -> list[Recording]:
    """Those of these passes, in their order; None: of others."""
    found = list(recordings)
    return [each for its in passes for each in found if _document(each).trace_pass == its]


def of_best_pass(recordings: Sequence[Recording], passes: Sequence[str]) -> Sequence[Recording]:
    """All of the first pass that there is; all of them where none is of a pass."""
    return next((found for its in passes if (found := of_pass(recordings, its))), recordings)


def ranked(recordings: Iterable[Recording], passes: Sequence[str], mode: TimedMode | None = None) -> list[Recording]:
    """The one that speaks for the mode first: with steps, of the earliest pass, reliable, its process nearest to T.

    ``mode``: the mode's times; without it those of one pass stay in their order.
    """
    apart = {} if mode is None else _apart_ns(mode)

    def place(recording: TraceAnalysis | TraceDoc) -> tuple[bool, int, bool, float]:
        its, repeat = _document(recording).trace_pass, _document(recording).repeat
        order = passes.index(its) if its in passes else len(passes)
        far = apart.get(repeat, inf) if apart else 0.0
        return not has_steps(recording), order, not is_reliable(recording), far

    return sorted(recordings, key=place)


def _apart_ns(mode: TimedMode) -> dict[int | None, float]:
    """How far each repeat's unprofiled step time is from T."""
    if mode.step_ns is None:
        return {}
    return {
        each.repeat: abs(median(each.samples_ns) - mode.step_ns.median) for each in mode.processes if each.samples_ns
    }


def speaks_for(recordings: Iterable[Recording], name: str, mode: TimedMode | None) -> Recording | None:
    """THE recording of a mode; None where none could be read."""
    return next(iter(ranked(of_mode(recordings, name), TIMES, mode)), None)


def alike(ours: Sequence[Recording], theirs: Sequence[Recording]) -> tuple[Recording, Recording] | None:
    """The first of each side of the same pass, or of the best pass and a trace of others; None where nothing pairs."""
    for its in COMPARED:
        pair = of_pass(ours, its)[:1] + of_pass(theirs, its)[:1]
        if len(pair) == 2:
            return pair[0], pair[1]
    best = [of_pass(side, *COMPARED, None)[:1] for side in (ours, theirs)]
    has_others = bool(of_pass(ours, None) or of_pass(theirs, None))
    return (best[0][0], best[1][0]) if has_others and all(best) else None


def behind_figures(recordings: Iterable[Recording]) -> list[Recording]:
    """Those that a mode's figures are medians over: of `cuda` and with steps; the reliable ones, if there are any."""
    found = [each for each in of_pass(recordings, TIMES[0]) if has_steps(each)]
    return [each for each in found if is_reliable(each)] or found


def without_stacks(recordings: Iterable[Recording]) -> list[Recording]:
    """Those that counts of a step may come from."""
    return [each for each in recordings if _document(each).trace_pass != PASS_OF_STACKS]


def is_reliable(recording: TraceAnalysis | TraceDoc) -> bool:
    """Whether what it says can be trusted."""
    return _document(recording).coverage.reliable


def has_steps(recording: TraceAnalysis | TraceDoc) -> bool:
    """Whether it has figures of a step."""
    return _document(recording).steps is not None


def _document(recording: TraceAnalysis | TraceDoc) -> TraceDoc:
    return recording.document if isinstance(recording, TraceAnalysis) else recording


def timing_records(record: ModeRecord) -> list[ProcessRecord]:
    """A mode's processes that times may be taken from."""
    return [each for each in record.processes if each.trace_pass != PASS_OF_STACKS]


def timed_processes(mode: ModeDoc, recordings: Iterable[TraceAnalysis | TraceDoc]) -> list[ProcessDoc]:
    """Those whose samples are T, of a report; ``recordings`` are the mode's."""
    untimed = {_document(each).repeat for each in recordings if _document(each).trace_pass == PASS_OF_STACKS}
    return [each for each in mode.processes if each.samples_ns and each.repeat not in untimed]
