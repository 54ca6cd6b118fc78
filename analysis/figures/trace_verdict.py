"""The bound and the verdict of a bare trace: all times as profiled (docs/metrics.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Sequence

from ..facts.trace_times import TraceTimes
from ..model import units
from ..model.document import BoundDoc, VerdictDoc
from ..step_model.bound import bound_ns, serial_ns
from .observer import KERNEL_STRETCH_NS
from .verdict import StepFacts, verdict


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
    told = []
    if parts.waiting_ns > resolved:
        told.append(f"W is without what it waits inside collectives, {units.duration(parts.waiting_ns)} of T")
    unsplit = times.without_waiting_ns - parts.working_ns
    if unsplit > resolved:
        told.append(f"W holds {units.duration(unsplit)} inside collectives, waiting for other ranks included")
    return "; ".join(told) or None


def trace_verdict(
    times: TraceTimes | None,
    unreliable: Sequence[str],
    blocking: Sequence[str],
    *,
    own_capture: bool = False,
    node_gap_ns: float | None = None,
    alone: bool = True,
    waits_for: int | None = None,
) -> VerdictDoc:
    """The verdict on the basis of the trace alone, or of what other ranks tell as well; ``times`` is None without a
    GPU op.

    ``waits_for`` is the rank for which most of its waiting is. In our own captures the launch calls of graph replays
    are mostly the profiler's cost. ``node_gap_ns`` is ν of the machine that recorded the trace, where it is known.
    """
    if times is None:
        return verdict(StepFacts("trace", None, None, 0, 0, None, None, unreliable=tuple(unreliable)))
    parts = times.parts
    return verdict(
        StepFacts(
            basis="trace",
            step_ns=times.step_ns,
            gpu_work_ns=parts.working_ns + parts.waiting_ns + parts.unsplit_ns,
            gpu_ops=times.gpu_ops,
            launches=times.launches,
            tau_ns=None if times.host_ns is None else times.host_ns / times.launches,
            taxes_ns=times.taxes_ns,
            work_uncertainty_ns=times.gpu_ops * KERNEL_STRETCH_NS,
            waiting_ns=parts.waiting_ns,
            unsplit_ns=parts.unsplit_ns,
            waits_for=waits_for,
            alone=alone,
            observer_ns=times.before_replay_ns if own_capture else 0.0,
            node_gap_ns=node_gap_ns,
            graph_launches=times.graph_launches,
            has_steps=times.has_steps,
            unreliable=tuple(unreliable),
            blocking=tuple(blocking),
        )
    )
