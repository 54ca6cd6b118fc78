"""The repetition hidden in a sequence of launches: how a decode loop shows itself where nobody annotated its steps."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np

from ..model.columns import numbered
from ..model.trace import NONE, Ints, Trace
from .replays import GraphReplays
from .step_parts import Holders

LEAST_REPEATS: Final = 3

LEAST_EAGER_PERIOD: Final = 8
"""Launches; a shorter repetition without a graph is a layer or a loop inside a step."""

LEAST_REPEATED: Final = 0.5
"""Share of the file's launches, and of its GPU time, that a repetition must explain."""

DISTINCT_PAUSE: Final = 2.0
"""A pause in the repetition marks the step's end only when it is this much longer than the second longest."""

MISMATCH_COST: Final = 199
"""One launch in 200 may differ from its counterpart one period later (an attention kernel that changes with the
context length). More would let the repetition of layers, which breaks at every step's end, pass for one of steps."""

NEAR_LONGEST: Final = 0.95
"""The shortest period that explains this share of the longest stretch is taken: its multiples explain as much."""

CONTEXTS: Final = (1, 4, 16, 64)
"""Lengths of the runs whose recurrences propose periods: long ones tell a step's end from a layer's."""

PROPOSALS: Final = 16
"""Most frequent distances kept for each context."""


class RepeatedSteps(NamedTuple):
    """Host ranges of the steps, ascending, and why those that the file's edges cut off are dropped."""

    start_ns: Ints
    end_ns: Ints
    dropped: dict[int, str]


def repeated_steps(trace: Trace, replays: GraphReplays, holders: Holders) -> RepeatedSteps | None:
    """The repetition of launches and replays on the thread that launches most; None where it is none of steps.

    Layers repeat, too: none where one annotation, module call or pass holds it with more launches around it.
    """
    launches = trace.launches
    thread = numbered(launches.process, launches.thread)
    rows = np.flatnonzero(thread == np.argmax(np.bincount(thread))) if len(thread) else thread
    if len(rows) < LEAST_REPEATS:
        return None
    graphs = np.full(len(launches), NONE, dtype=np.int64)  # that each launch replays
    with_launch = replays.launch_row != NONE
    graphs[replays.launch_row[with_launch]] = replays.graph[with_launch]
    found = find_repetition(_launch_tokens(trace, graphs)[rows])
    if found is None or found.length < LEAST_REPEATED * len(launches):
        return None
    stretch = rows[found.start : found.start + found.length]
    if _gpu_time(trace, stretch) < LEAST_REPEATED or _is_held_with_more(trace, holders, stretch):
        return None
    graph_launches = launches.is_graph[rows[found.start : found.start + found.period]].sum()
    if not graph_launches and found.period < LEAST_EAGER_PERIOD:
        return None
    if graph_launches and _is_piece(trace, replays, graphs[rows], found):
        return None
    return _ranges(trace, rows, found)


def _gpu_time(trace: Trace, launch_rows: Ints) -> float:
    """Share of the linked GPU ops' time that these launches have."""
    ops = trace.gpu_ops
    linked = ops.launch_row != NONE
    ours = np.zeros(len(trace.launches), np.bool_)
    ours[launch_rows] = True
    total = int(ops.dur_ns[linked].sum())
    return int(ops.dur_ns[linked][ours[ops.launch_row[linked]]].sum()) / total if total else 0.0


def _is_held_with_more(trace: Trace, holders: Holders, stretch: Ints) -> bool:
    """Whether one annotation, module call or pass of the thread holds the launches of the stretch, and others."""
    launches, host = trace.launches, trace.host_ops
    process, thread = int(launches.process[stretch[0]]), int(launches.thread[stretch[0]])
    start_ns, end_ns = int(launches.start_ns[stretch[0]]), int(launches.start_ns[stretch[-1]])
    of_thread = launches.start_ns[(launches.process == process) & (launches.thread == thread)]
    rows = holders.holding(process, thread, start_ns, end_ns)
    held = np.searchsorted(of_thread, host.end_ns[rows]) - np.searchsorted(of_thread, host.start_ns[rows])
    return bool((held > len(stretch)).any())


def _launch_tokens(trace: Trace, graphs: Ints) -> Ints:
    """A number per launch, equal where launches do the same: one graph, or one API, first op and op count."""
    launches, ops = trace.launches, trace.gpu_ops
    op_count = np.bincount(ops.launch_row[ops.launch_row != NONE], minlength=len(launches))
    alone = graphs == NONE
    first_name = ops.name[trace.first_ops()]
    return numbered(launches.api, graphs, np.where(alone, first_name, 0), np.where(alone, op_count, 0))


def _is_piece(trace: Trace, replays: GraphReplays, graphs: Ints, found: Repetition) -> bool:
    """Whether the replays of the period are pieces of a step: a layer of a piecewise graph, cut where attention runs.

    The first and last pieces differ from those between and stand next to the repetition; a piece has no layers that
    repeat in it. A whole step's graph may have another (a batch bucket's) beside it, but holds its layers.
    """
    end = found.start + found.length
    its_graphs = np.unique(graphs[found.start : found.start + found.period])
    around = np.append(graphs[max(0, found.start - found.period) : found.start], graphs[end : end + found.period])
    if np.isin(around, np.append(its_graphs, NONE)).all():
        return False
    firsts = [np.flatnonzero(replays.graph == graph)[0] for graph in its_graphs[its_graphs != NONE]]
    return all(find_repetition(trace.gpu_ops.name[replays.op_replay == first]) is None for first in firsts)


def _ranges(trace: Trace, rows: Ints, found: Repetition) -> RepeatedSteps:
    """Each repetition from its first launch to the next one's."""
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
    return RepeatedSteps(start_ns, np.append(start_ns[1:], last_end), dropped)


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


@dataclass(frozen=True)
class Repetition:
    """A stretch of a sequence, [start, start + length), that repeats itself every `period` entries."""

    period: int
    start: int
    length: int


def find_repetition(tokens: Ints) -> Repetition | None:
    """The shortest period that repeats at least 3 times, over the longest stretch it explains; None if there is none.

    Layers repeat inside a step, but only up to its end: the step's period explains a stretch that is longer.
    """
    stretches = [_longest_stretch(tokens, period) for period in _proposed_periods(tokens)]
    found = [s for s in stretches if s.length >= LEAST_REPEATS * s.period]
    if not found:
        return None
    longest = max(stretch.length for stretch in found)
    return min((s for s in found if s.length >= NEAR_LONGEST * longest), key=lambda s: s.period)


def _longest_stretch(tokens: Ints, period: int) -> Repetition:
    """The stretch with the best balance of entries equal to their counterpart one period later, against others."""
    gains = np.where(tokens[:-period] == tokens[period:], 1, -MISMATCH_COST)
    totals = np.concatenate([[0], np.cumsum(gains)])
    balance = totals - np.minimum.accumulate(totals)
    end = int(np.argmax(balance))
    if balance[end] == 0:
        return Repetition(period, 0, 0)
    start = int(np.flatnonzero(totals[: end + 1] == totals[: end + 1].min())[-1])
    return Repetition(period, start, end - start + period)


def _proposed_periods(tokens: Ints) -> list[int]:
    """Distances at which runs of entries recur most often, ascending."""
    proposed: set[int] = set()
    runs, length = tokens.astype(np.int64), 1
    for context in CONTEXTS:
        while length < context and len(runs) > length:
            pairs = np.stack([np.unique(part, return_inverse=True)[1] for part in (runs[:-length], runs[length:])])
            runs = pairs[0] * (int(pairs[1].max()) + 1) + pairs[1]
            length *= 2
        distances = _recurrence_distances(runs)
        distances = distances[distances * LEAST_REPEATS <= len(tokens)]
        frequency = np.bincount(distances) if len(distances) else np.zeros(0, dtype=np.int64)
        common = np.argsort(-frequency, kind="stable")[:PROPOSALS]
        proposed |= {int(distance) for distance in common if frequency[distance] > 0}
    return sorted(proposed)


def _recurrence_distances(runs: Ints) -> Ints:
    """Distance from each entry to the next equal one, where there is one."""
    order = np.argsort(runs, kind="stable")
    equal = runs[order[1:]] == runs[order[:-1]]
    return np.asarray(np.diff(order)[equal])
