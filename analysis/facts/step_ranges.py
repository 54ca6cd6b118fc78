"""Where the steps of a trace are on the host's clock: the first source of METRICS that works."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..model.columns import numbered
from ..model.trace import NONE, Bools, HostKind, Ints, Notice, Trace
from .repetition import LEAST_REPEATS, Repetition, find_repetition
from .replays import GraphReplays
from .step_annotations import (
    LEAST_HELD,
    Annotated,
    by_engine,
    by_few,
    by_name,
    by_phases,
    held_launches,
    outermost,
)
from .step_regex import matching

SAME_LAUNCHES: Final = 0.1
"""Launches per mark may differ from their median by this share; the marks of a drifting clock differ by more."""

LEAST_EAGER_PERIOD: Final = 8
"""Launches; a shorter repetition without a graph is a layer or a loop inside a step."""

LEAST_REPEATED: Final = 0.5
"""Share of its thread's launches that a repetition must explain: layers explain at most a third of three steps."""

DISTINCT_PAUSE: Final = 2.0
"""A pause in the repetition marks the step's end only when it is this much longer than the second longest."""


_TOLD_NAMES: Final = 3
_TOLD_LENGTH: Final = 40


@dataclass(frozen=True, eq=False)
class StepRanges:
    """Host ranges of the steps, ascending; ``dropped`` holds the reasons that the source itself knows."""

    source: str
    names: tuple[str, ...]
    start_ns: Ints
    end_ns: Ints
    dropped: dict[int, str]
    notices: tuple[Notice, ...] = ()


def locate_steps(
    trace: Trace, replays: GraphReplays, marks_ns: Sequence[tuple[int, int]], step_regex: str | None
) -> StepRanges:
    """Ranges by --step-regex, capture marks, ProfilerStep#n, annotations or repetition; none of them: no ranges."""
    notices: list[Notice] = []
    sources: list[Callable[[], StepRanges | None]] = [
        lambda: _by_regex(trace, step_regex, notices),
        lambda: _by_marks(trace, marks_ns, notices),
        lambda: _by_profiler_step(trace),
        lambda: _annotated(trace, by_phases(trace, one_holds_most=True)),
        lambda: _annotated(trace, by_name(trace)),
        lambda: _annotated(trace, by_engine(trace)),
        lambda: _annotated(trace, by_phases(trace, one_holds_most=False)),
        lambda: _by_repetition(trace, replays),
        lambda: _annotated(trace, by_few(trace)),
        lambda: _annotated(trace, by_engine(trace, least=1)),
    ]
    ranges = next((r for source in sources if (r := source()) is not None), None)
    if ranges is None:
        ranges = StepRanges("none", (), np.zeros(0, np.int64), np.zeros(0, np.int64), {})
        message = (
            "no steps found, so one window spans the file; wrap each step in record_function or an NVTX range, or name "
            "them with --step-regex"
        )
        if len(trace.gpu_ops):
            notices.append(Notice("no_steps", message))
    return StepRanges(ranges.source, ranges.names, ranges.start_ns, ranges.end_ns, ranges.dropped, tuple(notices))


def _by_regex(trace: Trace, step_regex: str | None, notices: list[Notice]) -> StepRanges | None:
    """Ranges whose name matches: annotations if any does, else operators, else Python frames."""
    if step_regex is None:
        return None
    for kind in (HostKind.ANNOTATION, HostKind.OPERATOR, HostKind.PYTHON):
        rows = np.flatnonzero(trace.host_ops.kind == kind)
        names = np.unique(trace.host_ops.name[rows])
        matched = names[matching(step_regex, [trace.name(name) for name in names.tolist()])]
        rows = rows[np.isin(trace.host_ops.name[rows], matched)]
        if len(rows):
            return _ranges_of(trace, "annotation", _whole(trace, rows))
    message = (
        f"--step-regex {step_regex!r} matches no annotation, operator or Python frame; steps were found without it; "
        f"{_annotations_told(trace)}"
    )
    notices.append(Notice("step_regex_unmatched", message))
    return None


def _annotations_told(trace: Trace) -> str:
    """The most frequent annotations, shortened."""
    names = trace.host_ops.name[trace.host_ops.kind == HostKind.ANNOTATION]
    common = [trace.name(name) for name, _ in Counter(names.tolist()).most_common(_TOLD_NAMES)]
    listed = ", ".join(repr(name[:_TOLD_LENGTH] + "…" * (len(name) > _TOLD_LENGTH)) for name in common)
    return f"its annotations: {listed}" if common else "it has no annotations"


def _by_marks(trace: Trace, marks_ns: Sequence[tuple[int, int]], notices: list[Notice]) -> StepRanges | None:
    """The tracer's own marks, unless launches per mark show that they and the file tell different times."""
    if not marks_ns:
        return None
    marks = np.array(sorted(marks_ns), dtype=np.int64)
    start_ns, end_ns = marks[:, 0], marks[:, 1]
    held = held_launches(trace, start_ns, end_ns)
    measured = held[1:]
    between = int(held_launches(trace, start_ns[:1], end_ns[-1:])[0])
    median = float(np.median(measured)) if len(measured) else 0.0
    even = len(measured) and np.mean(np.abs(measured - median) <= SAME_LAUNCHES * median) >= LEAST_HELD
    if not median or not even or held.sum() < LEAST_HELD * between:
        message = (
            f"the capture's step marks don't fit the trace: {int(measured.min(initial=0))} to "
            f"{int(measured.max(initial=0))} launches a step, {int(held.sum())} of {between} inside; steps were found "
            "without them: record again"
        )
        notices.append(Notice("marks_disagree", message, len(marks)))
        return None
    names = tuple(f"step {i}" for i in range(len(marks)))
    return StepRanges(
        "capture", names, start_ns, end_ns, {0: "sacrificed: the profiler may lose a session's first records"}
    )


def _by_profiler_step(trace: Trace) -> StepRanges | None:
    """``ProfilerStep#n`` of torch.profiler, an operator in older files."""
    named = np.array([i for i, name in enumerate(trace.names) if name.startswith("ProfilerStep#")], dtype=np.int64)
    rows = np.flatnonzero(_is_named(trace) & np.isin(trace.host_ops.name, named))
    if not len(rows):
        return None
    ranges = _ranges_of(trace, "profiler_step", _whole(trace, rows))
    holds_any = held_launches(trace, ranges.start_ns, ranges.end_ns).any()
    return ranges if holds_any or not len(trace.launches) else None


def _is_named(trace: Trace) -> Bools:
    """Host ops that are annotations or operators."""
    return np.isin(trace.host_ops.kind, (HostKind.ANNOTATION, HostKind.OPERATOR))


def _whole(trace: Trace, rows: Ints) -> Annotated:
    """The outermost of these host ops, as long as they are."""
    rows = outermost(trace, rows)
    return Annotated(rows, trace.host_ops.end_ns[rows])


def _annotated(trace: Trace, found: Annotated | None) -> StepRanges | None:
    return None if found is None else _ranges_of(trace, "annotation", found)


def _ranges_of(trace: Trace, source: str, found: Annotated) -> StepRanges:
    names = tuple(trace.name(int(name)) for name in trace.host_ops.name[found.rows])
    return StepRanges(source, names, trace.host_ops.start_ns[found.rows], found.end_ns, {})


def _by_repetition(trace: Trace, replays: GraphReplays) -> StepRanges | None:
    """The repetition of launches and replays on the thread that launches most."""
    rows = _busiest_thread(trace)
    if len(rows) < LEAST_REPEATS:
        return None
    tokens = _launch_tokens(trace, replays)[rows]
    found = find_repetition(tokens)
    if found is None or found.length < LEAST_REPEATED * len(rows):
        return None
    graph_launches = trace.launches.is_graph[rows[found.start : found.start + found.period]].sum()
    if not graph_launches and found.period < LEAST_EAGER_PERIOD:
        return None
    if graph_launches == 1 and _is_piece(trace, replays, rows, found):
        return None
    return _repeated_ranges(trace, rows, found)


def _busiest_thread(trace: Trace) -> Ints:
    """Launch rows of the thread with the most launches."""
    launches = trace.launches
    if not len(launches):
        return np.zeros(0, dtype=np.int64)
    thread = numbered(launches.process, launches.thread)
    return np.flatnonzero(thread == np.argmax(np.bincount(thread)))


def _launch_tokens(trace: Trace, replays: GraphReplays) -> Ints:
    """A number per launch, equal where launches do the same: one graph, or one API, first op and op count."""
    launches, ops = trace.launches, trace.gpu_ops
    op_count = np.bincount(ops.launch_row[ops.launch_row != NONE], minlength=len(launches))
    graph = _graph_of_launch(trace, replays)
    alone = graph == NONE
    first_name = ops.name[trace.first_ops()]
    return numbered(launches.api, graph, np.where(alone, first_name, 0), np.where(alone, op_count, 0))


def _graph_of_launch(trace: Trace, replays: GraphReplays) -> Ints:
    """[launches] the graph that each launch replays, NONE where it replays none."""
    graph = np.full(len(trace.launches), NONE, dtype=np.int64)
    with_launch = replays.launch_row != NONE
    graph[replays.launch_row[with_launch]] = replays.graph[with_launch]
    return graph


def _is_piece(trace: Trace, replays: GraphReplays, rows: Ints, found: Repetition) -> bool:
    """Whether the lone replay of the period is one piece of a step: a layer of a piecewise graph.

    The first and last pieces differ from those between and stand next to the repetition; a piece has no layers that
    repeat in it. A whole step's graph may have another (a batch bucket's) beside it, but holds its layers.
    """
    graphs = _graph_of_launch(trace, replays)[rows]
    end = found.start + found.length
    own = graphs[found.start : found.start + found.period].max()
    beside = np.concatenate(
        [graphs[max(0, found.start - found.period) : found.start], graphs[end : end + found.period]]
    )
    if not ((beside != NONE) & (beside != own)).any():
        return False
    its_ops = np.flatnonzero(replays.op_replay == np.flatnonzero(replays.graph == own)[0])
    return find_repetition(trace.gpu_ops.name[its_ops]) is None


def _repeated_ranges(trace: Trace, rows: Ints, found: Repetition) -> StepRanges:
    """Each repetition from its first launch to the next one's; what the file's edges cut off is dropped."""
    launches, period = trace.launches, found.period
    end = found.start + found.length
    phase = _phase(trace, rows, found)
    heads = list(range(found.start + phase, end, period))
    dropped: dict[int, str] = {}
    if end - heads[-1] < period:  # an incomplete last one: a step only if the file's end cut it off
        if end < len(rows):
            end = heads.pop()
        else:
            dropped[len(heads) - 1] = "cut off by the end of the file"
    if phase and found.start == 0:
        heads.insert(0, 0)
        dropped = {0: "cut off by the start of the file"} | {i + 1: reason for i, reason in dropped.items()}
    start_ns = launches.start_ns[rows[heads]]
    usual_end = start_ns[-1] + int(np.median(np.diff(start_ns)))  # other threads may still launch for the last one
    last_end = max(int(launches.end_ns[rows[end - 1]]), usual_end)
    if end < len(rows):
        last_end = min(last_end, int(launches.start_ns[rows[end]]))
    end_ns = np.append(start_ns[1:], last_end)
    names = tuple(f"repetition {i}" for i in range(len(heads)))
    return StepRanges("repetition", names, start_ns, end_ns, dropped)


def _phase(trace: Trace, rows: Ints, found: Repetition) -> int:
    """Offset of the launch that begins a step: the one after a distinct pause of the host, else the stretch's first."""
    period = found.period
    repeats = (found.length - 1) // period
    if period == 1 or repeats < LEAST_REPEATS:
        return 0
    its_rows = rows[found.start : found.start + repeats * period + 1]
    pauses = trace.launches.start_ns[its_rows[1:]] - trace.launches.end_ns[its_rows[:-1]]
    medians = np.median(pauses.reshape(repeats, period), axis=0)
    second, longest = np.sort(medians)[-2:]
    return (int(np.argmax(medians)) + 1) % period if longest >= DISTINCT_PAUSE * max(second, 1.0) else 0
