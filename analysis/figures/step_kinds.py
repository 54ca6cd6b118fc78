"""Steps of several kinds: each with its time, its work, its verdict, and what a change of it saves of the mean step."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec
import numpy as np

from ..facts.context import Context
from ..facts.trace_times import host_submit_ns
from ..faults.checks import unreliable, voided
from ..model.document import ActionDoc, TraceDoc, VerdictDoc
from ..model.trace import NONE, Ints, Void
from ..model.units import duration, part, plural
from ..story import Listing, TypedColumn, TypedTable
from .figure import Figure
from .observer import KERNEL_STRETCH_NS
from .verdict import StepFacts, verdict


class StepKindDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Medians of the kind's steps that have a period; null where none has. ``saves_ns`` is of the mean of all steps."""

    kind: str
    steps: int
    share_of_steps: float
    share_of_time: float | None
    step_ns: float | None
    gpu_work_ns: float | None
    launches: float
    graph_launches: float
    taxes_ns: dict[str, float]
    verdict: VerdictDoc | None
    saves_ns: float | None


def _compute(context: Context) -> list[StepKindDoc] | None:
    kinds = context.step_kinds
    if not kinds.are_several or context.headline is None or not context.has_steps:
        return None
    if unreliable(context) or voided(context, Void.WORK) is not None:
        return None
    return [_kind(context, number, name) for number, name in enumerate(kinds.names)]


def _kind(context: Context, number: int, name: str) -> StepKindDoc:
    trace, steps, kinds = context.trace, context.steps, context.step_kinds
    periods = context.period_ns[context.device][steps.kept_rows]
    mine = kinds.kind == number
    timed = np.flatnonzero(mine & (periods != NONE))
    launches = steps.count_kept(steps.launch_step)[mine]
    replays = steps.count_kept(steps.launch_step[trace.launches.is_graph])[mine]
    found = StepKindDoc(
        kind=name,
        steps=int(mine.sum()),
        share_of_steps=float(mine.mean()),
        share_of_time=None,
        step_ns=None,
        gpu_work_ns=None,
        launches=float(np.median(launches)),
        graph_launches=float(np.median(replays)),
        taxes_ns={},
        verdict=None,
        saves_ns=None,
    )
    if not len(timed):
        return found
    all_timed = periods[periods != NONE]
    step_ns = float(np.median(periods[timed]))
    work_ns = min(float(np.median(context.busy_ns[timed])), step_ns)
    taxes = _taxes(context, steps.kept_rows[timed])
    judged = _judged(context, steps.kept_rows[timed], found, step_ns, work_ns, taxes)
    best = max((action.saves_ns or 0.0 for action in judged.actions), default=0.0)
    return msgspec.structs.replace(
        found,
        share_of_time=float(periods[timed].sum() / all_timed.sum()),
        step_ns=step_ns,
        gpu_work_ns=work_ns,
        taxes_ns=taxes,
        verdict=judged,
        saves_ns=best * len(timed) / len(all_timed) or None,
    )


def _taxes(context: Context, steps: Ints) -> dict[str, float]:
    """Idle time by tax, the mean of these steps' own periods."""
    gaps, first = context.gaps[context.device], context.first_op_ns[context.device]
    with_op = np.flatnonzero(first != NONE)
    place = np.searchsorted(first[with_op], gaps.start_ns, side="right") - 1
    inside = np.isin(np.where(place >= 0, with_op[place], NONE), steps)
    return {tax: float(ns[inside].sum() / len(steps)) for tax, ns in gaps.tax_parts_ns().items()}


def _judged(
    context: Context, steps: Ints, kind: StepKindDoc, step_ns: float, work_ns: float, taxes: dict[str, float]
) -> VerdictDoc:
    host = float(np.median(host_submit_ns(context.trace, context.steps.launch_step, steps)))
    gpu_ops = float(np.median(context.steps.counted(context.steps.op_step)[steps]))
    inside = np.isin(context.steps.op_step, steps)
    linked = int((context.linked_kernels & inside).sum())
    idle = sum(taxes.values())
    scale = (step_ns - work_ns) / idle if idle else 0.0
    return verdict(
        StepFacts(
            basis="trace",
            step_ns=step_ns,
            gpu_work_ns=work_ns,
            gpu_ops=gpu_ops,
            launches=kind.launches,
            tau_ns=host / kind.launches if kind.launches else None,
            taxes_ns={tax: ns * scale for tax, ns in taxes.items()} if idle else None,
            work_uncertainty_ns=gpu_ops * (KERNEL_STRETCH_NS + context.trace.clock_ns),
            clock_ns=context.trace.clock_ns,
            node_gap_ns=context.node_gap_ns,
            graph_launches=kind.graph_launches,
            in_graphs=int((context.graph_kernels & inside).sum()) / linked if linked else None,
            blocking=context.blocking_words,
        )
    )


def kinds_in_words(kinds: list[StepKindDoc]) -> str:
    """'10 of 20 steps are decode, graph (112 µs), 10 decode, eager (360 µs)'."""
    total = sum(kind.steps for kind in kinds)
    told = [f"{part(kind.steps, total)} steps are {kind.kind} ({duration(kind.step_ns)})" for kind in kinds]
    return "; ".join(told)


def actions_of_kinds(kinds: list[StepKindDoc], step_ns: float) -> list[ActionDoc]:
    """What each kind's own verdict proposes, by what it saves of the mean step, ``step_ns``."""
    found = []
    for kind in kinds:
        if kind.verdict is None or kind.step_ns is None or kind.share_of_time is None:
            continue
        share = kind.share_of_time * step_ns / kind.step_ns  # of the steps with a period
        found += [_of_the_mean(action, kind, share, step_ns) for action in kind.verdict.actions]
    return sorted(found, key=lambda action: -(action.saves_ns or 0.0))


def _of_the_mean(action: ActionDoc, kind: StepKindDoc, share: float, step_ns: float) -> ActionDoc:
    saves, low, high = (None if ns is None else ns * share for ns in (action.saves_ns, action.low_ns, action.high_ns))
    return msgspec.structs.replace(
        action,
        what=f"in the {plural(kind.steps, 'step')} of kind {kind.kind}: {action.what}",
        saves_ns=saves,
        low_ns=low,
        high_ns=high,
        share=None if saves is None else saves / step_ns,
        step_ns=None if saves is None else step_ns - saves,
    )


class _Row(msgspec.Struct, frozen=True):
    kind: str
    steps: int
    share_of_steps: float
    share_of_time: float | None
    step_ns: float | None
    gpu_work_ns: float | None
    launches: float
    verdict: str
    saves_ns: float | None


def _table(kinds: list[StepKindDoc]) -> TypedTable:
    columns = [
        TypedColumn("kind", "kinds of steps", "name", least=16),
        TypedColumn("steps", "steps"),
        TypedColumn("share_of_steps", "of\nsteps", "share"),
        TypedColumn("share_of_time", "of\ntime", "share"),
        TypedColumn("step_ns", "step", "ns"),
        TypedColumn("gpu_work_ns", "GPU\nwork", "ns"),
        TypedColumn("launches", "launches\nper step"),
        TypedColumn("verdict", "verdict", "name"),
        TypedColumn("saves_ns", "saves of\nthe mean", "ns"),
    ]
    return TypedTable(columns, [_row(kind) for kind in kinds])


def _row(kind: StepKindDoc) -> _Row:
    return _Row(
        kind=kind.kind,
        steps=kind.steps,
        share_of_steps=kind.share_of_steps,
        share_of_time=kind.share_of_time,
        step_ns=kind.step_ns,
        gpu_work_ns=kind.gpu_work_ns,
        launches=kind.launches,
        verdict="" if kind.verdict is None else kind.verdict.verdict_class,
        saves_ns=kind.saves_ns,
    )


def _tables(trace: TraceDoc, verbose: bool) -> Iterator[Listing]:
    del verbose
    kinds = STEP_KINDS.read(trace)
    if kinds:
        yield from _table(kinds).listing(None)


STEP_KINDS: Final = Figure(
    "step_kinds",
    "steps of several kinds (prefill and decode, replayed and eager), each by itself",
    list[StepKindDoc],
    _compute,
    tables=_tables,
    table=_table,
)
