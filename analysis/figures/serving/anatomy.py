"""The anatomy of a serving step: phases on the host and on the GPU, prefill and decode steps apart."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...facts.context import Context
from ...facts.phase_names import KINDS, engine_of, phase_of
from ...model.document import PHASES, ServingDoc, ServingKindDoc, ServingPartDoc, ServingPhaseDoc, Summary
from ...model.statistics import summarize
from ...model.trace import NONE, Bools, HostKind, Ints, Trace
from .gpu_phases import ServingFigures
from .host_phases import BETWEEN, COPY_BACK, EVIDENCE, FORWARD, IN_REPLAY, OTHER, SAMPLE, HostPhases, host_phases
from .launches import ServingLaunches, ServingSteps, may_sample, sampling_in_replays
from .step_kinds import step_kinds

LEAST_SERVING: Final = 0.9
"""Share of the steps that must sample, in a replay or not, and copy back for an unnamed loop to be a serving loop."""

NO_RANGE: Final = "the last step ends before it begins, so its host time can't be split"
NO_NEXT: Final = "no step follows, so where the step ends is not known"


def serving(context: Context) -> ServingDoc | str | None:
    """The phases of the steps on the headline device; a text: why those of an engine are not told; None where they are
    not those of a serving engine or loop, or nothing ran.
    """
    trace, host = context.trace, context.trace.host_ops
    if context.headline is None:
        return None
    annotations = [trace.name(name) for name in np.unique(host.name[host.kind == HostKind.ANNOTATION]).tolist()]
    engine = engine_of(annotations)
    is_named = engine is not None or {phase_of(name) for name in annotations} >= {"forward", "sample"}
    steps = ServingSteps.of(context) if is_named or may_sample(trace) else None
    if steps is None:
        return None
    sampling = sampling_in_replays(context)
    launches = _launching_thread(trace, sampling, steps)
    if launches is None:
        return None
    if context.steps.source == "repetition":
        steps = steps.from_operators(launches)
    if (steps.end_ns < steps.start_ns).any():
        return NO_RANGE
    phases = host_phases(trace, launches, steps)
    reasons = [phases.reasons[step] for step in steps.used.tolist()]
    serves = [COPY_BACK not in each and each.get(SAMPLE) in (None, IN_REPLAY) for each in reasons]
    if not is_named and float(np.mean(serves)) < LEAST_SERVING:
        return None
    figures = ServingFigures.of(context, launches, phases, steps, sampling)
    sampling_ns = figures.busy_ns[:, SAMPLE]
    work_ns = figures.busy_ns.sum(axis=1) - sampling_ns
    kinds = step_kinds(trace, steps, work_ns, sampling_ns, figures.replays)
    by_kind = {kind: steps.used[kinds.kind[steps.used] == kind] for kind in (*range(len(KINDS)), NONE)}
    return ServingDoc(
        engine=engine,
        steps=len(steps.used),
        idle_scope="whole" if context.headline_steady is None else "steady",
        kinds=[
            _kind(None if kind == NONE else KINDS[kind], kinds.evidence_of(rows), rows, figures, phases, steps)
            for kind, rows in by_kind.items()
            if len(rows)
        ],
        kinds_reason=kinds.reason,
    )


def _launching_thread(trace: Trace, sampling: Bools, steps: ServingSteps) -> ServingLaunches | None:
    """The launches of the thread that launches most inside the steps that count; None where none does."""
    launches = trace.launches
    inside = np.isin(steps.at(launches.start_ns), steps.used)
    threads, counts = np.unique(
        np.stack([launches.process[inside], launches.thread[inside]]), axis=1, return_counts=True
    )
    if not len(counts):
        return None
    process, thread = threads[:, int(np.argmax(counts))].tolist()
    return ServingLaunches.of(trace, sampling, process, thread)


def _kind(
    kind: str | None, evidence: str | None, rows: Ints, figures: ServingFigures, phases: HostPhases, steps: ServingSteps
) -> ServingKindDoc:
    timed = rows[steps.has_period[rows]]
    found = [_phase(phase, rows, figures, phases, bool(len(timed))) for phase in range(len(PHASES))]
    return ServingKindDoc(
        kind=kind,
        evidence=evidence,
        count=len(rows),
        host_ns=_summary(figures.host_ns[rows].sum(axis=1)),
        period_ns=_summary(steps.first_op_ns[timed + 1] - steps.first_op_ns[timed]) if len(timed) else None,
        gpu_busy_ns=_summary(figures.busy_ns[rows].sum(axis=1)),
        gpu_idle_ns=_summary(figures.idle_ns[rows].sum(axis=1)),
        phases=[phase for phase in found if phase is not None],
    )


def _phase(
    phase: int, rows: Ints, figures: ServingFigures, phases: HostPhases, has_next: bool
) -> ServingPhaseDoc | None:
    """The phase in these steps; None where it has no time and no reason is known."""
    reasons = [phases.reasons[step][phase] for step in rows.tolist() if phase in phases.reasons[step]]
    reason = NO_NEXT if phase == BETWEEN and not has_next else next(iter(reasons), None)
    host, busy, idle = (figure[rows, phase] for figure in (figures.host_ns, figures.busy_ns, figures.idle_ns))
    has_host = bool(host.any())
    if not has_host and not busy.any() and not idle.any() and (reason is None or phase == OTHER):
        return None
    evidence = np.unique(phases.evidence[np.isin(phases.step, rows) & (phases.phase == phase)])
    is_replayed = phase == FORWARD and bool(figures.in_replays["launches"][rows].any())
    return ServingPhaseDoc(
        phase=PHASES[phase],
        evidence=", ".join(EVIDENCE[each] for each in evidence.tolist()) or None,
        host_ns=_summary(host) if has_host else None,
        blocked_ns=_summary(figures.blocked_ns[rows, phase]) if has_host else None,
        gpu_busy_ns=_summary(busy),
        gpu_idle_ns=_summary(idle),
        launches=_summary(figures.launches[rows, phase]),
        reason=None if has_host and len(reasons) < len(rows) else reason,
        in_replays=_part(rows, figures, inside=True) if is_replayed else None,
        outside=_part(rows, figures, inside=False) if is_replayed else None,
    )


def _part(rows: Ints, figures: ServingFigures, *, inside: bool) -> ServingPartDoc:
    """What the forward's graph launches did, or the rest of it."""
    columns = (figures.host_ns, figures.busy_ns, figures.kernels, figures.launches)
    whole = dict(zip(ServingPartDoc.__struct_fields__, columns, strict=True))
    parts = {name: replayed[rows] for name, replayed in figures.in_replays.items()}
    if not inside:
        parts = {name: whole[name][rows, FORWARD] - replayed for name, replayed in parts.items()}
    return ServingPartDoc(**{name: _summary(part) for name, part in parts.items()})


def _summary(figure: Ints) -> Summary:
    return summarize(figure.astype(np.float64))
