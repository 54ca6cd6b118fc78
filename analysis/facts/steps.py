"""Steps: which launch, GPU op and blocking call belongs to which decode step, and which steps count."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np

from ..model.columns import follow, numbered
from ..model.trace import NONE, Bools, Ints, Notice, Reals, Trace
from .lost_calls import LostCalls
from .phase_names import kind_of
from .replays import GraphReplays
from .step_sources import Evidence, StepRanges, locate_steps

NO_WORK: Final = "no GPU work in it"

CUT_OFF: Final = 0.9
"""The first or last step is cut off when it has less than this share of the fewest launches or ops of the others."""

WARM_UP_LAUNCHES: Final = 1.1
"""A leading step with this many times the launches of the others, which agree with one another, is a warm-up."""

WARM_UP_TIME: Final = 5.0
"""A leading step that takes the host this many times the median of the others is a warm-up (module loads, tuning)."""

COMPILING: Final = re.compile(r"dynamo_timed|\bcompile_inner\b|\bcompile_fx_inner\b|StreamBeginCapture")
"""Host records that are there only while a step is compiled or captured."""


@dataclass(frozen=True, eq=False)
class Steps:
    """The n steps of a trace by their host ranges, ascending; with source 'none' there are none."""

    source: str  # capture, profiler_step, annotation, repetition, none
    names: tuple[str, ...]
    start_ns: Ints  # [n] host range
    end_ns: Ints  # [n]
    kept: Bools  # [n]
    reasons: dict[int, str]  # why each dropped step was
    empty: Bools  # [n] neither launches nor GPU work, between steps that have some
    op_step: Ints  # step of each GPU op, NONE outside
    launch_step: Ints  # step of each launch, NONE outside
    blocking_step: Ints  # step of each blocking call of a thread that launches in it, NONE outside
    notices: tuple[Notice, ...]

    def __len__(self) -> int:
        return len(self.names)

    @property
    def found(self) -> int:
        """n."""
        return len(self.names)

    @property
    def dropped(self) -> int:
        """Steps that are not kept."""
        return len(self.reasons)

    @property
    def kept_rows(self) -> Ints:
        """Indices of the kept steps."""
        return np.flatnonzero(self.kept)

    def counted(self, step_of_rows: Ints) -> Ints:
        """[n] how many of the rows with these step indices lie in each step."""
        return np.bincount(step_of_rows[step_of_rows != NONE], minlength=len(self))

    def count_kept(self, step_of_rows: Ints) -> Ints:
        """The same of the kept steps alone."""
        return self.counted(step_of_rows)[self.kept_rows]


def find_steps(
    trace: Trace,
    replays: GraphReplays,
    lost: LostCalls,
    marks_ns: Sequence[tuple[int, int]],
    step_regex: str | None,
) -> Steps:
    """Steps by the first rule that works; ``marks_ns[0]`` is the sacrificed step. LaunchscopeError: a bad regex."""
    ranges = locate_steps(Evidence(trace, replays, marks_ns, step_regex))
    launch_step = _step_at(trace.launches.start_ns, ranges)
    op_step = _op_steps(trace, ranges, launch_step)
    reasons = _dropped(trace, ranges, replays, lost, launch_step, op_step)
    kept = np.ones(len(ranges.names), dtype=np.bool_)
    kept[list(reasons)] = False
    return Steps(
        source=ranges.source,
        names=ranges.names,
        start_ns=ranges.start_ns,
        end_ns=ranges.end_ns,
        kept=kept,
        reasons=dict(sorted(reasons.items())),
        empty=_empty(reasons, len(ranges.names)),
        op_step=op_step,
        launch_step=launch_step,
        blocking_step=_blocking_steps(trace, ranges, launch_step),
        notices=ranges.notices,
    )


def first_op_ns(trace: Trace, steps: Steps, device: int) -> Ints:
    """Start of each step's first GPU op on the device, NONE where it has none."""
    ops = trace.gpu_ops
    rows = np.flatnonzero((ops.device == device) & (steps.op_step != NONE))[::-1]
    first = np.full(len(steps), NONE, dtype=np.int64)
    first[steps.op_step[rows]] = ops.start_ns[rows]  # the last write is the earliest op's
    return first


def step_busy_ns(trace: Trace, steps: Steps, device: int) -> Reals:
    """Union of each kept step's own GPU ops on the device, whenever they ran; 0 for a step without one."""
    ops = trace.gpu_ops
    rows = np.flatnonzero((ops.device == device) & (steps.op_step != NONE))
    if (np.diff(steps.op_step[rows]) < 0).any():
        rows = rows[np.argsort(steps.op_step[rows], kind="stable")]  # by step, then by start
    busy = np.zeros(len(steps), dtype=np.int64)
    if len(rows):
        step, start, end = steps.op_step[rows], ops.start_ns[rows], ops.end_ns[rows]
        ends, rank = np.unique(end, return_inverse=True)
        # by rank, as a stray record may span decades: a later step's ends lie behind all of an earlier one's
        reach = np.maximum.accumulate(step * len(ends) + rank)
        reached = np.append(start[:1], ends[reach[:-1] - step[:-1] * len(ends)])
        del ends, rank, reach, rows
        is_first = np.append(True, step[1:] != step[:-1])
        np.add.at(busy, step, np.maximum(end - np.where(is_first, start, np.maximum(start, reached)), 0))
    return busy[steps.kept_rows].astype(np.float64)


def _step_at(times_ns: Ints, ranges: StepRanges) -> Ints:
    """The step whose host range [start, end) holds each time; NONE where none does."""
    if not len(ranges.names):
        return np.full(len(times_ns), NONE, dtype=np.int64)
    step = np.searchsorted(ranges.start_ns, times_ns, side="right") - 1
    inside = (step >= 0) & (times_ns < ranges.end_ns[np.maximum(step, 0)])
    return np.where(inside, step, NONE)


def _op_steps(trace: Trace, ranges: StepRanges, launch_step: Ints) -> Ints:
    """A GPU op's step is its launch's; without a launch the one in whose window on the device it starts."""
    ops = trace.gpu_ops
    result = np.full(len(ops), NONE, dtype=np.int64)
    linked = ops.launch_row != NONE
    result[linked] = launch_step[ops.launch_row[linked]]
    if not len(ranges.names):
        return result
    for device in trace.devices:
        on_device = ops.device == device
        rows = np.flatnonzero(on_device & ~linked)
        if len(rows):
            owned = np.flatnonzero(on_device & (result != NONE))
            windows = _device_windows(ranges, result[owned], ops.start_ns[owned], ops.end_ns[owned])
            result[rows] = _step_at(ops.start_ns[rows], windows)
    return result


def _blocking_steps(trace: Trace, ranges: StepRanges, launch_step: Ints) -> Ints:
    """The step of each blocking call; NONE for threads that launch nothing in it: the step does not wait for those."""
    calls, launches = trace.blocking_calls, trace.launches
    step = _step_at(calls.start_ns, ranges)
    of_launches = np.flatnonzero(launch_step != NONE)
    key = numbered(
        np.append(launches.process[of_launches], calls.process),
        np.append(launches.thread[of_launches], calls.thread),
        np.append(launch_step[of_launches], step),
    )
    launching = np.isin(key[len(of_launches) :], key[: len(of_launches)])
    return np.where(launching, step, NONE)


def _device_windows(ranges: StepRanges, step: Ints, op_start_ns: Ints, op_end_ns: Ints) -> StepRanges:
    """Each step from its first linked op to the next step's; the last to its last op's end; without ops its host range.

    Host ranges alone would give an op that waited in the queue to a later step.
    """
    start_ns, end_ns = ranges.start_ns.copy(), ranges.end_ns.copy()
    has_ops = np.zeros(len(start_ns), dtype=np.bool_)
    start_ns[step[::-1]] = op_start_ns[::-1]
    has_ops[step] = True
    np.maximum.at(end_ns, step, op_end_ns)
    start_ns = np.maximum.accumulate(start_ns)
    end_ns[:-1] = np.where(has_ops[:-1], start_ns[1:], np.minimum(end_ns[:-1], start_ns[1:]))
    return replace(ranges, start_ns=start_ns, end_ns=end_ns)


def _dropped(
    trace: Trace, ranges: StepRanges, replays: GraphReplays, lost: LostCalls, launch_step: Ints, op_step: Ints
) -> dict[int, str]:
    """Reasons of the steps that don't count: as the source says, empty, compiling, cut off, warming up, or with lost
    records."""
    count = len(ranges.names)
    reasons = dict(ranges.dropped)
    for step in np.flatnonzero(ranges.end_ns <= ranges.start_ns).tolist():
        reasons[step] = "never ended"
    kinds = [kind_of(name) for name in ranges.names]
    launches, ops = (np.bincount(s[s != NONE], minlength=count) for s in (launch_step, op_step))
    cut = op_step[follow(replays.cut, replays.op_replay, absent=False)]
    for step, reason in _lacking(trace, ranges, lost, cut, reasons).items():
        reasons.setdefault(step, reason)
    for step in np.flatnonzero((launches == 0) & (ops == 0)).tolist():
        reasons.setdefault(step, NO_WORK)
    for step in _compiling_steps(trace, ranges):
        reasons.setdefault(step, "compiles or captures")
    for edge, where in ((0, "start"), (-1, "end")):
        kept = [step for step in range(count) if step not in reasons]
        if len(kept) < 3:
            break
        step = kept[edge]
        others = [other for other in kept if other != step and kinds[other] == kinds[step]]
        if others and step == (0, count - 1)[edge] and any(_is_cut(n[step], n[others]) for n in (launches, ops)):
            reasons[step] = f"cut off by the {where} of the file: {launches[step]} launches, {ops[step]} GPU ops"
    return reasons | _warm_up_steps(ranges, launches, kinds, [step for step in range(count) if step not in reasons])


def _lacking(
    trace: Trace, ranges: StepRanges, lost: LostCalls, of_cut_replays: Ints, reasons: Mapping[int, str]
) -> dict[int, str]:
    """Why steps that lack GPU ops don't count; none where no other step would be left."""
    of_head, of_inside, of_tail = (
        _step_at(trace.host_ops.start_ns[rows], ranges) for rows in (lost.head, lost.inside, lost.tail)
    )
    found: dict[int, str] = {}
    for steps, why in (
        (of_cut_replays, "cut off by the edge of the recording: a graph replay in it is not whole"),
        (of_head, "cut off by the start of the recording: the GPU ops of its first launch calls are missing"),
        (of_tail, "cut off by the end of the recording: the GPU ops of its last launch calls are missing"),
        (of_inside, "records lost: launch calls in it have no GPU op"),
    ):
        for step in np.unique(steps[steps != NONE]).tolist():
            found.setdefault(step, why)
    return found if len({*found, *reasons}) < len(ranges.names) else {}


def _empty(reasons: Mapping[int, str], count: int) -> Bools:
    """Steps without work that others surround: the GPU idles meanwhile."""
    empty = np.array([reasons.get(step) == NO_WORK for step in range(count)], np.bool_)
    working = np.flatnonzero(~empty)
    if len(working):
        empty[: working[0]] = empty[working[-1] :] = False
    return empty


def _is_cut(count: int, others: Ints) -> bool:
    least = int(others.min())
    return count < least if least == others.max() else count < CUT_OFF * least


def _warm_up_steps(
    ranges: StepRanges, launches: Ints, kinds: Sequence[str | None], kept: Sequence[int]
) -> dict[int, str]:
    """Leading steps that launch more, or take the host far longer, than those of their kind after them."""
    reasons: dict[int, str] = {}
    took_ns = ranges.end_ns - ranges.start_ns
    for position, step in enumerate(kept):
        others = np.array([other for other in kept[position + 1 :] if kinds[other] == kinds[step]], dtype=np.int64)
        if len(others) < 2:
            break
        most, least = int(launches[others].max()), int(launches[others].min())
        if launches[step] > WARM_UP_LAUNCHES * most and most <= WARM_UP_LAUNCHES * least:
            reasons[step] = f"warm-up: {launches[step]} launches, the others at most {most}"
        elif took_ns[step] > WARM_UP_TIME * np.median(took_ns[others]):
            reasons[step] = f"warm-up: {took_ns[step] / np.median(took_ns[others]):.0f} times the others' host time"
        else:
            break
    return reasons


def _compiling_steps(trace: Trace, ranges: StepRanges) -> list[int]:
    named = np.array([i for i, name in enumerate(trace.names) if COMPILING.search(name)], dtype=np.int64)
    rows = np.isin(trace.host_ops.name, named)
    steps = np.unique(_step_at(trace.host_ops.start_ns[rows], ranges))
    return [int(step) for step in steps if step != NONE]
