"""Coverage: what of a trace can be used, counted before any other figure, and whether its figures are to be trusted.

The rules are those of docs/metrics.md, "Can the trace be trusted?".
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np

from . import units
from .columns import follow
from .document import CoverageDoc, WarningDoc
from .graphs import GraphReplays, graph_replays
from .intervals import Intervals
from .steps import Steps, steady_windows
from .trace import NONE, Bools, HostKind, Ints, Notice, Trace

UNLINKED_SHARE: Final = 0.10
"""Over this share of the kept ops without a launch, gaps can't be explained."""

SKEWED_SHARE: Final = 0.01
"""Over this share of ops that start before their launch call, the clocks or the correlation ids are wrong."""

LOST_SHARE: Final = 0.01
"""Over this share of the kept steps' launch calls without a GPU op, records were lost."""

STRAY_SHARE: Final = 0.5
"""A gap over this share of the window means that work strayed into the recording."""

LONGEST_OP_NS: Final = 3_600_000_000_000
"""An hour: no kernel runs that long; a writer that loses a start time reports such durations."""

_CUT_CODES: Final = ("cut_file", "damaged_file")


@dataclass(frozen=True, eq=False)
class Coverage:
    """Counts of a trace, what to know about it, and why it is unreliable where it is."""

    counts: CoverageDoc  # the ``coverage`` object of the report
    notices: tuple[Notice, ...]  # of the reader, of the steps, and of the data
    unreliable: tuple[str, ...]  # reasons; empty when the figures can be trusted

    @property
    def reliable(self) -> bool:
        """Whether the figures can be trusted."""
        return not self.unreliable

    def warnings(self) -> list[WarningDoc]:
        """The ``warnings`` list of the report."""
        return [WarningDoc(code=n.code, message=n.message, count=n.count) for n in self.notices]


def coverage(trace: Trace, steps: Steps, replays: GraphReplays | None = None) -> Coverage:
    """Count, warn, and say whether the trace is reliable; ``replays`` where they are known already."""
    facts = _Facts.of(trace, steps, graph_replays(trace) if replays is None else replays)
    unreliable = tuple(_reasons(facts))
    return Coverage(
        counts=_counts(facts, reliable=not unreliable),
        notices=(*trace.notices, *steps.notices, *_notices(facts)),
        unreliable=unreliable,
    )


@dataclass(frozen=True, eq=False)
class _Facts:
    """What counts, warnings and reasons share."""

    trace: Trace
    steps: Steps
    replays: GraphReplays
    busy: dict[int, Intervals]  # by device
    linked: Bools  # [gpu_ops]
    is_early: Bools  # [gpu_ops] starts before its launch call does
    kept: Bools  # [gpu_ops] in a kept step, or any where there are no steps
    overlaps: int
    lost_calls: Ints  # rows of host_ops: launch calls in kept steps without a GPU op
    launches_kept: int

    @classmethod
    def of(cls, trace: Trace, steps: Steps, replays: GraphReplays) -> _Facts:
        ops, launches = trace.gpu_ops, trace.launches
        linked = ops.launch_row != NONE
        launch_start = follow(launches.start_ns, ops.launch_row)
        return cls(
            trace=trace,
            steps=steps,
            replays=replays,
            busy={d: Intervals.union(*_times(trace, ops.device == d)) for d in trace.devices},
            linked=linked,
            is_early=linked & (ops.start_ns < launch_start),
            kept=_in_kept(steps, steps.op_step) if len(steps) else np.ones(len(ops), np.bool_),
            overlaps=_same_stream_overlaps(trace),
            lost_calls=_lost_calls(trace, steps),
            launches_kept=int(_in_kept(steps, steps.launch_step).sum()),
        )

    @property
    def gpu_ops(self) -> int:
        return len(self.trace.gpu_ops)

    @property
    def cut_calls(self) -> Ints:
        """Lost calls after every launch that has its ops: the recording stopped before the GPU was done."""
        starts = self.trace.launches.start_ns
        is_last = self.trace.host_ops.start_ns[self.lost_calls] > (starts[-1] if len(starts) else NONE)
        return self.lost_calls[is_last]


def _counts(facts: _Facts, *, reliable: bool) -> CoverageDoc:
    trace, ops, launches = facts.trace, facts.trace.gpu_ops, facts.trace.launches
    linked = int(facts.linked.sum())
    return CoverageDoc(
        events=trace.events,
        gpu_ops=len(ops),
        kernels=int(ops.is_kernel.sum()),
        launches=len(launches),
        graph_launches=int(launches.is_graph.sum()),
        linked=linked,
        unlinked=len(ops) - linked,
        kernels_in_graphs=facts.replays.kernels_in_graphs,
        zero_duration=int((ops.dur_ns == 0).sum()),
        negative_latency=int(facts.is_early.sum()),
        negative_queue=int((ops.start_ns[trace.first_ops()] < launches.end_ns).sum()),
        same_stream_overlaps=facts.overlaps,
        steps_found=facts.steps.found,
        steps_dropped=facts.steps.dropped,
        step_source=facts.steps.source,
        reliable=reliable,
    )


def _reasons(facts: _Facts) -> Iterator[str]:
    """Why the trace is unreliable; nothing where it is reliable."""
    if not facts.gpu_ops:
        yield "no GPU op in the file"
        return
    unlinked, kept = int((facts.kept & ~facts.linked).sum()), int(facts.kept.sum())
    early = int(facts.is_early.sum())
    if not len(facts.trace.launches):
        yield "no launches in the file"
    elif unlinked > UNLINKED_SHARE * kept:
        yield f"{_of(unlinked, kept)} kept GPU ops have no launch in the file"
    if early > SKEWED_SHARE * facts.gpu_ops:
        yield f"{_of(early, facts.gpu_ops)} GPU ops start before their launch call does"
    if len(facts.replays.differing):
        yield "replays of one graph differ in their number of GPU ops"
    if len(facts.cut_calls):
        yield f"the recording ends inside a kept step: {len(facts.cut_calls):,} of its launch calls have no GPU op"
    elif len(facts.lost_calls) > LOST_SHARE * (len(facts.lost_calls) + facts.launches_kept):
        calls = len(facts.lost_calls) + facts.launches_kept
        yield f"{_of(len(facts.lost_calls), calls)} launch calls of the kept steps have no GPU op: records were lost"
    if any(notice.code == "perfetto_json" for notice in facts.trace.notices):
        yield "Perfetto's JSON export cut every time to whole µs"
    if not facts.trace.complete:
        cut = any(notice.code in _CUT_CODES for notice in facts.trace.notices)
        yield "the file is cut or damaged: records are lost" if cut else "records are known to be lost"


def _notices(facts: _Facts) -> Iterator[Notice]:
    """Everything to know about the data before reading a figure."""
    yield from _link_notices(facts)
    yield from _replay_notices(facts)
    yield from _time_notices(facts)
    yield from _gap_notices(facts)
    devices, processes = facts.trace.devices, np.unique(facts.trace.launches.process)
    if len(devices) > 1:
        listed = ", ".join(str(device) for device in devices)
        text = f"{len(devices)} devices ({listed}) ran GPU ops: busy and idle are told for each by itself"
        yield Notice("several_devices", text, len(devices))
    if len(processes) > 1:
        text = (
            f"{len(processes)} processes launched GPU ops: the file merges several ranks, whose correlation ids may "
            "collide; analyse one rank's own file where you have it"
        )
        yield Notice("several_ranks", text, len(processes))


def _link_notices(facts: _Facts) -> Iterator[Notice]:
    unlinked = int((~facts.linked).sum())
    if not facts.gpu_ops:
        yield Notice("no_gpu_ops", f"no GPU op in the file: {_likely_reason(facts.trace)}")
    elif not len(facts.trace.launches):
        text = (
            f"{unlinked:,} GPU ops, but no API calls that launched them, so launch gaps can't be explained; the file "
            "was filtered or its writer leaves API calls out: re-export it whole"
        )
        yield Notice("no_launches", text, unlinked)
    elif unlinked:
        text = (
            f"{_of(unlinked, facts.gpu_ops)} GPU ops have no launch in the file: launched before the recording began, "
            "or the call's record was lost; start the recording on an idle GPU"
        )
        yield Notice("orphans", text, unlinked)
    if len(facts.lost_calls):
        lost = len(facts.lost_calls)
        text = (
            f"{_of(lost, lost + facts.launches_kept)} launch calls of the kept steps have no GPU op in the file: "
            "synchronise before the recording stops, and record fewer steps"
        )
        yield Notice("lost_ops", text, lost)


def _likely_reason(trace: Trace) -> str:
    """Why a file holds no GPU op, by what it holds instead."""
    kinds = set(trace.host_ops.kind.tolist())
    if not trace.events:
        return "it holds no event at all: the profiler's schedule never reached its active steps"
    if HostKind.API in kinds or len(trace.blocking_calls):
        return (
            "it holds API calls, so the profiler ran, but got no activity of the GPU: record again in a fresh process, "
            "and synchronise before the recording stops"
        )
    if HostKind.OPERATOR in kinds or HostKind.PYTHON in kinds:
        return (
            "it holds the CPU's side alone: recorded without ProfilerActivity.CUDA, or in a process that does not use "
            "the GPU, such as a server's front end"
        )
    return (
        "none of its events is of a category that torch.profiler gives GPU ops (kernel, gpu_memcpy, gpu_memset): "
        "record with ProfilerActivity.CUDA while the GPU works"
    )


def _replay_notices(facts: _Facts) -> Iterator[Notice]:
    replays = facts.replays
    for graph in replays.differing.tolist():
        own = replays.graph == graph
        counts = replays.op_count[own]
        short = int((counts < counts.max()).sum())
        text = (
            f"{replays.graph_names[graph]}: {_of(short, len(counts))} replays have fewer than {counts.max():,} GPU ops "
            f"(down to {counts.min():,}): records were lost; record fewer steps in a fresh process"
        )
        yield Notice("under_recorded", text, short)


def _time_notices(facts: _Facts) -> Iterator[Notice]:
    trace, ops = facts.trace, facts.trace.gpu_ops
    early = int(facts.is_early.sum())
    if early:
        before = follow(trace.launches.start_ns, ops.launch_row) - ops.start_ns
        text = (
            f"{_of(early, facts.gpu_ops)} GPU ops start before their launch call does, by up to "
            f"{before[facts.is_early].max() / 1000:,.1f} µs: clock skew or wrong correlation ids; record in a fresh "
            "process, one profiler session only"
        )
        yield Notice("skew", text, early)
    if trace.whole_us and facts.gpu_ops:
        gaps = sum(len(busy) - 1 for busy in facts.busy.values())
        text = (
            f"times are whole µs: ±1 µs at each edge, so {gaps:,} gaps may be off by ±{2 * gaps / 1000:,.3f} ms "
            "together; a newer torch (2.3 or later) writes nanoseconds"
        )
        yield Notice("whole_us", text, facts.gpu_ops)
    impossible = [int(((t.dur_ns < 0) | (t.dur_ns > LONGEST_OP_NS)).sum()) for t in (ops, trace.launches)]
    if any(impossible):
        text = (
            f"{impossible[0]:,} GPU ops and {impossible[1]:,} launches have a duration that can't be (below zero or "
            "over an hour): the writer's clocks are at fault; record again"
        )
        yield Notice("impossible_durations", text, sum(impossible))


def _gap_notices(facts: _Facts) -> Iterator[Notice]:
    for device, busy in facts.busy.items():
        window = int(busy.end_ns[-1] - busy.start_ns[0])
        longest = int((busy.start_ns[1:] - busy.end_ns[:-1]).max(initial=0))
        if longest > STRAY_SHARE * window:
            has_steady = bool(steady_windows(facts.trace, facts.steps, device))
            remedy = "the steady idle beside it leaves it out" if has_steady else "record a loop of steps alone"
            text = (
                f"device {device}: one gap of {longest / 1e6:,.3f} ms is {longest / window:.0%} of the window: the "
                f"recording holds stray work; {remedy}"
            )
            yield Notice("stray_work", text)
    if facts.overlaps:
        text = (
            f"{_of(facts.overlaps, facts.gpu_ops)} GPU ops start before an earlier one of their stream has ended "
            "(programmatic dependent launch): busy counts such time once, the sum of durations twice"
        )
        yield Notice("overlap", text, facts.overlaps)


def _times(trace: Trace, rows: Bools) -> tuple[Ints, Ints]:
    return trace.gpu_ops.start_ns[rows], trace.gpu_ops.end_ns[rows]


def _in_kept(steps: Steps, step: Ints) -> Bools:
    """True where a row's step is a kept one."""
    return follow(steps.kept, step, absent=False)


def _same_stream_overlaps(trace: Trace) -> int:
    """GPU ops that start before an earlier op of the same device and stream has ended."""
    ops = trace.gpu_ops
    order = np.lexsort((ops.start_ns, ops.stream, ops.device))
    device, stream, start, end = (c[order] for c in (ops.device, ops.stream, ops.start_ns, ops.end_ns))
    is_new = np.ones(len(ops), np.bool_)
    is_new[1:] = (device[1:] != device[:-1]) | (stream[1:] != stream[:-1])
    overlaps = 0
    for own_start, own_end in zip(*(np.split(c, np.flatnonzero(is_new)[1:]) for c in (start, end)), strict=True):
        overlaps += int((own_start[1:] < np.maximum.accumulate(own_end)[:-1]).sum())
    return overlaps


def _lost_calls(trace: Trace, steps: Steps) -> Ints:
    """Rows of host_ops: calls in kept steps that by their name launch a kernel or a graph, without a GPU op.

    Not those inside a launch: a runtime call wraps the driver call that does its work.
    """
    host = trace.host_ops
    launching = np.array(["LaunchKernel" in name or "GraphLaunch" in name for name in trace.names], np.bool_)
    rows = np.flatnonzero(host.kind == HostKind.API)
    rows = rows[launching[host.name[rows]]]
    kept = steps.kept_rows
    if not len(kept) or not len(rows):
        return np.zeros(0, np.int64)
    step = np.searchsorted(steps.start_ns[kept], host.start_ns[rows], side="right") - 1
    rows = rows[(step >= 0) & (host.start_ns[rows] < steps.end_ns[kept[np.maximum(step, 0)]])]
    return rows[~_inside_launch(trace, rows)]


def _inside_launch(trace: Trace, rows: Ints) -> Bools:
    """True where a row of host_ops lies inside a launch call of its thread."""
    host, launches = trace.host_ops, trace.launches
    inside = np.zeros(len(rows), np.bool_)
    for process, thread in np.unique(np.stack([host.process[rows], host.thread[rows]], axis=1), axis=0):
        own = np.flatnonzero((launches.process == process) & (launches.thread == thread))
        here = np.flatnonzero((host.process[rows] == process) & (host.thread[rows] == thread))
        reached = np.append(np.maximum.accumulate(launches.end_ns[own]), np.iinfo(np.int64).min)
        last = np.searchsorted(launches.start_ns[own], host.start_ns[rows[here]], side="right") - 1
        inside[here] = reached[last] >= host.end_ns[rows[here]]  # none before it: the last entry
    return inside


def _of(count: int, total: int) -> str:
    return f"{count:,} of {total:,} ({units.share(count / max(total, 1))})"
