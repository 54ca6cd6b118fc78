"""What changed from one trace to another: figures, GPU ops, launches, blocking calls, and the likely causes."""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import Final, NamedTuple

import msgspec
import numpy as np

from ..figures.analyses import TraceAnalysis
from ..model.columns import follow, named
from ..model.document import CommunicationDoc
from ..model.names import unnumbered
from ..model.trace import HostKind, OpKind
from .compare_document import BlockingChangeDoc, CameDoc, ComparisonDoc, LaunchChangeDoc, SideDoc
from .compared_figures import figures, graph_coverage
from .compared_ops import compare_ops
from .likely_causes import InCollectives, OfOperator, likely_causes

NEED_STEPS: Final = ("pairs", "moved", "merged", "slower", "faster", "exchanged", "blocking_calls")
"""Fields that are told per step or not at all."""


class _Call(NamedTuple):
    """Where host calls come from."""

    api: str
    operator: str | None
    stack: tuple[str, ...]  # of blocking calls alone


_Calls = dict[_Call, float]
"""How many, per step or in all."""


def compare(a: TraceAnalysis, b: TraceAnalysis, *, stacks: ComparisonDoc | None = None) -> ComparisonDoc:
    """What changed from a to b: per step where both have kept steps, else of the whole files.

    ``compare(b, a)`` says the same with every sign turned. Time grows with the number of GPU ops, not its square.
    ``stacks`` compares recordings of the same two with Python stacks: places are taken from it.
    """
    without = [side.name for side in (a, b) if not len(side.steps.kept_rows) or side.document.steps is None]
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
        ops_before=ops.ops_before,
        ops_after=ops.ops_after,
        pairs=ops.pairs,
        same_change_ns=ops.same_change_ns,
        came=ops.came,
        went=ops.went,
        moved=ops.moved,
        merged=ops.merged,
        slower=ops.slower,
        faster=ops.faster,
        exchanged=ops.exchanged,
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
    before, after = (_of_rank(side.document.communication) for side in (a, b))
    return None if before is None or after is None else (before, after)


def _of_rank(communication: CommunicationDoc | None) -> InCollectives | None:
    if communication is None or communication.waiting_ns is None or communication.transfer_ns is None:
        return None
    waiting, transfer = communication.waiting_ns.median, communication.transfer_ns.median
    return None if waiting is None or transfer is None else InCollectives(waiting, transfer)


def _with_places(comparison: ComparisonDoc, stacks: ComparisonDoc) -> ComparisonDoc:
    """With the Python lines of a pass with stacks: of blocking calls, and of what came and went."""
    if comparison.scope != "step" or stacks.scope != "step":
        return comparison

    def told(docs: list[CameDoc], known: list[CameDoc]) -> list[CameDoc]:
        places = {(doc.name, doc.operator): doc.stack for doc in known if doc.stack}
        return [msgspec.structs.replace(doc, stack=places.get((doc.name, doc.operator), doc.stack)) for doc in docs]

    return msgspec.structs.replace(
        comparison,
        came=told(comparison.came, stacks.came),
        went=told(comparison.went, stacks.went),
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
        name=analysis.name,
        mode=analysis.mode,
        trace_pass=analysis.trace_pass,
        repeat=analysis.repeat,
        path=document.source.path,
        device=None if device is None else analysis.trace.device_names.get(device),
        steps=len(analysis.steps.kept_rows),
        unreliable=list(analysis.unreliable),
    )


def _notes(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> list[str]:
    """How far the two can be compared at all."""
    notes = []
    if scope == "whole":
        notes.append("The figures are of the whole files: they differ already where one recorded for longer.")
    devices = [_side(side).device for side in (a, b)]
    if None not in devices and devices[0] != devices[1]:
        notes.append(f"Different GPUs, {devices[0]} and {devices[1]}: times are not comparable, counts may be.")
    if a.trace_pass != b.trace_pass:
        passes = [side.trace_pass or "a recording of your own" for side in (a, b)]
        notes.append(f"Recorded differently ({passes[0]}, {passes[1]}): host times hold what each recording cost.")
    for side in (a, b):
        if side.unreliable:
            notes.append(f"{side.name} is not reliable: {'; '.join(side.unreliable)}.")
    return notes


def _has_operators(analysis: TraceAnalysis) -> bool:
    return bool((analysis.trace.host_ops.kind == HostKind.OPERATOR).any())


def _told_alike(a: TraceAnalysis, b: TraceAnalysis, before: _Calls, after: _Calls) -> tuple[_Calls, _Calls]:
    """Calls without their operators where only one side recorded those, and both sides call the API."""
    if _has_operators(a) == _has_operators(b):
        return before, after
    in_both = {call.api for call in before} & {call.api for call in after}

    def told(calls: _Calls) -> _Calls:
        counts: _Calls = defaultdict(float)
        for call, count in calls.items():
            counts[call._replace(operator=None, stack=()) if call.api in in_both else call] += count
        return counts

    return told(before), told(after)


def _launches(a: TraceAnalysis, b: TraceAnalysis, scope: str) -> list[LaunchChangeDoc]:
    """Launches by API and operator whose number changed, the largest change first."""
    before, after = _told_alike(a, b, _launch_counts(a, scope), _launch_counts(b, scope))
    docs = [
        LaunchChangeDoc(api=call.api, operator=call.operator, before=was, after=now, change=now - was)
        for call in sorted(before.keys() | after.keys(), key=_sorted_as)
        if (was := before.get(call, 0)) != (now := after.get(call, 0))
    ]
    return sorted(docs, key=lambda doc: -abs(doc.change))


def _launch_counts(analysis: TraceAnalysis, scope: str) -> _Calls:
    """Launches per kept step, or of the whole file, by API and operator."""
    trace, steps = analysis.trace, analysis.steps
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
    before, after = _told_alike(a, b, _blocking_counts(a), _blocking_counts(b))
    change: dict[tuple[str, str | None], float] = defaultdict(float)
    for sign, calls in ((-1, before), (1, after)):
        for call, count in calls.items():
            change[call.api, call.operator] += sign * count
    docs = [
        BlockingChangeDoc(
            api=call.api, operator=call.operator, stack=list(call.stack), before=was, after=now, change=now - was
        )
        for call in sorted(before.keys() | after.keys(), key=_sorted_as)
        if change[call.api, call.operator] and (was := before.get(call, 0)) != (now := after.get(call, 0))
    ]
    return sorted(docs, key=lambda doc: -abs(doc.change))


def _blocking_counts(analysis: TraceAnalysis) -> _Calls:
    """Blocking calls per kept step."""
    counts: _Calls = defaultdict(float)
    for call in analysis.document.blocking_calls:
        if call.count_per_step:
            counts[_Call(call.api, call.operator, tuple(call.stack))] += call.count_per_step
    return counts


def _sorted_as(call: _Call) -> tuple[str, str, tuple[str, ...]]:
    return call.api, call.operator or "", call.stack
