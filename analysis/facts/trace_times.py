"""T, W and N of a bare trace, and T in parts: all times as profiled (docs/metrics.md, "Several ranks", "Verdict")."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from ..model.document import StepsDoc
from ..model.statistics import summarize
from ..model.trace import NONE, Bools, Ints, OpKind, Trace
from .gaps import Gaps
from .host_submit import host_submit_ns
from .steps import Steps, has_period, periods_ns


@dataclass(frozen=True)
class StepParts:
    """What T is made of, adding up to it; waiting and what is not told apart are exposed, inside collectives."""

    working_ns: float  # surely work
    waiting_ns: float = 0.0  # for ranks that arrive later
    unsplit_ns: float = 0.0  # of which waiting and transfer can't be told apart
    idle_ns: float = 0.0


@dataclass(frozen=True)
class TraceTimes:
    """What one step of a trace took on the headline device; the whole window where there are no steps."""

    has_steps: bool
    step_ns: float  # T: median period, or the one step's window, or the whole window
    work_ns: float  # W, waiting inside collectives included
    without_waiting_ns: float  # W without waiting; W where no other rank tells it
    gpu_ops: float
    launches: float  # N
    graph_launches: float
    host_ns: float | None  # N·τ; None without launches
    exposed_ns: float  # of W: inside collectives, beside no other GPU op
    with_period: tuple[bool, ...]  # of each kept step: whether idle_ns holds it; of the one window without any
    idle_ns: float  # mean of those
    tax_shares: dict[str, float] | None  # of the idle time; None where the trace has none
    before_replay_share: float  # of the idle time: launch tax, stalls left out, before graph replays
    parts: StepParts

    @property
    def taxes_ns(self) -> dict[str, float] | None:
        """The idle part of T by the taxes' shares; None where the trace has no idle time."""
        if self.tax_shares is None:
            return None
        return {tax: share * self.parts.idle_ns for tax, share in self.tax_shares.items()}

    @property
    def before_replay_ns(self) -> float:
        """Part of the launch tax, stalls left out, before graph replays."""
        return self.before_replay_share * self.parts.idle_ns


@dataclass(frozen=True, eq=False)
class StepWaits:
    """What the other ranks' traces tell of the s kept steps of a trace, or of the first s of them."""

    busy_ns: NDArray[np.float64]  # [s]
    waiting_ns: NDArray[np.float64]  # [s] exposed, inside collectives
    unsplit_ns: NDArray[np.float64]  # [s] exposed, inside collectives of which waiting and transfer can't be told apart
    told: Bools  # [s] steps of which every collective was told


def trace_times(
    trace: Trace,
    steps: Steps,
    whole: Gaps,
    steady: Gaps | None,
    busy: NDArray[np.float64],
    first: Ints,
    exposed_ns: Ints | None = None,
) -> TraceTimes:
    """T, W, N and N·τ of the headline device, whose gaps these are.

    ``busy`` is its work in each kept step, or in the whole window; ``first`` are the starts of the steps' first ops on
    it; ``exposed_ns`` is its exposed communication by kept step, or of the whole window; None without a collective.
    """
    kept, launches = steps.kept_rows, steps.launch_step
    if len(kept):
        spans, period = _spans_ns(trace, steps, whole.device, first)
        idle = float((spans - busy).mean()) if steady is None else steady.idle_ns / len(spans)
        counts = [
            float(np.median(steps.count_kept(rows)))
            for rows in (steps.op_step, launches, launches[trace.launches.is_graph])
        ]
    else:
        spans = np.array([whole.window_ns], np.float64)
        period, idle = np.ones(1, np.bool_), float(whole.idle_ns)
        launches, kept = np.zeros(len(trace.launches), dtype=np.int64), np.zeros(1, dtype=np.int64)
        counts = [float(n) for n in (len(trace.gpu_ops), len(trace.launches), trace.launches.is_graph.sum())]
    work, gaps = float(np.median(busy)), steady or whole
    exposed = np.zeros(len(busy)) if exposed_ns is None else exposed_ns.astype(np.float64)
    times = TraceTimes(
        has_steps=len(steps.kept_rows) > 0,
        step_ns=float(np.median(spans)),
        work_ns=work,
        without_waiting_ns=work,
        gpu_ops=counts[0],
        launches=counts[1],
        graph_launches=counts[2],
        host_ns=float(np.median(host_submit_ns(trace, launches, kept))) if counts[1] else None,
        exposed_ns=min(float(np.median(exposed)), work),
        with_period=tuple(period.tolist()),
        idle_ns=idle,
        tax_shares=_shares(gaps),
        before_replay_share=_before_replay_share(gaps),
        parts=StepParts(work),
    )
    alone = StepWaits(busy, np.zeros(len(busy)), exposed, exposed == 0)
    return replace(times, parts=_parts(times, alone))


def with_waiting(times: TraceTimes, waits: StepWaits) -> TraceTimes:
    """The same with what the other ranks' traces tell: W without waiting, and T in parts."""
    rows = waits.told if waits.told.any() else np.ones(len(waits.told), np.bool_)
    without = float(np.median((waits.busy_ns - waits.waiting_ns)[rows]))
    return replace(times, without_waiting_ns=without, parts=_parts(times, waits))


def steps_doc(
    trace: Trace, steps: Steps, device: int, busy: NDArray[np.float64], periods: NDArray[np.float64]
) -> StepsDoc:
    """Figures per kept step of one device, of which there is at least one."""
    ops, launches = trace.gpu_ops, trace.launches
    on_device = np.where(ops.device == device, steps.op_step, NONE)
    linked = ops.is_kernel & (ops.launch_row != NONE)
    in_graph = linked.copy()
    in_graph[linked] = launches.is_graph[ops.launch_row[linked]]
    return StepsDoc(
        count=len(busy),
        period_ns=summarize(periods) if len(periods) else None,
        busy_ns=summarize(busy),
        kernels=summarize(steps.count_kept(on_device[ops.is_kernel])),
        launches=summarize(steps.count_kept(steps.launch_step)),
        graph_launches=summarize(steps.count_kept(steps.launch_step[launches.is_graph])),
        blocking_calls=summarize(steps.count_kept(steps.blocking_step)),
        memcpys=summarize(steps.count_kept(on_device[ops.kind == OpKind.MEMCPY])),
        gpu_ops=summarize(steps.count_kept(on_device)),
        kernels_in_graphs=summarize(steps.count_kept(on_device[in_graph])),
        kernels_with_launch=summarize(steps.count_kept(on_device[linked])),
    )


def _parts(times: TraceTimes, waits: StepWaits) -> StepParts:
    """T − what is surely work, split as the sums over the steps with a period are: waiting, unsplit, and idle time.

    Not by medians: where ranks wait for each other in turn, the median step waits all of its time, or none of it. Of
    steps that are all told where they are most of them; else of all, where what is not told is unsplit.
    """
    rows = waits.told if 2 * waits.told.sum() >= len(waits.told) else np.ones(len(waits.told), np.bool_)
    working = float(np.median((waits.busy_ns - waits.waiting_ns - waits.unsplit_ns)[rows]))
    summed = rows & np.array(times.with_period[: len(rows)], np.bool_)
    summed = summed if summed.any() else rows
    waiting, unsplit = float(waits.waiting_ns[summed].mean()), float(waits.unsplit_ns[summed].mean())
    left, total = max(times.step_ns - working, 0.0), waiting + unsplit + times.idle_ns
    if total <= 0:
        return StepParts(working, idle_ns=left)
    return StepParts(working, *(left * part / total for part in (waiting, unsplit, times.idle_ns)))


def _spans_ns(trace: Trace, steps: Steps, device: int, first: Ints) -> tuple[NDArray[np.float64], Bools]:
    """Periods of the kept steps, and which have one; where none has, first GPU op start → last GPU op end of each."""
    periods = periods_ns(first, steps)
    if len(periods):
        return periods, has_period(first, steps)[steps.kept_rows]
    ops, found = trace.gpu_ops, []
    for step in steps.kept_rows:
        rows = np.flatnonzero((steps.op_step == step) & (ops.device == device))
        found.append(float(ops.end_ns[rows].max() - ops.start_ns[rows].min()) if len(rows) else 0.0)
    return np.asarray(found, np.float64), np.ones(len(found), np.bool_)


def _shares(gaps: Gaps) -> dict[str, float] | None:
    """The taxes' shares of the idle time."""
    if gaps.idle_ns <= 0:
        return None
    return {tax: ns / gaps.idle_ns for tax, ns in gaps.taxes_ns().items()}


def _before_replay_share(gaps: Gaps) -> float:
    """Of the idle time, what is inside launch calls of graph replays."""
    if gaps.idle_ns <= 0:
        return 0.0
    launching = gaps.parts_ns["launch"] - gaps.stall_launch_ns
    return int(launching[gaps.observer].sum()) / gaps.idle_ns
