"""The bound and the verdict of a bare trace: all times as profiled (docs/metrics.md, "Verdict")."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from . import units
from .bound import bound_ns, serial_ns
from .document import BoundDoc, VerdictDoc
from .gaps import Gaps
from .host_submit import host_submit_ns
from .observer import KERNEL_STRETCH_NS
from .steps import Steps, periods_ns, step_busy_ns
from .trace import Ints, Trace
from .verdict import StepFacts, verdict


@dataclass(frozen=True)
class TraceTimes:
    """What one step of a trace took on the headline device; the whole window where there are no steps."""

    has_steps: bool
    step_ns: float  # T: median period, or the one step's window, or the whole window
    work_ns: float  # W
    gpu_ops: float
    launches: float  # N
    graph_launches: float
    host_ns: float | None  # N·τ; None without launches
    taxes_ns: dict[str, float] | None  # of T − W; None where the trace has no idle time
    exposed_ns: float  # of W: inside collectives, beside no other GPU op
    before_replay_ns: float  # part of the launch tax, stalls left out, before graph replays


@dataclass(frozen=True)
class StepWaits:
    """What the other ranks' traces tell of one step of a trace, ns."""

    waiting_ns: float  # exposed, inside collectives
    unsplit_ns: float  # exposed, inside collectives of which waiting and transfer can't be told apart
    waits_for: int | None = None  # the rank for which most of that waiting is


def trace_times(trace: Trace, steps: Steps, whole: Gaps, steady: Gaps | None, exposed_ns: float = 0.0) -> TraceTimes:
    """T, W, N and N·τ of the headline device, whose gaps these are; ``exposed_ns`` is its exposed communication."""
    kept = steps.kept_rows
    launches = steps.launch_step
    if len(kept):
        periods = periods_ns(trace, steps, whole.device)
        step = float(np.median(periods if len(periods) else _windows_ns(trace, steps, whole.device)))
        work = float(np.median(step_busy_ns(trace, steps, whole.device)))
        counts = [
            float(np.median(steps.count_kept(rows)))
            for rows in (steps.op_step, launches, launches[trace.launches.is_graph])
        ]
    else:
        launches, kept = np.zeros(len(trace.launches), dtype=np.int64), np.zeros(1, dtype=np.int64)
        step, work = float(whole.window_ns), float(whole.busy_ns)
        counts = [float(n) for n in (len(trace.gpu_ops), len(trace.launches), trace.launches.is_graph.sum())]
    host = host_submit_ns(trace, launches, kept)
    return TraceTimes(
        has_steps=len(steps.kept_rows) > 0,
        step_ns=step,
        work_ns=work,
        gpu_ops=counts[0],
        launches=counts[1],
        graph_launches=counts[2],
        host_ns=float(np.median(host)) if counts[1] else None,
        taxes_ns=_scaled(steady or whole, step - work),
        exposed_ns=min(exposed_ns, work),
        before_replay_ns=_before_replay_ns(steady or whole, step - work),
    )


def _windows_ns(trace: Trace, steps: Steps, device: int) -> Ints:
    """First GPU op start → last GPU op end of each kept step."""
    ops, found = trace.gpu_ops, []
    for step in steps.kept_rows:
        rows = np.flatnonzero((steps.op_step == step) & (ops.device == device))
        found.append(int(ops.end_ns[rows].max() - ops.start_ns[rows].min()) if len(rows) else 0)
    return np.asarray(found, dtype=np.int64)


def _scaled(gaps: Gaps, exposed_ns: float) -> dict[str, float] | None:
    """T − W by the taxes' shares of the idle time."""
    if gaps.idle_ns <= 0:
        return None
    return {tax: ns / gaps.idle_ns * max(exposed_ns, 0.0) for tax, ns in gaps.taxes_ns().items()}


def _before_replay_ns(gaps: Gaps, exposed_ns: float) -> float:
    """The part of T − W inside launch calls of graph replays, by its share of the idle time."""
    if gaps.idle_ns <= 0:
        return 0.0
    launching = gaps.parts_ns["launch"] - gaps.stall_launch_ns
    return int(launching[gaps.observer].sum()) / gaps.idle_ns * max(exposed_ns, 0.0)


def trace_bound(times: TraceTimes, waits: StepWaits | None = None) -> BoundDoc:
    """The closed-form model with the trace's own τ; W is without waiting where ``waits`` tells it."""
    tau = None if times.host_ns is None else times.host_ns / times.launches
    work = times.work_ns if waits is None else times.work_ns - waits.waiting_ns
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
        note=_bound_note(times, waits),
    )


def _bound_note(times: TraceTimes, waits: StepWaits | None) -> str | None:
    """What W is where there are collectives; None below what can be resolved."""
    resolved = times.gpu_ops * KERNEL_STRETCH_NS
    unsplit = times.exposed_ns if waits is None else waits.unsplit_ns
    told = []
    if waits is not None and waits.waiting_ns > resolved:
        told.append(f"W is without the {units.duration(waits.waiting_ns)} that it waits inside collectives")
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
    waits: StepWaits | None = None,
) -> VerdictDoc:
    """The verdict on the basis of the trace alone, and of ``waits``, what other ranks tell; ``times`` is None without
    a GPU op.

    In our own captures the launch calls of graph replays are mostly the profiler's cost. ``node_gap_ns`` is ν of the
    machine that recorded the trace, where it is known.
    """
    if times is None:
        return verdict(StepFacts("trace", None, None, 0, 0, None, None, unreliable=tuple(unreliable)))
    return verdict(
        StepFacts(
            basis="trace",
            step_ns=times.step_ns,
            gpu_work_ns=times.work_ns,
            gpu_ops=times.gpu_ops,
            launches=times.launches,
            tau_ns=None if times.host_ns is None else times.host_ns / times.launches,
            taxes_ns=times.taxes_ns,
            work_uncertainty_ns=times.gpu_ops * KERNEL_STRETCH_NS,
            waiting_ns=0.0 if waits is None else waits.waiting_ns,
            unsplit_ns=times.exposed_ns if waits is None else waits.unsplit_ns,
            waits_for=None if waits is None else waits.waits_for,
            alone=waits is None,
            observer_ns=times.before_replay_ns if own_capture else 0.0,
            node_gap_ns=node_gap_ns,
            graph_launches=times.graph_launches,
            has_steps=times.has_steps,
            unreliable=tuple(unreliable),
            blocking=tuple(blocking),
        )
    )
