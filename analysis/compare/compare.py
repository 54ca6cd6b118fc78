"""What changed from one trace to another: figures, GPU ops, launches, blocking calls, and the likely causes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import chain
from typing import Final, NamedTuple

import msgspec
import numpy as np

from ..figures.analyses import TraceAnalysis
from ..figures.registry import values
from ..model.columns import follow, named
from ..model.document import (
    CAUSES,
    TAXES,
    DeviceDoc,
    GapsDoc,
    ModeDoc,
    Summary,
    TraceDoc,
)
from ..model.names import unnumbered
from ..model.statistics import sums
from ..model.trace import HostKind, OpKind
from ..profile.mode_figures import MODE_FIGURES
from .compared_ops import compare_ops
from .documents import BlockingChangeDoc, CameDoc, ComparisonDoc, FigureDoc, LaunchChangeDoc, SideDoc
from .likely_causes import InCollectives, OfOperator, graph_change, likely_causes

NEED_STEPS: Final = ("pairs", "moved", "merged", "slower", "faster", "exchanged", "blocking_calls")
"""Fields that are told per step or not at all."""


class _Call(NamedTuple):
    """Where host calls come from."""

    api: str
    operator: str | None
    stack: tuple[str, ...]  # of blocking calls alone


_Calls = dict[_Call, float]
"""How many, per step or in all."""

STEP_COUNTS: Final = ("gpu_ops", "kernels", "launches", "graph_launches", "blocking_calls", "memcpys")
FILE_COUNTS: Final = STEP_COUNTS[:4]

_UNITS: Final[dict[str, str]] = {
    **{figure.name: figure.kind for figure in MODE_FIGURES.values()},
    **{value.name: value.kind for _, value in values()},
}

_Value = tuple[float | None, float | None]
"""A figure and how much a trace's own steps differ in it."""


def compare(a: TraceAnalysis, b: TraceAnalysis, *, stacks: ComparisonDoc | None = None) -> ComparisonDoc:
    """What changed from a to b: per step where both have kept steps, else of the whole files.

    ``compare(b, a)`` says the same with every sign turned. Time grows with the number of GPU ops, not its square.
    ``stacks`` compares recordings of the same two with Python stacks: places are taken from it.
    """
    without = [
        side.context.name for side in (a, b) if not len(side.context.steps.kept_rows) or side.document.steps is None
    ]
    scope = "whole" if without else "step"
    withheld: dict[str, str] = {}
    if without:
        reason = f"no kept steps in {' and '.join(dict.fromkeys(without))}: nothing to align, and no count per step"
        withheld |= dict.fromkeys(NEED_STEPS, reason)
    ops = compare_ops(a, b, scope, withheld)
    document = ComparisonDoc(
        before=_side(a),
        after=_side(b),
        scope=scope,
        figures=figures(a, b, scope),
        **vars(ops),
        launches=_launches(a, b, scope),
        blocking_calls=_blocking_calls(a, b) if scope == "step" else [],
        graph_coverage=graph_coverage(a, b, scope),
        likely_causes=[],
        notes=_notes(a, b, scope),
        withheld=withheld,
    )
    if stacks is not None:
        document = _with_places(document, stacks)
    causes = likely_causes(document, _kernels(a), _kernels(b), _in_collectives(a, b))
    return msgspec.structs.replace(document, likely_causes=causes)


def _in_collectives(a: TraceAnalysis, b: TraceAnalysis) -> tuple[InCollectives, InCollectives] | None:
    """Of each side's median step; None where either side's waiting can't be told from transfer."""
    found = []
    for its in (a.document.communication, b.document.communication):
        if its is None or its.waiting_ns is None or its.transfer_ns is None:
            return None
        if its.waiting_ns.median is None or its.transfer_ns.median is None:
            return None
        found.append(InCollectives(its.waiting_ns.median, its.transfer_ns.median))
    return found[0], found[1]


def _with_places(comparison: ComparisonDoc, stacks: ComparisonDoc) -> ComparisonDoc:
    """With the Python lines of a pass with stacks: of blocking calls, and of what came and went."""
    if comparison.scope != "step" or stacks.scope != "step":
        return comparison

    def placed(docs: list[CameDoc], known: list[CameDoc]) -> list[CameDoc]:
        places = {(doc.name, doc.operator): doc.stack for doc in known if doc.stack}
        return [msgspec.structs.replace(doc, stack=places.get((doc.name, doc.operator), doc.stack)) for doc in docs]

    return msgspec.structs.replace(
        comparison,
        came=placed(comparison.came, stacks.came),
        went=placed(comparison.went, stacks.went),
        blocking_calls=stacks.blocking_calls,
    )


def _kernels(analysis: TraceAnalysis) -> list[OfOperator]:
    """Kernels per step by name."""
    return [
        OfOperator(doc.name, doc.operator, doc.count_per_step or 0.0)
        for doc in analysis.document.kernels
        if doc.category == OpKind.KERNEL.word
    ]


def _side(analysis: TraceAnalysis) -> SideDoc:
    document = analysis.document
    device = document.headline_device
    return SideDoc(
        name=analysis.context.name,
        mode=analysis.context.mode,
        trace_pass=analysis.context.trace_pass,
        repeat=analysis.context.repeat,
        path=document.source.path,
        device=None if device is None else analysis.context.trace.device_names.get(device),
        steps=len(analysis.context.steps.kept_rows),
        unreliable=list(analysis.document.coverage.unreliable),
    )


def _notes(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> list[str]:
    """How far the two can be compared at all."""
    notes = []
    if scope == "whole":
        notes.append("The figures are of the whole files: they differ already where one recorded for longer.")
    devices = [_side(side).device for side in (a, b)]
    if None not in devices and devices[0] != devices[1]:
        notes.append(f"Different GPUs, {devices[0]} and {devices[1]}: times are not comparable, counts may be.")
    if a.context.trace_pass != b.context.trace_pass:
        passes = [side.context.trace_pass or "a recording of your own" for side in (a, b)]
        notes.append(f"Recorded differently ({passes[0]}, {passes[1]}): host times hold what each recording cost.")
    if a.context.trace.clock_ns != b.context.trace.clock_ns:
        coarse = a if a.context.trace.clock_ns else b
        grid = f"{coarse.context.trace.clock_ns / 1000:g} µs"
        notes.append(
            f"Times of {coarse.context.name} are told to {grid}: each op may be as much shorter or longer, its gaps "
            "too; differences of GPU work and idle time may be of the clock alone."
        )
    for side in (a, b):
        if side.document.coverage.unreliable:
            notes.append(f"{side.context.name} is not reliable: {'; '.join(side.document.coverage.unreliable)}.")
    return notes


def _by_the_same_names(a: TraceAnalysis, b: TraceAnalysis, before: _Calls, after: _Calls) -> tuple[_Calls, _Calls]:
    """Calls without their operators where only one side recorded those, and both sides call the API."""
    recorded = [bool((side.context.trace.host_ops.kind == HostKind.OPERATOR).any()) for side in (a, b)]
    if recorded[0] == recorded[1]:
        return before, after
    in_both = {call.api for call in before} & {call.api for call in after}

    def without_operators(calls: _Calls) -> _Calls:
        return sums(
            (call._replace(operator=None, stack=()) if call.api in in_both else call, count)
            for call, count in calls.items()
        )

    return without_operators(before), without_operators(after)


def _changes(before: _Calls, after: _Calls) -> list[tuple[_Call, float, float]]:
    """Calls whose number changed, with both numbers, the largest change first."""
    calls = sorted(before.keys() | after.keys(), key=lambda call: (call.api, call.operator or "", call.stack))
    found = [(call, before.get(call, 0), after.get(call, 0)) for call in calls]
    return sorted((each for each in found if each[1] != each[2]), key=lambda each: -abs(each[2] - each[1]))


def _launches(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> list[LaunchChangeDoc]:
    """Launches by API and operator whose number changed, the largest change first."""
    before, after = _by_the_same_names(a, b, _launch_counts(a, scope), _launch_counts(b, scope))
    return [
        LaunchChangeDoc(api=call.api, operator=call.operator, before=was, after=now, change=now - was)
        for call, was, now in _changes(before, after)
    ]


def _launch_counts(analysis: TraceAnalysis, scope: str) -> _Calls:
    """Launches per kept step, or of the whole file, by API and operator."""
    trace, steps = analysis.context.trace, analysis.context.steps
    rows = np.arange(len(trace.launches))
    if scope == "step":
        rows = np.flatnonzero(np.isin(steps.launch_step, steps.kept_rows))
    operator = follow(trace.host_ops.name, trace.launches.operator_row[rows])
    pairs = Counter(zip(trace.launches.api[rows].tolist(), named(trace.names, operator), strict=True))
    among = len(steps.kept_rows) if scope == "step" else 1
    counts: Counter[_Call] = Counter()
    for (api, name), count in pairs.items():
        counts[_Call(trace.name(api), None if name is None else unnumbered(name), ())] += count
    return {call: count / among for call, count in counts.items()}


def _blocking_calls(a: TraceAnalysis, b: TraceAnalysis) -> list[BlockingChangeDoc]:
    """Blocking calls that came or went, the largest change first.

    By stack where the number of an API's calls in an operator changed: an edit above a call moves its line, and is
    no new call.
    """
    before, after = _by_the_same_names(a, b, _blocking_counts(a), _blocking_counts(b))
    change = sums(
        ((call.api, call.operator), sign * count)
        for sign, calls in ((-1, before), (1, after))
        for call, count in calls.items()
    )
    return [
        BlockingChangeDoc(
            api=call.api, operator=call.operator, stack=list(call.stack), before=was, after=now, change=now - was
        )
        for call, was, now in _changes(before, after)
        if change[call.api, call.operator]
    ]


def _blocking_counts(analysis: TraceAnalysis) -> _Calls:
    """Blocking calls per kept step."""
    return sums(
        (_Call(call.api, call.operator, tuple(call.stack)), call.count_per_step)
        for call in analysis.document.blocking_calls
        if call.count_per_step
    )


def figures(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> list[FigureDoc]:
    """Per step, or of the whole files: docs/metrics.md says how each comes about."""
    of_scope = _of_step if scope == "step" else _of_whole
    before, after = (dict(chain(of_scope(side.document), _of_either(side.document))) for side in (a, b))
    return [_figure(name, before[name], after[name]) for name in before if name in after]


def mode_figures(before: ModeDoc | None, after: ModeDoc | None) -> list[FigureDoc]:
    """What the report says of two modes, as far as it is known of either; nothing where one was not timed."""
    if before is None or after is None or before.step_ns is None or after.step_ns is None:
        return []
    pairs = ((each.name, each.of(before), each.of(after)) for each in MODE_FIGURES.values() if each.compared)
    return [_figure(name, (was, None), (now, None)) for name, was, now in pairs if (was, now) != (None, None)]


def graph_coverage(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> str | None:
    """How the share of kernels that run in graphs changed; null where either side's can't be told."""
    steps = [side.document.steps if scope == "step" else None for side in (a, b)]
    before, after = (None if its is None else its.graph_launches.median for its in steps)
    coverage = a.document.graphs.coverage_by_count, b.document.graphs.coverage_by_count
    return graph_change((before, after), coverage)


def _figure(name: str, before: _Value, after: _Value) -> FigureDoc:
    known = before[0] is not None and after[0] is not None
    of_recordings = "share" if name.startswith("graph_coverage") else "ns" if name.endswith("_ns") else "count"
    return FigureDoc(
        name=name,
        unit=_UNITS.get(name, of_recordings),
        before=before[0],
        after=after[0],
        change=after[0] - before[0] if known else None,  # type: ignore[operator]
        spread=None if before[1] is None or after[1] is None else max(before[1], after[1]),
    )


def _of_step(document: TraceDoc) -> Iterator[tuple[str, _Value]]:
    steps = document.steps
    assert steps is not None, "only traces with kept steps are compared per step"
    device = _headline(document)
    steady = None if device is None else device.steady
    yield "step_ns", _summary(steps.period_ns)
    yield "busy_ns", _summary(steps.busy_ns)
    yield from _idle(None if steady is None else steady.gaps, 0 if steps.period_ns is None else steps.period_ns.count)
    yield from ((name, _summary(getattr(steps, name))) for name in STEP_COUNTS)


def _of_whole(document: TraceDoc) -> Iterator[tuple[str, _Value]]:
    device = _headline(document)
    yield "window_ns", (None if device is None else device.window_ns, None)
    yield "busy_ns", (None if device is None else device.busy_ns, None)
    yield from _idle(None if device is None else device.gaps, 1)
    yield from ((name, (getattr(document.coverage, name), None)) for name in FILE_COUNTS)


def _of_either(document: TraceDoc) -> Iterator[tuple[str, _Value]]:
    yield "graph_coverage", (document.graphs.coverage_by_count, None)
    yield "graph_coverage_by_time", (document.graphs.coverage_by_time, None)
    for figure, value in values():
        found = figure.read(document)
        yield value.name, (None if found is None else value.of(found), None)


def _headline(document: TraceDoc) -> DeviceDoc | None:
    return next((device for device in document.devices if device.device == document.headline_device), None)


def _summary(summary: Summary | None) -> _Value:
    if summary is None or summary.median is None:
        return None, None
    known = summary.p10 is not None and summary.p90 is not None and summary.count > 1
    return summary.median, summary.p90 - summary.p10 if known else None  # type: ignore[operator]


def _idle(gaps: GapsDoc | None, steps: int) -> Iterator[tuple[str, _Value]]:
    """Idle time by cause, and the same time as taxes."""
    found = {"idle_ns": 0.0 if gaps is None else gaps.total_ns}
    for cause in CAUSES:
        found[f"idle.{cause}_ns"] = gaps.by_cause[cause].ns if gaps is not None and cause in gaps.by_cause else 0.0
    for tax in TAXES:
        found[f"tax.{tax}_ns"] = 0.0 if gaps is None else gaps.taxes_ns[tax]
    for name, ns in found.items():
        yield name, (ns / steps if gaps is not None and steps else None, None)
