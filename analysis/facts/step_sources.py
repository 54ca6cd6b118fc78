"""Where the steps of a trace are on the host's clock: the rules of docs/metrics.md, in order; the first that works.

The regular expression of --step-regex is checked before anything is read, and matched within a limit of time.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Final

import numpy as np

from ..model.document import PHASES
from ..model.errors import LaunchscopeError
from ..model.trace import NONE, HostKind, Ints, Notice, Trace
from .phase_names import ENGINE_STEPS, phase_of
from .replays import GraphReplays
from .step_parts import Holders, by_normalised_name, is_layer, is_loop, numbers_restart
from .step_repetition import repeated_steps

LEAST_ANNOTATIONS: Final = 3
LEAST_HELD: Final = 0.9
"""Share of launches that annotations, or a capture's marks, must hold to be the steps."""

SAME_LAUNCHES: Final = 0.1
"""Launches per mark may differ from their median by this share; the marks of a drifting clock differ by more."""

_PROFILER_STEP: Final = re.compile("ProfilerStep#")
_SHOWN_NAMES: Final = 3
_SHOWN_LENGTH: Final = 40


@dataclass(frozen=True, eq=False)
class StepRanges:
    """Host ranges of the steps, ascending; ``dropped`` holds the reasons that the source itself knows."""

    source: str
    names: tuple[str, ...]
    start_ns: Ints
    end_ns: Ints
    dropped: dict[int, str] = field(default_factory=dict)
    notices: tuple[Notice, ...] = ()


@dataclass(frozen=True, eq=False)
class Evidence:
    """What the rules go by, and what those that fail have to say."""

    trace: Trace
    replays: GraphReplays
    marks_ns: Sequence[tuple[int, int]]
    step_regex: str | None
    notices: list[Notice] = field(default_factory=list)

    @cached_property
    def holders(self) -> Holders:
        return Holders(self.trace)

    @cached_property
    def engine_steps(self) -> Ints:
        """Rows of the annotations of a known engine, of the first pattern that the file has; by start."""
        for pattern in ENGINE_STEPS:
            rows = _named_like(self.trace, pattern, HostKind.ANNOTATION)
            if len(rows):
                return outermost(self.trace, rows)
        return np.zeros(0, np.int64)


Rule = Callable[[Evidence], StepRanges | None]


def locate_steps(evidence: Evidence) -> StepRanges:
    """The ranges that the first rule finds; none where none does."""
    found = next((ranges for rule in RULES if (ranges := rule(evidence)) is not None), None)
    if found is None:
        found = StepRanges("none", (), np.zeros(0, np.int64), np.zeros(0, np.int64))
        message = (
            "no steps found, so one window spans the file; wrap each step in record_function or an NVTX range, or name "
            "them with --step-regex"
        )
        if len(evidence.trace.gpu_ops):
            evidence.notices.append(Notice("no_steps", message))
    return replace(found, notices=tuple(evidence.notices))


def by_regex(evidence: Evidence) -> StepRanges | None:
    """Ranges whose name matches --step-regex: annotations if any does, else operators, else Python frames."""
    trace, step_regex = evidence.trace, evidence.step_regex
    if step_regex is None:
        return None
    host = trace.host_ops
    for kind in (HostKind.ANNOTATION, HostKind.OPERATOR, HostKind.PYTHON):
        rows = np.flatnonzero(host.kind == kind)
        names = np.unique(host.name[rows])
        matched = names[matching(step_regex, [trace.name(name) for name in names.tolist()])]
        rows = rows[np.isin(host.name[rows], matched)]
        if len(rows):
            return _ranges(trace, "annotation", outermost(trace, rows))
    common = Counter(host.name[host.kind == HostKind.ANNOTATION].tolist()).most_common(_SHOWN_NAMES)
    names_shown = [trace.name(name) for name, _ in common]
    listed = ", ".join(repr(name[:_SHOWN_LENGTH] + "…" * (len(name) > _SHOWN_LENGTH)) for name in names_shown)
    message = (
        f"--step-regex {step_regex!r} matches no annotation, operator or Python frame; steps were found without it; "
        f"{f'its annotations: {listed}' if common else 'it has no annotations'}"
    )
    evidence.notices.append(Notice("step_regex_unmatched", message))
    return None


def by_marks(evidence: Evidence) -> StepRanges | None:
    """The tracer's own marks, unless launches per mark show that marks and file go by different clocks."""
    if not evidence.marks_ns:
        return None
    start_ns, end_ns = np.array(sorted(evidence.marks_ns), dtype=np.int64).T
    held = held_launches(evidence.trace, start_ns, end_ns)
    measured = held[1:]
    between = int(held_launches(evidence.trace, start_ns[:1], end_ns[-1:])[0])
    median = float(np.median(measured)) if len(measured) else 0.0
    even = len(measured) and np.mean(np.abs(measured - median) <= SAME_LAUNCHES * median) >= LEAST_HELD
    if not median or not even or held.sum() < LEAST_HELD * between:
        message = (
            f"the capture's step marks don't fit the trace: {int(measured.min(initial=0))} to "
            f"{int(measured.max(initial=0))} launches a step, {int(held.sum())} of {between} inside; steps were found "
            "without them: record again"
        )
        evidence.notices.append(Notice("marks_disagree", message, len(held)))
        return None
    names = tuple(f"step {i}" for i in range(len(held)))
    dropped = {0: "sacrificed: the profiler may lose a session's first records"}
    return StepRanges("capture", names, start_ns, end_ns, dropped)


def by_profiler_step(evidence: Evidence) -> StepRanges | None:
    """``ProfilerStep#n`` of torch.profiler, an operator in older files."""
    trace = evidence.trace
    rows = _named_like(trace, _PROFILER_STEP, HostKind.ANNOTATION, HostKind.OPERATOR)
    if not len(rows):
        return None
    ranges = _ranges(trace, "profiler_step", outermost(trace, rows))
    holds_any = held_launches(trace, ranges.start_ns, ranges.end_ns).any()
    return ranges if holds_any or not len(trace.launches) else None


def by_name(evidence: Evidence) -> StepRanges | None:
    """Of the names with at least 3 annotations and 90 % of the launches among them, the one that holds most.

    Where that is a phase of a step, the steps are those ``by_phases`` finds, if it does. None where one or two steps of
    an engine hold more.
    """
    trace = evidence.trace
    rows = _best_annotations(evidence, few=False)
    if rows is None or _held_by(trace, evidence.engine_steps) > _held_by(trace, rows):
        return None
    is_phase = phase_of(trace.name(int(trace.host_ops.name[rows[0]]))) is not None
    return (by_phases(evidence) if is_phase else None) or _ranges(trace, "annotation", rows)


def by_engine(evidence: Evidence, least: int = LEAST_ANNOTATIONS) -> StepRanges | None:
    """Annotations of a known engine: each step reaches to the next one, as sampling and scheduling follow outside."""
    trace, host = evidence.trace, evidence.trace.host_ops
    for pattern in ENGINE_STEPS:
        rows = _named_like(trace, pattern, HostKind.ANNOTATION)
        if len(rows) < least:
            continue
        rows = outermost(trace, rows)
        start_ns = host.start_ns[rows]
        usual_ns = int(np.median(np.diff(start_ns))) if len(rows) > 1 else 0
        end_ns = np.append(start_ns[1:], max(int(host.end_ns[rows[-1]]), int(start_ns[-1]) + usual_ns))
        if len(rows) >= least and held_launches(trace, start_ns, end_ns).any():
            return _ranges(trace, "annotation", rows, end_ns)
    return None


def by_phases(evidence: Evidence) -> StepRanges | None:
    """Steps whose phases alone are annotated: from where the order of phases begins anew to the next such place.

    None where less than two different phases are.
    """
    trace, host = evidence.trace, evidence.trace.host_ops
    rows = np.flatnonzero(host.kind == HostKind.ANNOTATION)
    order_of = np.full(len(trace.names), NONE, np.int64)
    for name in np.unique(host.name[rows]).tolist():
        phase = phase_of(trace.name(name))
        order_of[name] = NONE if phase is None else PHASES.index(phase)
    if len(np.unique(order_of[order_of != NONE])) < 2:
        return None
    rows = outermost(trace, rows[order_of[host.name[rows]] != NONE])
    order = order_of[host.name[rows]]
    first = np.append(0, np.flatnonzero(order[1:] < order[:-1]) + 1)
    start_ns = host.start_ns[rows[first]]
    end_ns = np.append(start_ns[1:], host.end_ns[rows].max())
    found = len(first) >= LEAST_ANNOTATIONS and held_launches(trace, start_ns, end_ns).all()
    return _ranges(trace, "annotation", rows[first], end_ns) if found else None


def by_repetition(evidence: Evidence) -> StepRanges | None:
    """The repetition of launches and replays on the thread that launches most, unless annotations call it layers."""
    found = repeated_steps(evidence.trace, evidence.replays, evidence.holders)
    if found is None or _are_layers(evidence, found.start_ns):
        return None
    names = tuple(f"repetition {i}" for i in range(len(found.start_ns)))
    return StepRanges("repetition", names, *found)


def _held_by(trace: Trace, rows: Ints) -> int:
    """Launches that these host ops hold together."""
    return int(held_launches(trace, trace.host_ops.start_ns[rows], trace.host_ops.end_ns[rows]).sum())


def _are_layers(evidence: Evidence, start_ns: Ints) -> bool:
    """Whether what repeats is one layer each time, by name or numbers, which holds nearly all that it launches, or
    counts on from one to the next.
    """
    trace, host = evidence.trace, evidence.trace.host_ops
    calls = np.sort(np.concatenate([np.zeros(0, np.int64), *evidence.holders.module_calls]))
    for its in [*_annotations_by_name(trace), *by_normalised_name(trace, calls)]:
        names = [trace.name(name) for name in host.name[its].tolist()]
        if not is_layer(names[0]) and not numbers_restart(names):
            continue
        counts_on = "layer" in names[0].lower() and len(set(names)) == len(names)
        each = np.diff(np.searchsorted(host.start_ns[its], start_ns))
        one_each = len(each) and np.mean(each == 1) >= LEAST_HELD
        if one_each and (counts_on or _share_held(trace, its, few=False) >= LEAST_HELD):
            return True
    return False


def by_few(evidence: Evidence) -> StepRanges | None:
    """One annotation or two, if they hold 90 % of the whole file's launches."""
    rows = _best_annotations(evidence, few=True)
    return None if rows is None else _ranges(evidence.trace, "annotation", rows)


def by_lone_engine_step(evidence: Evidence) -> StepRanges | None:
    """Any number of annotations of a known engine."""
    return by_engine(evidence, least=1)


RULES: Final[tuple[Rule, ...]] = (
    by_regex,
    by_marks,
    by_profiler_step,
    by_name,
    by_engine,
    by_phases,
    by_lone_engine_step,
    by_repetition,
    by_few,
)


def held_launches(trace: Trace, start_ns: Ints, end_ns: Ints) -> Ints:
    """Number of launches that start in each [start, end)."""
    starts = trace.launches.start_ns
    held: Ints = np.maximum(np.searchsorted(starts, end_ns) - np.searchsorted(starts, start_ns), 0)
    return held


def outermost(trace: Trace, rows: Ints) -> Ints:
    """Rows that lie in no other of these, by start. Ranges that overlap in part (two threads): the busier thread's."""
    host = trace.host_ops
    rows = rows[np.lexsort((-host.end_ns[rows], host.start_ns[rows]))]
    reach = np.maximum.accumulate(host.end_ns[rows])
    nested = np.zeros(len(rows), dtype=np.bool_)
    nested[1:] = (host.end_ns[rows[1:]] <= reach[:-1]) & (host.end_ns[rows[1:]] > host.start_ns[rows[1:]])
    rows = rows[~nested]
    threads = np.unique(host.thread[rows])
    if (host.start_ns[rows[1:]] >= host.end_ns[rows[:-1]]).all() or len(threads) == 1:
        return rows
    by_thread = [outermost(trace, rows[host.thread[rows] == thread]) for thread in threads]
    return max(by_thread, key=lambda r: int(held_launches(trace, host.start_ns[r], host.end_ns[r]).sum()))


def _named_like(trace: Trace, pattern: re.Pattern[str], *kinds: HostKind) -> Ints:
    """Rows of the host ops of these kinds in whose name the pattern is found."""
    host = trace.host_ops
    names = np.array([i for i, name in enumerate(trace.names) if pattern.search(name)], dtype=np.int64)
    return np.flatnonzero(np.isin(host.kind, kinds) & np.isin(host.name, names))


def _ranges(trace: Trace, source: str, rows: Ints, end_ns: Ints | None = None) -> StepRanges:
    """These host ops as steps, as long as they are or to these ends."""
    host = trace.host_ops
    names = tuple(trace.name(name) for name in host.name[rows].tolist())
    return StepRanges(source, names, host.start_ns[rows], host.end_ns[rows] if end_ns is None else end_ns)


def _best_annotations(evidence: Evidence, *, few: bool) -> Ints | None:
    """Of the outermost annotations of each normalised name and process, and of the calls of each outermost module,
    those that hold most launches; None for none. Neither parts of steps nor what holds several steps: calls of a
    module, steps of an engine, or anything alike in a loop by name.

    ``few``: 1 or 2, that hold 90 % of the file's launches; else at least 3, with 90 % of those from the first one's
    start to the last one's end. Of those that hold equal numbers the outermost: the fewest ranges, then the first.
    """
    trace, holders, host = evidence.trace, evidence.holders, evidence.trace.host_ops
    of_steps = [calls for calls in holders.module_calls if _share_held(trace, calls, few=False) >= LEAST_HELD]
    of_steps = [calls for calls in of_steps if len(calls) >= (2 if few else LEAST_ANNOTATIONS)]
    of_steps.append(evidence.engine_steps)
    found = [
        rows
        for rows in [*_annotations_by_name(trace), *holders.module_calls]
        if (len(rows) < LEAST_ANNOTATIONS) is few and _share_held(trace, rows, few=few) >= LEAST_HELD
    ]
    found.sort(key=lambda rows: (-_held_by(trace, rows), len(rows), int(rows[0])))
    found = [rows for rows in found if not any(holders.holds_several(rows, steps) for steps in of_steps)]
    alike = [rows for rows in found if not holders.are_parts(rows)]
    for rows in alike:
        loop = is_loop(trace.name(int(host.name[rows[0]])))
        if not (loop and any(holders.holds_several(rows, others) for others in alike)):
            return rows
    return None


def _share_held(trace: Trace, rows: Ints, *, few: bool) -> float:
    """Share of the launches, of the file or from the first one's start to the last one's end, that these hold."""
    start_ns, end_ns = trace.host_ops.start_ns[rows], trace.host_ops.end_ns[rows]
    among = len(trace.launches) if few else int(held_launches(trace, start_ns[:1], end_ns[-1:])[0])
    return int(held_launches(trace, start_ns, end_ns).sum()) / among if among else 0.0


def _annotations_by_name(trace: Trace) -> list[Ints]:
    """Rows of the outermost annotations of each normalised name and process."""
    rows = np.flatnonzero(trace.host_ops.kind == HostKind.ANNOTATION)
    return [outermost(trace, its) for its in by_normalised_name(trace, rows)]


MATCHING_S: Final = 10.0
"""A million names take 1 s."""

_CHILD: Final = """
import json, re, signal, sys
signal.alarm({seconds})
regex, names = json.load(sys.stdin)
pattern = re.compile(regex)
print(json.dumps([place for place, name in enumerate(names) if pattern.search(name)]))
"""


def step_pattern(step_regex: str) -> re.Pattern[str]:
    """The compiled expression. LaunchscopeError says what is wrong with one that Python can't compile."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FutureWarning)  # '[[' may come to mean something else: no concern of a user
            return re.compile(step_regex)
    except (re.error, RecursionError, OverflowError) as error:
        raise LaunchscopeError(f"'{step_regex}' is not a regular expression: {error}") from error


def matching(step_regex: str, names: Sequence[str]) -> list[int]:
    """Places of the names in which the expression is found. LaunchscopeError when that takes longer than any should.

    A process of its own matches: nothing in this one could stop Python's matcher in a notebook or a thread, where it
    may run for hours. Where no process can be started, this one matches.
    """
    pattern = step_pattern(step_regex)
    if not names:
        return []
    code = _CHILD.format(seconds=int(MATCHING_S) + 5)  # it ends by itself when this process is killed
    try:
        if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
            raise OSError("no Python to start")
        done = subprocess.run(
            [sys.executable, "-ISWignore", "-c", code],
            input=json.dumps([step_regex, names]).encode(),
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            timeout=MATCHING_S,
            check=True,
        )
    except OSError:
        return [place for place, name in enumerate(names) if pattern.search(name)]
    except subprocess.SubprocessError as error:
        raise LaunchscopeError(
            f"--step-regex {step_regex!r}: not done with {len(names):,} names after {MATCHING_S:g} s: it has too many "
            "ways to match, as '(a+)+b' has; write it without a repetition inside a repetition"
        ) from error
    places: list[int] = json.loads(done.stdout)
    return places
