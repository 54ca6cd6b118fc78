"""Busy and idle of each GPU, and the idle time by cause and as taxes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..facts.context import Context
from ..faults.checks import voided
from ..model.document import CAUSES, TAXES, DeviceDoc, GapsDoc, SteadyDoc, TraceDoc
from ..model.trace import Void
from ..model.units import MISSING, duration, number, plural, share
from ..story import Bar, Bars, Column, Fact, Listing, Row, Table
from .figure import Figure, known
from .steps import no_steps

SMALL_CAUSE: Final = 0.01  # of the idle time: causes below share one line
ALONE: Final = "no kept step is followed by another step on this device"
OVERLAP: Final = 0.01  # of busy, from which op_sum is shown beside it (docs/metrics.md)


def _compute(context: Context) -> list[DeviceDoc]:
    return [_device(context, device) for device in context.trace.devices]


def _device(context: Context, device: int) -> DeviceDoc:
    whole, steady, void = context.gaps[device], context.steady[device], voided(context, Void.WORK)
    return DeviceDoc(
        device=device,
        name=context.trace.device_names.get(device),
        window_ns=whole.window_ns,
        busy_ns=known(None if void else whole.busy_ns, void),
        idle_ns=known(None if void else whole.idle_ns, void),
        op_sum_ns=whole.op_sum_ns,
        idle_fraction=known(None if void else whole.idle_fraction, void),
        gaps=known(None if void else whole.to_doc(), void),
        steady=known(
            None
            if void or steady is None
            else SteadyDoc(
                window_ns=steady.window_ns,
                busy_ns=steady.busy_ns,
                idle_ns=steady.idle_ns,
                idle_fraction=steady.idle_fraction,
                gaps=steady.to_doc(),
            ),
            void or no_steps(context) or ALONE,
        ),
    )


def headline_gaps(trace: TraceDoc) -> tuple[GapsDoc, str] | None:
    """The gaps of the headline device with their scope: ``steady`` where there is one, else ``whole``; None if void."""
    for device in trace.devices:
        if device.device == trace.headline_device and device.gaps is not None:
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
    before_replays_ns = gaps.by_cause["launch"].before_replay_ns if "launch" in gaps.by_cause else 0
    if trace.trace_pass is not None and before_replays_ns:
        words = "of the launch time stand before graph replays: mostly the profiler's own cost, which T does not hold"
        yield Fact("", [f"{duration(before_replays_ns)} {words}"])
    taxes = [(tax, gaps.taxes_ns.get(tax, 0)) for tax in TAXES]
    parts = [f"{tax.replace('_', ' ')} {share(ns / gaps.total_ns)} ({duration(ns)})" for tax, ns in taxes if ns]
    yield Fact("as taxes", [" · ".join(parts)])
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


def _devices(trace: TraceDoc) -> Iterator[Listing]:
    several = len(trace.devices) > 1
    rows = []
    for device in trace.devices:
        chosen = several and device.device == trace.headline_device
        overlap = device.busy_ns is not None and device.op_sum_ns - device.busy_ns > OVERLAP * device.busy_ns
        op_sum = duration(device.op_sum_ns) if overlap else MISSING
        rows.append(_scope_row(f"device {device.device}{' *' if chosen else ''}", "whole", device, op_sum))
        if device.steady is not None:
            rows.append(_scope_row("", "steady", device.steady, MISSING))
    if rows:
        columns = [Column("GPU", right=False), Column("scope", right=False), Column("window"), Column("busy")]
        columns += [Column("idle"), Column("of window"), Column("gaps"), Column("sum of ops", rank=1)]
        notes = ["* what the verdict, the steps and the idle time speak of"] if several else []
        yield Listing(Table(columns, rows).without_empty_columns(MISSING), notes)


def _scope_row(name: str, scope: str, figures: DeviceDoc | SteadyDoc, op_sum: str) -> Row:
    times = [duration(ns) for ns in (figures.window_ns, figures.busy_ns, figures.idle_ns)]
    gaps = MISSING if figures.gaps is None else number(figures.gaps.count)
    return Row([name, scope, *times, share(figures.idle_fraction), gaps, op_sum])


DEVICES: Final = Figure(
    "devices",
    "busy and idle of each GPU, idle time by cause and as taxes",
    list[DeviceDoc],
    _compute,
    lambda trace, verbose: idle(trace, "idle", verbose=verbose),
    lambda trace, verbose: _devices(trace),
)
