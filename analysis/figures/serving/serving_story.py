"""The anatomy of serving steps as tables: a phase a row, prefill and decode steps apart."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ...facts.context import Context
from ...model.document import ServingDoc, ServingKindDoc, ServingPartDoc, ServingPhaseDoc, Summary, TraceDoc
from ...model.units import MISSING, duration, number, plural
from ...story import Column, Listing, Row, Table, marked
from ..figure import Figure, Withheld, known
from .anatomy import serving

WORDS: Final = {
    "schedule": "schedule",
    "prepare": "prepare inputs",
    "forward": "forward",
    "sample": "sample",
    "copy_back": "copy back",
    "between_steps": "until the next step",
    "other": "not told",
}
MEANS: Final = "* means per step, as profiled: phases add up; GPU idle is what the GPU waited for in the phase"
OBSERVED: Final = (
    "* of replays, host time and GPU idle are mostly the profiler's cost of graph launches, which T has not"
)


def serving_story(trace: TraceDoc) -> Iterator[Listing]:
    """One table per kind of steps; none where the steps are not an engine's."""
    serving = trace.serving
    if serving is None:
        return
    for place, kind in enumerate(serving.kinds):
        notes: list[str] = []
        rows = [row for phase in kind.phases for row in _phase_rows(phase, notes)]
        times = _times(kind.host_ns, None, kind.gpu_busy_ns, kind.gpu_idle_ns)
        rows.append(Row(["step", *times, MISSING, ""], strong=True))
        replays = any(phase.in_replays is not None for phase in kind.phases)
        notes += [OBSERVED] if replays and trace.trace_pass is not None else []
        notes += [] if place else [MEANS, *([f"* {serving.kinds_reason}"] if serving.kinds_reason else [])]
        columns = [Column(title(serving, kind), right=False), Column("host"), Column("of it\nwaiting")]
        columns += [Column("GPU work"), Column("GPU idle"), Column("launches", optional=True)]
        columns.append(Column("told by", right=False, optional=True))
        yield Listing(Table(columns, rows).without_empty_columns(MISSING), notes)


def title(serving: ServingDoc, kind: ServingKindDoc) -> str:
    """How many steps, of what kind and engine."""
    steps = plural(kind.count, f"{kind.kind or 'serving'} step")
    return steps if serving.engine is None else f"{serving.engine}: {steps}"


def _phase_rows(phase: ServingPhaseDoc, notes: list[str]) -> Iterator[Row]:
    name = WORDS[phase.phase]
    if phase.reason is not None:
        if phase.reason not in notes:
            notes.append(phase.reason)
        name = marked(name, [notes.index(phase.reason) + 1])
    times = _times(phase.host_ns, phase.blocked_ns, phase.gpu_busy_ns, phase.gpu_idle_ns)
    yield Row([name, *times, number(mean(phase.launches)), phase.evidence or ""])
    parts: Sequence[tuple[str, ServingPartDoc | None]] = (("in replays", phase.in_replays), ("outside", phase.outside))
    for word, part in parts:
        if part is not None:
            yield Row(
                [f"  {word}", *_times(part.host_ns, None, part.gpu_busy_ns, None), number(mean(part.launches)), ""]
            )


def _times(host: Summary | None, blocked: Summary | None, busy: Summary, idle: Summary | None) -> list[str]:
    """Means; waiting that is nothing is left out."""
    waiting = MISSING if blocked is None or not blocked.total else duration(mean(blocked))
    return [duration(mean(host)), waiting, duration(mean(busy)), duration(mean(idle))]


def mean(summary: Summary | None) -> float | None:
    """Per step; null without steps."""
    return None if summary is None or not summary.count else summary.total / summary.count


def _compute(context: Context) -> ServingDoc | Withheld | None:
    found = serving(context)
    if isinstance(found, str):
        return Withheld(found)
    if found is None:
        return None
    kinds = [_kind(kind, found.kinds_reason or "no annotation tells it") for kind in found.kinds]
    return msgspec.structs.replace(found, kinds=kinds)


def _kind(kind: ServingKindDoc, otherwise: str) -> ServingKindDoc:
    return msgspec.structs.replace(
        kind,
        kind=known(kind.kind, otherwise),
        period_ns=known(kind.period_ns, "no step follows these on this device"),
        phases=[_phase(phase) for phase in kind.phases],
    )


def _phase(phase: ServingPhaseDoc) -> ServingPhaseDoc:
    reason = phase.reason or "no launch of the host's is of this phase"
    return msgspec.structs.replace(
        phase, host_ns=known(phase.host_ns, reason), blocked_ns=known(phase.blocked_ns, reason)
    )


SERVING: Final = Figure(
    "serving",
    "phases of a serving engine's steps",
    ServingDoc,
    _compute,
    tables=lambda trace, verbose: serving_story(trace),
    tells_reasons=True,
)
