"""The anatomy of a serving step: phases on the host and on the GPU, prefill and decode steps apart."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...facts.context import Context
from ...facts.phase_names import engine_of, phase_of
from ...model.document import PHASES, ServingDoc, ServingKindDoc, ServingPartDoc, ServingPhaseDoc, Summary
from ...model.statistics import summarize
from ...model.trace import NONE, Bools, HostKind, Ints, Trace
from .figures import ServingFigures, ServingRanges
from .host_phases import (
    BETWEEN,
    COPY_BACK,
    EVIDENCE,
    FORWARD,
    IN_REPLAY,
    OTHER,
    SAMPLE,
    HostPhases,
    host_phases,
)
from .launches import ServingLaunches, may_sample, sampling_in_replays
from .step_kinds import KINDS, StepKinds, step_kinds

LEAST_SERVING: Final = 0.9
"""Share of the steps that must sample and copy back for a loop without annotations to be a serving loop."""

NO_RANGE: Final = "the last step ends before it begins, so its host time can't be split"
NO_NEXT: Final = "no step follows, so where the step ends is not known"


def serving(context: Context) -> ServingDoc | str | None:
    """The phases of the steps on the headline device; a text: why those of an engine are not told; None where they are
    not those of a serving engine or loop, or nothing ran.
    """
    trace, host = context.trace, context.trace.host_ops
    if context.headline is None:
        return None
    annotations = [trace.name(int(n)) for n in np.unique(host.name[host.kind == HostKind.ANNOTATION])]
    engine = engine_of(annotations)
    is_named = engine is not None or {phase_of(name) for name in annotations} >= {"forward", "sample"}
    ranges = ServingRanges.of(context) if is_named or may_sample(trace) else None
    if ranges is None:
        return None
    sampling = sampling_in_replays(context)
    launches = _launching_thread(trace, sampling, ranges)
    if launches is None:
        return None
    if context.steps.source == "repetition":
        ranges = _from_operators(ranges, launches)
    if (ranges.end_ns < ranges.start_ns).any():
        return NO_RANGE
    has_next = [row < len(context.steps) - 1 for row in range(len(context.steps))]
    phases = host_phases(trace, launches, ranges.start_ns, ranges.end_ns, has_next)
    if not is_named and not _is_serving(phases, ranges.used):
        return None
    figures = ServingFigures.of(context, launches, phases, ranges, sampling)
    sampling_ns = figures.busy_ns[:, SAMPLE]
    work_ns = figures.busy_ns.sum(axis=1) - sampling_ns
    kinds = step_kinds(trace, ranges.start_ns, ranges.end_ns, ranges.used, work_ns, sampling_ns, figures.replays)
    return ServingDoc(
        engine=engine,
        steps=len(ranges.used),
        idle_scope="whole" if context.headline_steady is None else "steady",
        kinds=[_kind(kind, rows, kinds, figures, phases, ranges) for kind, rows in _by_kind(kinds, ranges.used)],
        kinds_reason=kinds.reason,
    )


def _launching_thread(trace: Trace, sampling: Bools, ranges: ServingRanges) -> ServingLaunches | None:
    """The launches of the thread that launches most inside the steps that count; None where none does."""
    launches = trace.launches
    inside = np.isin(ranges.step_at(launches.start_ns), ranges.used)
    threads, counts = np.unique(
        np.stack([launches.process[inside], launches.thread[inside]]), axis=1, return_counts=True
    )
    if not len(counts):
        return None
    process, thread = threads[:, int(np.argmax(counts))].tolist()
    return ServingLaunches.of(trace, sampling, process, thread)


def _from_operators(ranges: ServingRanges, launches: ServingLaunches) -> ServingRanges:
    """Steps by repetition begin with their first launch: its operator began before."""
    row = np.searchsorted(launches.at_ns, ranges.start_ns)
    found = row < len(launches.at_ns)
    start_ns = ranges.start_ns.copy()
    start_ns[found] = np.minimum(start_ns[found], launches.start_ns[row[found]])
    start_ns = np.maximum.accumulate(start_ns)
    return ServingRanges(
        start_ns, np.append(start_ns[1:], ranges.end_ns[-1]), ranges.used, ranges.first_op_ns, ranges.has_period
    )


def _is_serving(phases: HostPhases, used: Ints) -> bool:
    """Whether nearly all steps sample, or their replays do, and copy back."""
    serves = [
        COPY_BACK not in phases.reasons[step] and phases.reasons[step].get(SAMPLE) in (None, IN_REPLAY)
        for step in used.tolist()
    ]
    return float(np.mean(serves)) >= LEAST_SERVING


def _by_kind(kinds: StepKinds, used: Ints) -> list[tuple[int, Ints]]:
    """The steps that count by kind: prefill, mixed, decode, then those of no known kind."""
    groups = [(kind, used[kinds.kind[used] == kind]) for kind in (*range(len(KINDS)), NONE)]
    return [(kind, rows) for kind, rows in groups if len(rows)]


def _kind(
    kind: int, rows: Ints, kinds: StepKinds, figures: ServingFigures, phases: HostPhases, ranges: ServingRanges
) -> ServingKindDoc:
    timed = rows[ranges.has_period[rows]]
    periods = ranges.first_op_ns[timed + 1] - ranges.first_op_ns[timed] if len(timed) else timed
    found = [_phase(phase, rows, figures, phases, bool(len(timed))) for phase in range(len(PHASES))]
    return ServingKindDoc(
        kind=None if kind == NONE else KINDS[kind],
        evidence=kinds.evidence_of(rows),
        count=len(rows),
        host_ns=_summary(figures.host_ns[rows].sum(axis=1)),
        period_ns=_summary(periods) if len(timed) else None,
        gpu_busy_ns=_summary(figures.busy_ns[rows].sum(axis=1)),
        gpu_idle_ns=_summary(figures.idle_ns[rows].sum(axis=1)),
        phases=[phase for phase in found if phase is not None],
    )


def _phase(
    phase: int, rows: Ints, figures: ServingFigures, phases: HostPhases, has_next: bool
) -> ServingPhaseDoc | None:
    """The phase in these steps; None where it has no time and no reason is known."""
    own = np.isin(phases.step, rows) & (phases.phase == phase)
    reasons = [phases.reasons[step][phase] for step in rows.tolist() if phase in phases.reasons[step]]
    reason = reasons[0] if reasons else None
    if phase == BETWEEN and not has_next:
        reason = NO_NEXT

    def per_step(figure: Ints) -> Summary:
        return _summary(figure[rows, phase])

    has_host = bool(figures.host_ns[rows, phase].any())
    has_gpu = bool(figures.busy_ns[rows, phase].any() or figures.idle_ns[rows, phase].any())
    if not has_host and not has_gpu and (reason is None or phase == OTHER):
        return None
    evidence = np.unique(phases.evidence[own])
    is_forward = phase == FORWARD and bool(figures.forward_replays[rows].any())
    return ServingPhaseDoc(
        phase=PHASES[phase],
        evidence=", ".join(EVIDENCE[e] for e in evidence.tolist()) or None,
        host_ns=per_step(figures.host_ns) if has_host else None,
        blocked_ns=per_step(figures.blocked_ns) if has_host else None,
        gpu_busy_ns=per_step(figures.busy_ns),
        gpu_idle_ns=per_step(figures.idle_ns),
        launches=per_step(figures.launches),
        reason=None if has_host and len(reasons) < len(rows) else reason,
        in_replays=_part(rows, figures, inside=True) if is_forward else None,
        outside=_part(rows, figures, inside=False) if is_forward else None,
    )


def _part(rows: Ints, figures: ServingFigures, *, inside: bool) -> ServingPartDoc:
    """What the forward's graph launches did, or the rest of it."""
    parts: list[Ints] = []
    for whole, replayed in (
        (figures.host_ns[rows, FORWARD], figures.replay_host_ns[rows]),
        (figures.busy_ns[rows, FORWARD], figures.replay_busy_ns[rows, FORWARD]),
        (figures.kernels[rows, FORWARD], figures.replay_kernels[rows, FORWARD]),
        (figures.launches[rows, FORWARD], figures.forward_replays[rows]),
    ):
        parts.append(replayed if inside else whole - replayed)
    host, busy, kernels, launches = (_summary(part) for part in parts)
    return ServingPartDoc(host_ns=host, gpu_busy_ns=busy, kernels=kernels, launches=launches)


def _summary(figure: Ints) -> Summary:
    return summarize(figure.astype(np.float64))
