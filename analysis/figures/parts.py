"""Parts of the story that a profile and a bare trace share: verdict, actions, warnings, idle by cause, kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..model import units
from ..model.document import (
    CAUSES,
    TAXES,
    ActionDoc,
    BoundDoc,
    GapsDoc,
    KernelDoc,
    ShortShareDoc,
    TraceDoc,
    VerdictDoc,
    WarningDoc,
)
from ..model.kernel_names import short_names
from ..model.units import MISSING, duration, number, plural, share
from ..step_model.bound import MOSTLY
from ..story.blocks import Bar, Bars, Fact, Headline, Listing
from ..story.tables import Column, Row, Table

_OF_A_SUMMARY: Final = re.compile(r"(?<=_ns)\.(median|p10|p90)$")
TOLD: Final = 5  # warnings, and reasons for what is withheld, without --verbose
SMALL_CAUSE: Final = 0.01  # of the idle time: causes below share one line


def headline(verdict: VerdictDoc, subject: str | None = None) -> Headline:
    """The verdict as a sentence."""
    name = verdict.verdict_class
    if name == "insufficient":
        return Headline(f"{subject + ': ' if subject else ''}NO VERDICT: {verdict.reason}", None)
    edge = " (on the edge)" if verdict.on_the_edge and "on the edge" not in verdict.reason else ""
    opening = f"{subject} is {name.upper()}" if subject else name.upper()
    return Headline(f"{opening}{edge}: {verdict.reason}", name == "gpu-bound")


def actions(
    proposed: Sequence[ActionDoc], step_ns: float | None, speedups: Mapping[str, float | None] | None = None
) -> Iterator[Listing]:
    """What to do next, numbered, each marked as measured or predicted; a mode's own speedup is the one to tell."""
    rows = []
    for order, action in enumerate(proposed, 1):
        after = action.step_ns
        left = "" if after is None else f"→ {duration(after)}"
        paired = (speedups or {}).get(action.mode or "")
        gain = "" if after is None or step_ns is None or after <= 0 else units.times(paired or step_ns / after)
        told = "; ".join(text for text in (saving(action), action.detail, *reasons(action)) if text)
        rows.append(Row([str(order), action.what, left, gain, basis(action), told]))
    if rows:
        columns = [
            Column("", right=False),
            Column("what to do next", right=False, least=22, wraps=True),
            Column("leaves"),
            Column("speedup"),
            Column("basis", right=False),
            Column("saves", right=False, least=20, wraps=True),
        ]
        yield Listing(Table(columns, rows, headless=True).without_empty_columns(""))


def basis(action: ActionDoc) -> str:
    """Measured or predicted; nothing where nobody told the gain."""
    open_ended = action.saves_ns is None and action.step_ns is None
    return "" if open_ended and (action.basis == "measured" or not saving(action)) else action.basis


def reasons(action: ActionDoc) -> Iterator[str]:
    """The evidence of what is predicted, and how to try it: measured ways have been tried."""
    if action.basis == "predicted":
        if action.evidence:
            yield action.evidence
        if action.how:
            yield f"try {action.how}"


def saving(action: ActionDoc) -> str:
    """What it saves, with its range."""
    low, high = duration(action.low_ns), duration(action.high_ns)
    known_range = MISSING not in (low, high) and low != high  # equal: closer than what is told of them
    start = f"{low} to" if action.low_ns else "at most"
    span = f"{start} {high}" if known_range else ""
    if action.saves_ns is None:
        return f"{span} to gain" if span else ""
    saves = f"saves {duration(action.saves_ns)} ({share(action.share)})"
    return f"{saves}, {span}" if span and action.basis != "measured" else saves


def warnings(found: Sequence[WarningDoc], *, verbose: bool) -> Iterator[Fact]:
    """Warnings in full; without ``verbose`` the first few."""
    told = found if verbose else found[:TOLD]
    texts = [f"{warning.message} [{warning.code}]" for warning in told]
    if len(found) > len(told):
        texts.append(f"… {plural(len(found) - len(told), 'more warning')}")
    if texts:
        yield Fact("warnings", texts, concern=True)


def withheld(reasons: dict[str, str], *, verbose: bool) -> Iterator[Fact]:
    """The figures that the data can't support; those that share a reason are told together, a summary as one."""
    paths: dict[str, dict[str, None]] = {}
    for path, reason in reasons.items():
        paths.setdefault(reason, {})[_OF_A_SUMMARY.sub("", path)] = None
    texts = [f"{', '.join(names)}: {reason}" for reason, names in paths.items()]
    told = texts if verbose else texts[:TOLD]
    if len(told) < len(texts):
        told = [*told, f"… {len(texts) - len(told)} more"]
    if told:
        yield Fact("withheld", told, concern=True)


def bound_line(bound: BoundDoc, measured: str) -> str:
    """max(W, N·τ) with its numbers, the serial form and what was measured."""
    work = duration(bound.gpu_work_ns)
    if bound.tau_ns is None:
        return f"max(W, N·τ): W = {work}, τ is not known · {measured} {duration(bound.step_ns)}"
    terms = f"max({work}, {number(bound.launches)} × {duration(bound.tau_ns)})"
    text = f"max(W, N·τ) = {terms} = {duration(bound.bound_ns)} · serial W + N·τ = {duration(bound.serial_ns)}"
    return f"{text} · {measured} {duration(bound.step_ns)}"


def headline_gaps(trace: TraceDoc) -> tuple[GapsDoc, str] | None:
    """The gaps of the headline device with their scope: ``steady`` where there is one, else ``whole``."""
    for device in trace.devices:
        if device.device == trace.headline_device:
            return (device.gaps, "whole file") if device.steady is None else (device.steady.gaps, "steady")
    return None


def idle(trace: TraceDoc, label: str, *, verbose: bool) -> Iterator[Bars | Fact | Listing]:
    """Idle time by cause, then the same time as taxes."""
    found = headline_gaps(trace)
    if found is None:
        return
    gaps, scope = found
    scope += "" if trace.trace_pass is None else f", {trace.trace_pass} pass"
    scope += "" if trace.repeat is None else f", repeat {trace.repeat}"
    causes = sorted(
        ((cause, gaps.by_cause[cause]) for cause in CAUSES if cause in gaps.by_cause), key=lambda item: -item[1].ns
    )
    if not gaps.total_ns or not causes:
        yield Fact(label, [f"none: no gap between GPU ops ({scope})"])
        return
    shown = [item for item in causes if verbose or item[1].ns >= SMALL_CAUSE * gaps.total_ns]
    bars = [
        Bar(name, doc.ns / gaps.total_ns, f"{duration(doc.ns)} in {plural(doc.count, 'gap')}") for name, doc in shown
    ]
    hidden = [f"{name} {duration(doc.ns)}" for name, doc in causes[len(shown) :]]
    total = f"{duration(gaps.total_ns)} in {plural(gaps.count, 'gap')}{_steps_told(trace, gaps)}, {scope}"
    yield Bars(
        label, bars, " · ".join([total, *([f"under {share(SMALL_CAUSE)} each: {', '.join(hidden)}"] if hidden else [])])
    )
    own = gaps.by_cause["launch"].before_replay_ns if "launch" in gaps.by_cause else 0
    if trace.trace_pass is not None and own:
        words = "of the launch time stand before graph replays: mostly the profiler's own cost, which T does not hold"
        yield Fact("", [f"{duration(own)} {words}"])
    taxes = [(tax, gaps.taxes_ns.get(tax, 0)) for tax in TAXES]
    told = [f"{tax.replace('_', ' ')} {share(ns / gaps.total_ns)} ({duration(ns)})" for tax, ns in taxes if ns]
    yield Fact("as taxes", [" · ".join(told)])
    if verbose:
        yield Listing(_cause_table(gaps))


def _steps_told(trace: TraceDoc, gaps: GapsDoc) -> str:
    """The steps that steady gaps lie in: those with a successor."""
    periods = None if trace.steps is None else trace.steps.period_ns
    steady = any(device.steady is not None and device.steady.gaps is gaps for device in trace.devices)
    return f" of {plural(periods.count, 'step')}" if steady and periods is not None else ""


def _cause_table(gaps: GapsDoc) -> Table:
    rows = []
    for cause in CAUSES:
        doc = gaps.by_cause.get(cause)
        if doc is not None:
            axes = [duration(doc.boundary_ns), duration(doc.after_sync_ns), duration(doc.stall_ns)]
            rows.append(Row([cause, number(doc.count), duration(doc.ns), share(doc.ns / gaps.total_ns), *axes]))
    columns = [Column("idle by cause", right=False), Column("gaps"), Column("time"), Column("share")]
    return Table([*columns, Column("between steps"), Column("after a sync"), Column("in stalls")], rows)


def short_kernels(trace: TraceDoc) -> Iterator[Fact]:
    """How many kernels are too short to hide a launch; in a graph none needs one of its own."""
    short, texts = trace.short_kernels, []
    replayed = (trace.graphs.coverage_by_count or 0.0) >= MOSTLY
    if short.below_10us is not None:
        texts.append(f"{_by(short.below_10us)} run under 10 µs")
    if short.below_tau is not None and not replayed:
        source = "" if short.tau_source is None else f", {short.tau_source.replace('tau_step', 'host time per launch')}"
        texts.append(f"{_by(short.below_tau)} are shorter than τ = {duration(short.tau_ns)}{source}")
    if texts:
        yield Fact("kernels", [" · ".join(texts)])


def _by(part: ShortShareDoc) -> str:
    return f"{share(part.by_count)} ({share(part.by_time)} of their time)"


def kernels(rows: Sequence[KernelDoc], title: str, limit: int | None) -> Iterator[Listing]:
    """The kernels that took the most time, by name; per step where there are steps, as the GPU work is."""
    ranked = sorted(rows, key=lambda kernel: -kernel.total_ns)
    told = ranked[:limit]
    names = short_names(kernel.name for kernel in ranked)
    by_step = all(kernel.ns_per_step is not None and kernel.count_per_step is not None for kernel in told)
    table = [
        Row(
            [
                names[kernel.name] or "(no name)",
                number(kernel.count_per_step if by_step else kernel.count),
                duration(kernel.ns_per_step if by_step else kernel.total_ns),
                duration(kernel.median_ns),
                duration(kernel.p90_ns),
                share(kernel.share_of_busy),
                _operator(kernel),
            ]
        )
        for kernel in told
    ]
    if table:
        inferred = any(kernel.operator and kernel.operator_inferred for kernel in told)
        operator = "operator\n* inferred" if inferred else "operator"
        columns = [
            Column(title, right=False, least=30, foreign=True),
            Column("count\nper step" if by_step else "count"),
            Column("time\nper step" if by_step else "total"),
            Column("median", rank=1),
            Column("p90", optional=True),
            Column("of\nbusy"),
            Column(operator, right=False, rank=2, least=16, foreign=True),
        ]
        yield Listing(Table(columns, table, more=len(ranked) - len(told)).without_empty_columns(MISSING))


def _operator(kernel: KernelDoc) -> str:
    name = kernel.operator or MISSING
    return f"{name}*" if kernel.operator and kernel.operator_inferred else name
