"""The host's side of serving steps: each instant of the thread that launches belongs to one phase.

Annotations come first; what they leave open is told by what is launched: copies to the GPU, the first replay or matrix
product, the last one, sampling operators, copies to the host, waits. The rules are those of docs/metrics.md.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import takewhile
from typing import Final

import numpy as np

from ...facts.phase_names import phase_of, phase_of_frame
from ...model.columns import Intervals
from ...model.document import PHASES
from ...model.trace import HostKind, Ints, Trace
from .launches import ServingLaunches, ServingSteps

SCHEDULE, PREPARE, FORWARD, SAMPLE, COPY_BACK, BETWEEN, OTHER = range(len(PHASES))

EVIDENCE: Final = ("annotation", "frames", "structure")
BY_ANNOTATION, BY_FRAMES, BY_STRUCTURE = range(len(EVIDENCE))

Stretch = tuple[int, int, int, int]
"""Start, end, phase, evidence."""

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
    evidence: Ints  # index into EVIDENCE
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
            rows = self.phase == phase
            found[:, phase] = Intervals.union(self.start_ns[rows], self.end_ns[rows]).covered_ns(since_ns, until_ns)
        found[:, OTHER] += until_ns - since_ns - found.sum(axis=1)
        return found


def host_phases(trace: Trace, launches: ServingLaunches, steps: ServingSteps) -> HostPhases:
    """The phases of these steps; the last one has no time between steps."""
    named = _named(trace, launches.process, launches.thread)
    rows: list[tuple[int, int, int, int, int]] = []
    reasons: list[dict[int, str]] = []
    first = np.searchsorted([stretch[1] for stretch in named], steps.start_ns, side="right").tolist()
    for step, (start, end) in enumerate(zip(steps.start_ns.tolist(), steps.end_ns.tolist(), strict=True)):
        has_next = step < len(steps) - 1
        by_structure, reason = _by_structure(launches, start, end, has_next)
        reasons.append(reason)
        of_step = _clipped(named[first[step] :], start, end)
        rows += [(*stretch, step) for stretch in _filled(launches, of_step, by_structure, start, end, has_next)]
    start_ns, end_ns, phase, evidence, step_of = np.array(rows, np.int64).reshape(-1, 5).T
    return HostPhases(start_ns, end_ns, phase, step_of, evidence, tuple(reasons))


def _filled(
    launches: ServingLaunches,
    named: Sequence[Stretch],
    by_structure: Sequence[Stretch],
    start: int,
    end: int,
    has_next: bool,
) -> list[Stretch]:
    """Named stretches of a step with what the structure tells of the rest.

    Between two of one phase it goes on, unless the model runs there.
    """
    found: list[Stretch] = []
    at = start
    for place, stretch in enumerate(named):
        same = place > 0 and named[place - 1][2] == stretch[2]
        if same and not launches.between(at, stretch[0]).is_model.any():
            found += [(at, stretch[0], stretch[2], BY_STRUCTURE)] if stretch[0] > at else []
        else:
            found += _clipped(by_structure, at, stretch[0])
        found.append(stretch)
        at = stretch[1]
    if named and has_next:  # behind the last named phase the next step's are awaited
        return [*found, (at, end, BETWEEN, BY_STRUCTURE)] if at < end else found
    return [*found, *_clipped(by_structure, at, end)]


def _clipped(stretches: Sequence[Stretch], start: int, end: int) -> list[Stretch]:
    """The parts of the stretches inside [start, end)."""
    inside = takewhile(lambda stretch: stretch[0] < end, stretches)
    return [
        (max(since, start), min(until, end), phase, by) for since, until, phase, by in inside if until > start < end
    ]


def _named(trace: Trace, process: int, thread: int) -> list[Stretch]:
    """The thread's annotations and frames that name a phase, the innermost where several hold; disjoint, by start."""
    host = trace.host_ops
    found: list[Stretch] = []
    for kind, name_to_phase, evidence in (
        (HostKind.ANNOTATION, phase_of, BY_ANNOTATION),
        (HostKind.PYTHON, phase_of_frame, BY_FRAMES),
    ):
        rows = np.flatnonzero((host.kind == kind) & (host.process == process) & (host.thread == thread))
        phases = {name: name_to_phase(trace.name(name)) for name in np.unique(host.name[rows]).tolist()}
        places = {name: PHASES.index(phase) for name, phase in phases.items() if phase is not None}
        for row in rows[np.isin(host.name[rows], list(places))].tolist():
            found.append((int(host.start_ns[row]), int(host.end_ns[row]), places[int(host.name[row])], evidence))
    return _innermost(sorted(found, key=lambda stretch: (stretch[0], -stretch[1])))


def _innermost(ranges: Sequence[Stretch]) -> list[Stretch]:
    """Nested ranges, by start and the outermost first, as disjoint stretches of the innermost."""
    found: list[Stretch] = []
    around: list[tuple[int, int, int]] = []  # end, phase and evidence of each open range, the innermost last
    at = 0
    for start, end, phase, evidence in ranges:
        at = _close(found, around, at, start)
        if around and start > at:
            found.append((at, start, *around[-1][1:]))
        at = start
        around.append((min(end, around[-1][0]) if around else end, phase, evidence))
    _close(found, around, at, None)
    return found


def _close(found: list[Stretch], around: list[tuple[int, int, int]], at: int, until: int | None) -> int:
    """End the ranges that end before a time; from where on the innermost one left holds."""
    while around and (until is None or around[-1][0] <= until):
        end, phase, evidence = around.pop()
        if end > at:
            found.append((at, end, phase, evidence))
            at = end
    return at


def _by_structure(
    launches: ServingLaunches, start: int, end: int, has_next: bool
) -> tuple[list[Stretch], dict[int, str]]:
    """One step's stretches by what it launches, without a hole, and why a phase has none."""
    reasons: dict[int, str] = {}
    launched = launches.between(start, end)
    model = np.flatnonzero(launched.is_model)
    if not len(model):
        return [(start, end, OTHER, BY_STRUCTURE)], dict.fromkeys((PREPARE, FORWARD, SAMPLE, COPY_BACK), NO_FORWARD)
    first, last = int(model[0]), int(model[-1])
    copies_in = np.flatnonzero(launched.is_copy_in[:first])
    prepared = start
    if not len(copies_in):
        reasons[PREPARE] = NO_COPY_IN
    elif launched.is_graph[first]:  # what is eager before a graph fills its inputs
        prepared = int(launched.start_ns[first])
    else:
        prepared = int(launched.end_ns[copies_in[-1]])
    if launched.draws[:last].any():
        reasons[SAMPLE] = TWO_SAMPLINGS
    elif launched.draws_in_replay[last]:
        reasons[SAMPLE] = IN_REPLAY
    elif not launched.draws[last + 1 :].any():
        reasons[SAMPLE] = NO_SAMPLING
    samples = SAMPLE not in reasons
    leaves = _leaves(launches, launched, int(np.flatnonzero(launched.draws)[-1]) if samples else last, end)
    sampled, ended = leaves or (int(launched.end_ns[-1]), int(launched.end_ns[-1]))
    ends = [(prepared, PREPARE), (int(launched.start_ns[last + 1]) if samples else sampled, FORWARD)]
    ends += [(sampled, SAMPLE)] if samples else []
    if leaves is None:
        reasons[COPY_BACK] = NO_COPY_OUT
    else:
        ends.append((ended, COPY_BACK))
    if has_next:  # copies to the GPU behind the copy back are the next step's already
        later = launched.start_ns[launched.is_copy_in & (launched.start_ns >= ended)]
        ends += [(int(later[0]) if len(later) else end, BETWEEN), (end, PREPARE)]
    else:
        ends.append((end, OTHER))
    found: list[Stretch] = []
    for until, phase in ends:  # where calls overlap a stretch begins no earlier than the one before ended
        since = found[-1][1] if found else start
        if min(until, end) > since:
            found.append((since, min(until, end), phase, BY_STRUCTURE))
    return found, reasons


def _leaves(launches: ServingLaunches, launched: ServingLaunches, last: int, end: int) -> tuple[int, int] | None:
    """From the first copy to the host, or wait, after this launch to the end of the last wait, or of the copies."""
    copies = np.flatnonzero(launched.is_copy_out[last + 1 :]) + last + 1
    waits = launches.waits_between(int(launched.end_ns[last]), end)
    starts = np.append(launched.start_ns[copies[:1]], waits.start_ns[:1])
    ends = np.append(launched.end_ns[copies[-1:]], waits.end_ns[-1:])
    return (int(starts.min()), min(int(ends.max()), end)) if len(starts) else None
