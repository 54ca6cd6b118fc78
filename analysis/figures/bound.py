"""The bound of a step, max(W, N·τ), as profiled, beside what was recorded."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ..facts.context import Context
from ..facts.trace_times import TraceTimes
from ..faults.checks import voided
from ..model import units
from ..model.document import BoundDoc, TraceDoc
from ..model.trace import Void
from ..model.units import duration, number
from ..step_model import bound_ns, serial_ns
from ..story import Fact
from .figure import Figure, Withheld
from .observer import KERNEL_STRETCH_NS


def _compute(context: Context) -> BoundDoc | Withheld:
    if context.times is None:
        return Withheld("no GPU op in the file")
    if context.times.host_ns is None:
        return Withheld("no launch in the file, so the host's time is not known")
    if (void := voided(context, Void.WORK)) is not None:
        return Withheld(void)
    found = trace_bound(context.times)
    if context.trace.whole_replays.any():
        notes = "; ".join(["W is at most this: graph replays were recorded as a whole", *filter(None, [found.note])])
        return msgspec.structs.replace(found, note=notes)
    return found


def trace_bound(times: TraceTimes) -> BoundDoc:
    """The closed-form model with the trace's own τ; W is without waiting where other ranks tell it."""
    tau = None if times.host_ns is None else times.host_ns / times.launches
    work = times.without_waiting_ns
    return BoundDoc(
        basis="trace",
        gpu_work_ns=work,
        launches=times.launches,
        tau_ns=tau,
        bound_ns=None if tau is None else bound_ns(work, times.launches, tau),
        serial_ns=None if tau is None else serial_ns(work, times.launches, tau),
        step_ns=times.step_ns,
        host_submit_ns=times.host_ns,
        host_submit_source=None if times.host_ns is None else "as profiled",
        note=_bound_note(times),
    )


def _bound_note(times: TraceTimes) -> str | None:
    """What W is where there are collectives; None below what can be resolved."""
    resolved, parts = times.gpu_ops * KERNEL_STRETCH_NS, times.parts
    notes = []
    if parts.waiting_ns > resolved:
        notes.append(f"W is without what it waits inside collectives, {units.duration(parts.waiting_ns)} of T")
    if parts.transfer_ns > resolved:
        notes.append(f"W holds {units.duration(parts.transfer_ns)} that collectives transfer beside nothing else")
    unsplit = times.without_waiting_ns - parts.working_ns - parts.transfer_ns
    if unsplit > resolved:
        notes.append(f"W holds {units.duration(unsplit)} inside collectives, waiting for other ranks included")
    return "; ".join(notes) or None


def bound_line(bound: BoundDoc, measured: str) -> str:
    """max(W, N·τ) with its numbers, the serial form and what was measured."""
    work = duration(bound.gpu_work_ns)
    if bound.tau_ns is None:
        return f"max(W, N·τ): W = {work}, τ is not known · {measured} {duration(bound.step_ns)}"
    terms = f"max({work}, {number(bound.launches)} × {duration(bound.tau_ns)})"
    text = f"max(W, N·τ) = {terms} = {duration(bound.bound_ns)} · serial W + N·τ = {duration(bound.serial_ns)}"
    return f"{text} · {measured} {duration(bound.step_ns)}"


def _facts(trace: TraceDoc, verbose: bool) -> Iterator[Fact]:
    del verbose
    bound = trace.bound
    if bound is None:
        return
    span = "window" if trace.steps is None else "step"
    lines = [bound_line(bound, span)]
    if bound.host_submit_ns is not None:
        lines.append(f"host submits the {span} in {duration(bound.host_submit_ns)} ({bound.host_submit_source})")
    yield Fact("as profiled", [*lines, *([bound.note] if bound.note else [])])


BOUND: Final = Figure(
    "bound", "max(GPU work, launches × τ), as profiled", BoundDoc, _compute, facts=_facts, across_ranks=True
)
