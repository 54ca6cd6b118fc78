"""Waits that contradict the record: of GPU ops for the GPU, and of the host for GPU ops."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..facts.gaps import Gaps
from ..model import units
from ..model.columns import follow
from ..model.trace import NONE, Bools, Event, Ints, Notice, Trace, Void
from .check import Check, gpu_op

LONGEST_WAIT_NS: Final = 100_000
"""An idle GPU starts what was launched sooner: good captures of an H200 show at most 14 µs."""

WAITS_SHARE: Final = 0.05
"""Over this share of the idle time in such waits, no cause of it can be told."""

SKEWED_SHARE: Final = 0.01
"""Over this share of GPU ops that start when a wait for them has returned, their correlation ids are wrong."""

QUEUE_FULL: Final = 1_000
"""GPU ops: the queue holds about 1,024, and what stands behind it starts when it may."""

LATE_RETURN_NS: Final = 1_000_000
"""A wait that returns later than this after the last op that it can wait for waited for something unrecorded; one or
two of many may be a host that did not get to run."""

LEAST_PERIODS: Final = 3
BURST: Final = 1.5
"""Times the GPU's step time that the host may take for one: in a loop both take as long."""

LEAST_HOLE_NS: Final = 100_000
HOLE: Final = 20
"""A gap inside a replay that is longer than both 100 µs and 20 of its graph's median ones is no node gap."""

_DEPENDS: Final = re.compile(r"StreamWaitEvent|LaunchHostFunc|StreamWaitValue|StreamAddCallback|ExternalSemaphores")
"""Calls that make a stream wait for something that is no op of it."""

_WAITS_FOR_ALL: Final = re.compile(r"(?:Device|Ctx)Synchronize")


def _after_its_wait(context: Context) -> Iterator[Notice]:
    trace, ops = context.trace, context.trace.gpu_ops
    late = _started_after(trace, *_waits_for_all(trace))
    count = int(late.sum())
    if not count:
        return
    text = (
        f"{units.part(count, len(ops))} GPU ops start when a wait for all work has returned that began after their "
        "launch: their correlation ids are wrong (CUPTI, graph launches of a second session); record in a fresh "
        "process, one profiler session only"
    )
    voids = {}
    if count > SKEWED_SHARE * len(ops):
        voids[Void.TRACE] = f"{units.part(count, len(ops))} GPU ops start after the wait for them has returned"
    event = gpu_op(trace, int(np.argmax(late)), "a wait for all work, begun after its launch, has returned before it")
    yield Notice("after_its_wait", text, count, event, voids)


def _waits_for_all(trace: Trace) -> tuple[Ints, Ints, Ints]:
    """Start, end and process of the calls that wait for all work of the process: where it uses one stream, of that."""
    calls, ops = trace.blocking_calls, trace.gpu_ops
    of_all = np.array([_WAITS_FOR_ALL.search(name) is not None for name in trace.names], np.bool_)
    of_stream = np.array(["StreamSynchronize" in name for name in trace.names], np.bool_)
    single = [
        process
        for process in np.unique(ops.process).tolist()
        if len(np.unique(np.stack([ops.device, ops.stream])[:, ops.process == process], axis=1)[0]) == 1
    ]
    rows = np.flatnonzero(of_all[calls.api] | (of_stream[calls.api] & np.isin(calls.process, single)))
    return calls.start_ns[rows], calls.end_ns[rows], calls.process[rows]


def _started_after(trace: Trace, start_ns: Ints, end_ns: Ints, process: Ints) -> Bools:
    """[gpu_ops] starts after the end of a wait that began when its launch had returned."""
    ops = trace.gpu_ops
    launched = follow(trace.launches.end_ns, ops.launch_row)
    found = np.zeros(len(ops), np.bool_)
    for number in np.unique(process).tolist():
        its = np.flatnonzero(process == number)
        its = its[np.argsort(start_ns[its], kind="stable")]
        soonest = np.append(np.minimum.accumulate(end_ns[its][::-1])[::-1], np.iinfo(np.int64).max)
        rows = np.flatnonzero((ops.process == number) & (ops.launch_row != NONE))
        first = np.searchsorted(start_ns[its], launched[rows])
        found[rows] = ops.start_ns[rows] - trace.clock_ns > soonest[first]
    return found


def _deferred(context: Context) -> Iterator[Notice]:
    if len(context.trace.devices) != 1:  # an op may wait for another device
        return
    ops = context.trace.gpu_ops
    gaps = context.gaps[context.device]
    waits = _unexplained_waits(context, gaps)
    rows = np.flatnonzero(waits > LONGEST_WAIT_NS)
    if not len(rows):
        return
    total, longest = int(waits[rows].sum()), int(rows[np.argmax(waits[rows])])
    most = units.duration(float(waits[longest]))
    text = (
        f"{units.part(len(rows), len(ops))} GPU ops start up to {most} after their launch returned, while the GPU is "
        f"idle and nothing recorded holds them back, {units.duration(float(total))} together: their times or their "
        "links are wrong, or work is missing; record in a fresh process"
    )
    voids = {}
    if total > WAITS_SHARE * gaps.idle_ns:
        part = f"{units.duration(float(total))} of {units.duration(float(gaps.idle_ns))} of idle time"
        voids[Void.TRACE] = f"{part} pass before GPU ops that were launched and had nothing to wait for"
    event = gpu_op(context.trace, int(gaps.next_op[longest]), f"it waits {most} for an idle GPU")
    yield Notice("deferred", text, len(rows), event, voids)


def _burst(context: Context) -> Iterator[Notice]:
    """Steps that the host began far apart and the GPU ran back to back: held back, or with wrong times."""
    if context.headline is None or not context.has_steps:
        return
    steps, period = context.steps, context.period_ns[context.device]
    rows = np.flatnonzero(period != NONE)
    rows = rows[rows + 1 < len(steps)]
    if len(rows) < LEAST_PERIODS:
        return
    of_gpu = float(np.median(period[rows]))
    of_host = float(np.median(steps.start_ns[rows + 1] - steps.start_ns[rows]))
    if of_host <= BURST * of_gpu:
        return
    host, gpu = units.duration(of_host), units.duration(of_gpu)
    text = (
        f"the host begins a step every {host}, and the GPU runs one every {gpu}: the ops of {len(rows) + 1:,} steps "
        f"were held back and ran in a burst, or have wrong times; a step takes {host} by the host's marks; synchronise "
        "before the recording starts, and record more steps"
    )
    first = int(np.argmax(steps.op_step == rows[0]))
    event = gpu_op(context.trace, first, f"the first op of the step that began {host} before the next one")
    reason = f"the GPU ran in a burst what the host began every {host}"
    yield Notice("burst", text, len(rows) + 1, event, {Void.TRACE: reason})


def _unexplained_waits(context: Context, gaps: Gaps) -> Ints:
    """[gaps] for how long the next op was launched and the device idle; 0 where something explains that."""
    trace, ops, launches = context.trace, context.trace.gpu_ops, context.trace.launches
    launch = ops.launch_row[gaps.next_op]
    wait = np.where(launch == NONE, 0, gaps.parts_ns["device"] + gaps.parts_ns["dispatch"])
    depends = np.array([_DEPENDS.search(name) is not None for name in trace.names], np.bool_)
    depending = trace.host_ops.start_ns[depends[trace.host_ops.name]]
    rows = np.flatnonzero(wait > LONGEST_WAIT_NS)
    ahead = np.searchsorted(np.sort(launches.end_ns), gaps.start_ns[rows]) - np.searchsorted(
        np.sort(ops.start_ns), gaps.start_ns[rows]
    )
    before = follow(launches.start_ns, ops.launch_row[gaps.prev_op[rows]], absent=0)
    held = np.searchsorted(depending, launches.end_ns[launch[rows]]) > np.searchsorted(depending, before)
    wait[rows[held | (ahead >= QUEUE_FULL)]] = 0
    return np.asarray(wait)


def _replay_hole(context: Context) -> Iterator[Notice]:
    trace, replays = context.trace, context.replays
    for device in trace.devices:
        gaps = context.gaps[device]
        replay = replays.op_replay[gaps.next_op]
        inside = np.flatnonzero((gaps.parts_ns["graph"] > 0) & (replay != NONE))
        graph, length = replays.graph[replay[inside]], gaps.parts_ns["graph"][inside]
        usual = np.zeros(len(inside))
        for number in np.unique(graph).tolist():
            usual[graph == number] = np.median(length[graph == number])
        holes = np.flatnonzero((length > LEAST_HOLE_NS) & (length > HOLE * usual))
        if not len(holes):
            continue
        longest = int(holes[np.argmax(length[holes])])
        most, total = units.duration(float(length[longest])), units.duration(float(length[holes].sum()))
        text = (
            f"{units.plural(len(holes), 'hole')} of up to {most} inside graph replays, {total} together, where a node "
            f"usually follows {units.duration(float(usual[longest]))} after another: work that is not recorded ran "
            "there (a WHILE node's later iterations, a host node); record eager"
        )
        reason = f"{total} of holes inside graph replays hold work that is not recorded"
        why = f"nothing of its replay is recorded for {most} before it"
        event = gpu_op(trace, int(gaps.next_op[inside[longest]]), why)
        yield Notice("replay_hole", text, len(holes), event, {Void.WORK: reason, Void.NODE_TAX: reason})


def _unrecorded_work(context: Context) -> Iterator[Notice]:
    trace, ops = context.trace, context.trace.gpu_ops
    if not len(ops):
        return
    start, end, process = _waits_for_all(trace)
    after = np.zeros(len(start), np.int64)
    for number in np.unique(process).tolist():
        its = np.flatnonzero(process == number)
        reach = np.maximum.accumulate(ops.end_ns[ops.process == number])
        last = np.searchsorted(ops.start_ns[ops.process == number], end[its]) - 1
        ended = np.where(last >= 0, reach[np.maximum(last, 0)], start[its]) if len(reach) else start[its]
        after[its] = end[its] - np.maximum(ended, start[its])
    first = int(ops.start_ns[0])
    rows = np.flatnonzero((after > LATE_RETURN_NS) & (start > first))
    if not len(rows):
        return
    longest = int(rows[np.argmax(after[rows])])
    idle = sum(gaps.idle_ns for gaps in context.gaps.values())
    total = int(after[rows].sum())
    text = (
        f"{units.plural(len(rows), 'wait')} for the GPU last up to {units.duration(float(after[longest]))} after the "
        f"last recorded GPU op has ended, {units.duration(float(total))} together: work ran that is not recorded (a "
        "WHILE node's later iterations, a host node, another process); record in a process that has the GPU for itself"
    )
    voids = {}
    if total > WAITS_SHARE * max(idle, 1) and 2 * len(rows) >= (start > first).sum():
        reason = f"{units.duration(float(total))} of waits for the GPU pass without recorded work"
        voids = {Void.WORK: reason}
    event = Event("wait for the GPU", int(start[longest]), "it goes on when all recorded work has ended")
    yield Notice("unrecorded_work", text, len(rows), event, voids)


WAITS: Final = (
    Check("after_its_wait", "no GPU op starts after a wait for it has returned", _after_its_wait),
    Check("deferred", "an idle GPU starts what was launched", _deferred),
    Check("burst", "the GPU runs steps as often as the host begins them", _burst),
    Check("replay_hole", "nodes of a replay follow one another", _replay_hole),
    Check("unrecorded_work", "a wait for the GPU returns when its work has ended", _unrecorded_work),
)
