"""T, W, N and N·τ of a bare trace, and T in parts: all times as profiled.

The definitions are in docs/metrics.md, "Several ranks" and "Verdict".
"""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..model.columns import Intervals, follow, named, threads
from ..model.document import QueueDepthDoc, StepsDoc
from ..model.statistics import summarize
from ..model.trace import NONE, Bools, Ints, OpKind, Reals, Trace
from ..model.units import brief
from .collectives import Collectives
from .gaps import Gaps
from .steps import Steps

APART: Final = 0.1
"""Of the window: idle time that differs by more from what T and W leave contradicts them."""

QUEUE_FULL: Final = 1_000  # launches; the driver blocks the host at about 1,024 (NVIDIA H200, CUDA 13.0)


@dataclass(frozen=True)
class StepParts:
    """What T is made of, adding up to it; waiting and what is not told apart are exposed, inside collectives."""

    working_ns: float  # surely work
    waiting_ns: float = 0.0  # for ranks that arrive later
    transfer_ns: float = 0.0
    unsplit_ns: float = 0.0  # of which waiting and transfer can't be told apart
    idle_ns: float = 0.0


@dataclass(frozen=True)
class TraceTimes:
    """What one step of a trace took on the headline device; the whole window where there are no steps."""

    has_steps: bool
    of_means: bool  # T, W, N and N·τ are means over steps that differ much, or are of several kinds; else medians
    clock_ns: int  # what the file's times are rounded to; 0 where they are told to the ns
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

    def contradicts(self, steady: Gaps | None) -> bool:
        """Whether they can't be of one step: W or N·τ above T, or the window idle by far more or less than T and W say.

        Medians of steps that differ much are.
        """
        if steady is None or not self.step_ns:
            return False
        idle = 1 - self.work_ns / self.step_ns
        longest = max(self.work_ns, self.host_ns or 0.0)
        return longest > self.step_ns + self.clock_ns + 1 or abs(idle - steady.idle_fraction) > APART

    @property
    def before_replay_ns(self) -> float:
        """Part of the launch tax, stalls left out, before graph replays."""
        return self.before_replay_share * self.parts.idle_ns


def trace_times(
    trace: Trace,
    steps: Steps,
    whole: Gaps,
    steady: Gaps | None,
    busy: Reals,
    periods_ns: Ints,
    collectives: Collectives,
    *,
    of_means: bool,
) -> TraceTimes:
    """T, W, N and N·τ of the headline device, whose gaps, periods [steps] and collectives these are.

    ``busy`` is its work in each kept step, or in the whole window. ``of_means``: steps are of several kinds.
    """
    kept, launches = steps.kept_rows, steps.launch_step
    if len(kept):
        has_period = periods_ns[kept] != NONE
        # without any period each step from its first op's start to its last op's end
        spans = periods_ns[kept[has_period]] if has_period.any() else _lengths_ns(trace, steps, whole.device)
        has_period |= not has_period.any()
        idle = float((spans - busy).mean()) if steady is None else steady.idle_ns / len(spans)
        rows_of = (steps.op_step, launches, launches[trace.launches.is_graph])
        counts = [_middle(steps.count_kept(rows), has_period, of_means=of_means) for rows in rows_of]
    else:
        spans, has_period, idle = np.array([whole.window_ns]), np.ones(1, np.bool_), float(whole.idle_ns)
        launches, kept = np.zeros(len(trace.launches), dtype=np.int64), np.zeros(1, dtype=np.int64)
        counts = [float(n) for n in (len(trace.gpu_ops), len(trace.launches), trace.launches.is_graph.sum())]
    work, gaps = _middle(busy, has_period, of_means=of_means), steady or whole
    exposed = collectives.exposed_ns.astype(np.float64) if len(collectives) else np.zeros(len(busy))
    before_replay = gaps.parts_ns["launch"] - gaps.stall_launch_ns
    times = TraceTimes(
        has_steps=len(steps.kept_rows) > 0,
        clock_ns=trace.clock_ns,
        of_means=of_means,
        step_ns=_middle(spans, np.ones(len(spans), np.bool_), of_means=of_means),
        work_ns=work,
        without_waiting_ns=work,
        gpu_ops=counts[0],
        launches=counts[1],
        graph_launches=counts[2],
        host_ns=_middle(host_submit_ns(trace, launches, kept), has_period, of_means=of_means) if counts[1] else None,
        exposed_ns=min(_middle(exposed, has_period, of_means=of_means), work),
        with_period=tuple(has_period.tolist()),
        idle_ns=idle,
        tax_shares={tax: ns / gaps.idle_ns for tax, ns in gaps.taxes_ns().items()} if gaps.idle_ns else None,
        before_replay_share=int(before_replay[gaps.observer].sum()) / gaps.idle_ns if gaps.idle_ns else 0.0,
        parts=StepParts(work),
    )
    none = np.zeros(len(busy))
    return replace(times, parts=step_parts(times, busy, none, none, exposed, exposed == 0))


def _middle(values: Reals | Ints, with_period: Bools, *, of_means: bool) -> float:
    """The median; the mean over the steps that have a period where steps are of several kinds."""
    return float(values[with_period[: len(values)]].mean() if of_means else np.median(values))


def within_its_time(busy: Reals, periods: Reals, steady: Gaps | None) -> Reals:
    """Work of each step where steps overlap on the GPU: as much less as all of them together have too much.

    The union of a step's own ops may then be longer than the step takes; that of all ops in the window is not.
    """
    if steady is None or not len(periods) or np.median(busy) <= np.median(periods):
        return busy
    inside = min(steady.busy_ns / len(periods), float(np.median(periods)))
    return busy * (inside / float(np.median(busy)))


def _lengths_ns(trace: Trace, steps: Steps, device: int) -> Ints:
    """[kept steps] first start to last end of each step's ops on the device; 0 without one."""
    ops, lengths = trace.gpu_ops, []
    for step in steps.kept_rows:
        rows = np.flatnonzero((steps.op_step == step) & (ops.device == device))
        lengths.append(ops.end_ns[rows].max() - ops.start_ns[rows].min() if len(rows) else 0)
    return np.array(lengths, np.int64)


def steps_doc(trace: Trace, steps: Steps, device: int, busy: Reals, periods: Reals) -> StepsDoc:
    """Figures per kept step of one device, of which there is at least one."""
    ops, launches = trace.gpu_ops, trace.launches
    on_device = np.where(ops.device == device, steps.op_step, NONE)
    linked = ops.is_kernel & (ops.launch_row != NONE)
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
        kernels_in_graphs=summarize(steps.count_kept(on_device[ops.is_kernel & trace.in_graph()])),
        kernels_with_launch=summarize(steps.count_kept(on_device[linked])),
    )


def step_parts(
    times: TraceTimes, busy_ns: Reals, waiting_ns: Reals, transfer_ns: Reals, unsplit_ns: Reals, split: Bools
) -> StepParts:
    """T − what is surely work, split as the sums over the steps with a period are: waiting, transfer, unsplit, idle.

    Columns are [s], of the kept steps or the first s of them; ``split``: waiting of all collectives is known. Not
    by medians: where ranks wait for each other in turn, the median step waits all of its time, or none of it. Of the
    steps that are split where they are most of them; else of all.
    """
    rows = split if 2 * split.sum() >= len(split) else np.ones(len(split), np.bool_)
    inside = (waiting_ns, transfer_ns, unsplit_ns)
    work_ns = busy_ns - waiting_ns - transfer_ns - unsplit_ns
    summed = rows & np.array(times.with_period[: len(rows)], np.bool_)
    summed = summed if summed.any() else rows
    working = float(work_ns[summed].mean() if times.of_means else np.median(work_ns[rows]))
    means = [float(each[summed].mean()) for each in inside]
    left, total = max(times.step_ns - working, 0.0), sum(means) + times.idle_ns
    if total <= 0:
        return StepParts(working, idle_ns=left)
    return StepParts(working, *(left * part / total for part in (*means, times.idle_ns)))


def submits_as_profiled(steps: StepsDoc, queue: QueueDepthDoc) -> bool:
    """True when the step waits for the GPU inside, or the launch queue fills: host_submit is then the trace's."""
    return bool(steps.blocking_calls.median) or (queue.max_launches or 0) >= QUEUE_FULL


def host_submit_ns(trace: Trace, launch_step: Ints, steps: Ints) -> Reals:
    """N·τ of each named step, 0 for one without launches; ``launch_step`` is the step index of each launch row.

    Per launching thread, from the start of the step's first launch to the end of its last, minus the time inside
    blocking calls; the step's is the largest over its threads.
    """
    launches, blocking = trace.launches, trace.blocking_calls
    result = np.zeros(len(steps), dtype=np.float64)
    row_of = np.full(max(launch_step.max(initial=NONE), steps.max(initial=NONE)) + 2, NONE, np.int64)
    row_of[steps] = np.arange(len(steps))
    row = row_of[launch_step]  # NONE: the last, of no step
    blocking_of = threads(blocking.process, blocking.thread)
    for thread, rows in threads(launches.process, launches.thread).items():
        rows = rows[row[rows] != NONE]
        if not len(rows):
            continue
        rows = rows[np.argsort(row[rows], kind="stable")]
        first = np.flatnonzero(np.diff(row[rows], prepend=NONE))
        start = np.minimum.reduceat(launches.start_ns[rows], first)
        end = np.maximum.reduceat(launches.end_ns[rows], first)
        calls = blocking_of.get(thread, rows[:0])
        blocked = Intervals.union(blocking.start_ns[calls], blocking.end_ns[calls])
        np.maximum.at(result, row[rows[first]], end - start - blocked.covered_ns(start, end))
    return result


def blocking_words(trace: Trace, steps: Steps) -> tuple[str, ...]:
    """Blocking calls inside kept steps as 'api in operator', those with the most time first."""
    calls = trace.blocking_calls
    operators = named(trace.names, follow(trace.host_ops.name, calls.operator_row))
    spent_ns: Counter[str] = Counter()
    for row in np.flatnonzero(np.isin(steps.blocking_step, steps.kept_rows)).tolist():
        api, operator = brief(trace.name(int(calls.api[row]))), operators[row]
        spent_ns[api if operator is None else f"{api} in {brief(operator)}"] += int(calls.dur_ns[row])
    return tuple(words for words, _ in spent_ns.most_common())


@dataclass(frozen=True, eq=False)
class Waits:
    """Transfer and waiting of one rank's n collectives; s of its steps."""

    transfer_ns: Ints  # [n] NONE where it can't be told
    waiting_ns: Ints  # [n] NONE where it can't be told
    step_transfer_ns: Reals  # [s] of the collectives of which it can be told
    step_waiting_ns: Reals  # [s]
    exposed_waiting_ns: Reals  # [s] the part of waiting beside which nothing ran: at least so much
    exposed_transfer_ns: Reals  # [s] the part of transfer beside which nothing ran: at most so much
    unsplit_ns: Reals  # [s] exposed time of the collectives of which it can't be told
    split: Bools  # [s] transfer and waiting are known of every collective

    @property
    def is_known(self) -> bool:
        """Of any collective at all."""
        return bool((self.transfer_ns != NONE).any())

    def with_waiting(self, times: TraceTimes, busy_ns: Reals) -> TraceTimes:
        """The trace's times with W without waiting, and T in parts; ``busy_ns`` [s] is the work in its steps."""
        rows = self.split if self.split.any() else np.ones(len(self.split), np.bool_)
        without = float(np.median((busy_ns - self.exposed_waiting_ns)[rows]))
        waiting_ns, transfer_ns = self.exposed_waiting_ns, self.exposed_transfer_ns
        parts = step_parts(times, busy_ns, waiting_ns, transfer_ns, self.unsplit_ns, self.split)
        return replace(times, without_waiting_ns=without, parts=parts)
