"""The host's side of serving steps: each instant of the thread that launches belongs to one phase.

Annotations come first; what they leave open is told by what is launched: copies to the GPU, the first replay or matrix
product, the last one, sampling operators, copies to the host, waits. The rules are those of docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from .document import PHASES
from .intervals import Intervals
from .phase_names import phase_of
from .serving_launches import ServingLaunches
from .trace import HostKind, Ints, Trace

SCHEDULE, PREPARE, FORWARD, SAMPLE, COPY_BACK, BETWEEN, OTHER = range(len(PHASES))

BY_ANNOTATION, BY_STRUCTURE = 0, 1

Stretch = tuple[int, int, int]
"""Start, end, phase."""

NO_COPY_IN: Final = "no copy to the GPU before the first replay or matrix product: what comes first counts as forward"
NO_FORWARD: Final = "no graph replay and no matrix product: the forward can't be told by what is launched"
NO_SAMPLING: Final = "no sampling operator or kernel after the last matrix product"
TWO_SAMPLINGS: Final = "sampling operators before the last matrix product, too: a second model may follow them"
IN_REPLAY: Final = "inside the graph replay: its launch is the forward's"
NO_COPY_OUT: Final = "no copy to the host and no wait after the forward"


@dataclass(frozen=True, eq=False)
class HostPhases:
    """Stretches of the launching thread's time, by start; those of one step follow one another without a hole."""

    start_ns: Ints
    end_ns: Ints
    phase: Ints  # index into PHASES
    step: Ints
    evidence: Ints  # BY_ANNOTATION, BY_STRUCTURE
    reasons: tuple[dict[int, str], ...]  # by step: why a phase has no stretch

    def phases_at(self, times_ns: Ints) -> Ints:
        """The phase at each time; OTHER outside of every step."""
        row = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        inside = (row >= 0) & (times_ns < self.end_ns[row])
        return np.where(inside, self.phase[row], OTHER)

    def within(self, since_ns: Ints, until_ns: Ints) -> Ints:
        """[query, phase] time of each phase inside each range; what lies outside of every step is OTHER's."""
        found = np.zeros((len(since_ns), len(PHASES)), np.int64)
        for phase in range(len(PHASES)):
            own = self.phase == phase
            found[:, phase] = Intervals.union(self.start_ns[own], self.end_ns[own]).covered_ns(since_ns, until_ns)
        found[:, OTHER] += until_ns - since_ns - found.sum(axis=1)
        return found


def host_phases(
    trace: Trace, launches: ServingLaunches, starts_ns: Ints, ends_ns: Ints, has_next: Sequence[bool]
) -> HostPhases:
    """The phases of steps with these host ranges; one without a next step has no time between."""
    annotated = _annotated(trace, launches.process, launches.thread)
    rows: list[tuple[int, int, int, int, int]] = []
    reasons: list[dict[int, str]] = []
    first = np.searchsorted([end for _, end, _ in annotated], starts_ns, side="right") if annotated else None
    for step, (start, end) in enumerate(zip(starts_ns.tolist(), ends_ns.tolist(), strict=True)):
        told, reason = _by_structure(launches, start, end, has_next[step])
        reasons.append(reason)
        own = [] if first is None else _clipped(annotated, int(first[step]), start, end)
        after = own[-1][1] if own else end
        if own and has_next[step]:  # behind the last named phase the next step's are awaited
            told = [*_clipped(told, 0, start, after), (after, end, BETWEEN)]
        at = start
        for since, until, phase in own:
            rows += [(*each, step, BY_STRUCTURE) for each in _clipped(told, 0, at, since)]
            rows.append((since, until, phase, step, BY_ANNOTATION))
            at = until
        rows += [(*each, step, BY_STRUCTURE) for each in _clipped(told, 0, at, end)]
    since_ns, until_ns, phase_of_row, step_of_row, evidence = np.array(rows, np.int64).reshape(-1, 5).T
    return HostPhases(since_ns, until_ns, phase_of_row, step_of_row, evidence, tuple(reasons))


def _clipped(stretches: Sequence[Stretch], first: int, start: int, end: int) -> list[Stretch]:
    """The parts of the stretches, from the one with this number on, inside [start, end)."""
    found = []
    for since, until, phase in stretches[first:]:
        if since >= end:
            break
        if until > start < end:
            found.append((max(since, start), min(until, end), phase))
    return found


def _annotated(trace: Trace, process: int, thread: int) -> list[Stretch]:
    """The thread's annotations that name a phase, the innermost where several hold; disjoint, by start."""
    host = trace.host_ops
    rows = np.flatnonzero((host.kind == HostKind.ANNOTATION) & (host.process == process) & (host.thread == thread))
    phases = {int(name): phase_of(trace.name(int(name))) for name in np.unique(host.name[rows])}
    rows = rows[[phases[int(name)] is not None for name in host.name[rows]]]
    rows = rows[np.lexsort((-host.end_ns[rows], host.start_ns[rows]))]
    found: list[Stretch] = []
    around: list[tuple[int, int]] = []  # end and phase of each open range, the innermost last
    at = 0
    for row in rows.tolist():
        start, end = int(host.start_ns[row]), int(host.end_ns[row])
        at = _close(found, around, at, start)
        if around and start > at:
            found.append((at, start, around[-1][1]))
        at = start
        around.append((min(end, around[-1][0]) if around else end, PHASES.index(phases[int(host.name[row])] or "")))
    _close(found, around, at, None)
    return found


def _close(found: list[Stretch], around: list[tuple[int, int]], at: int, until: int | None) -> int:
    """End the ranges that end before a time; from where on the innermost one left holds."""
    while around and (until is None or around[-1][0] <= until):
        end, phase = around.pop()
        if end > at:
            found.append((at, end, phase))
            at = end
    return at


def _by_structure(
    launches: ServingLaunches, start: int, end: int, has_next: bool
) -> tuple[list[Stretch], dict[int, str]]:
    """One step's stretches by what it launches, without a hole, and why a phase has none."""
    reasons: dict[int, str] = {}
    own = launches.between(start, end)
    model = np.flatnonzero(own.is_model)
    if not len(model):
        return [(start, end, OTHER)], dict.fromkeys((PREPARE, FORWARD, SAMPLE, COPY_BACK), NO_FORWARD)
    first, last = int(model[0]), int(model[-1])
    copies_in = np.flatnonzero(own.is_copy_in[:first])
    prepared = int(own.end_ns[copies_in[-1]]) if len(copies_in) else start
    if not len(copies_in):
        reasons[PREPARE] = NO_COPY_IN
    computed = int(own.end_ns[last])
    sampled = _samples(own, last, reasons)
    chosen = int(np.flatnonzero(own.draws)[-1]) if sampled else last
    leaves = _leaves(launches, own, chosen, end)
    ended = leaves[1] if leaves else int(own.end_ns[-1])
    if leaves is None:
        reasons[COPY_BACK] = NO_COPY_OUT
    forward_end = computed if sampled else (leaves[0] if leaves else ended)
    stretches = [(start, prepared, PREPARE), (prepared, forward_end, FORWARD)]
    if sampled:
        stretches.append((forward_end, leaves[0] if leaves else ended, SAMPLE))
    if leaves is not None:
        stretches.append((*leaves, COPY_BACK))
    stretches += _tail(own, ended, end, has_next)
    return [each for each in stretches if each[1] > each[0]], reasons


def _leaves(launches: ServingLaunches, own: ServingLaunches, last: int, end: int) -> tuple[int, int] | None:
    """From the first copy to the host, or wait, after this launch to the end of the last wait, or of the copies."""
    copies = np.flatnonzero(own.is_copy_out[last + 1 :]) + last + 1
    waits = launches.waits_between(int(own.end_ns[last]), end)
    if not len(copies) and not len(waits):
        return None
    starts = [int(own.start_ns[copies[0]])] if len(copies) else []
    starts += [int(waits[0, 0])] if len(waits) else []
    ends = [int(own.end_ns[copies[-1]])] if len(copies) else []
    ends += [int(waits[-1, 1])] if len(waits) else []
    return min(starts), min(max(ends), end)


def _samples(own: ServingLaunches, last: int, reasons: dict[int, str]) -> bool:
    """Whether sampling follows the forward in launches of its own."""
    if own.draws[:last].any():
        reasons[SAMPLE] = TWO_SAMPLINGS
    elif own.draws_in_replay[last]:
        reasons[SAMPLE] = IN_REPLAY
    elif not own.draws[last + 1 :].any():
        reasons[SAMPLE] = NO_SAMPLING
    return SAMPLE not in reasons


def _tail(own: ServingLaunches, ended: int, end: int, has_next: bool) -> list[Stretch]:
    """What follows the copy back: the time between, and copies to the GPU that are the next step's already."""
    if not has_next:
        return [(ended, end, OTHER)]
    later = np.flatnonzero(own.is_copy_in & (own.start_ns >= ended))
    next_start = int(own.start_ns[later[0]]) if len(later) else end
    return [(ended, next_start, BETWEEN), (next_start, end, PREPARE)]
