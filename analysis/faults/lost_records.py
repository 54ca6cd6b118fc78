"""Records that are missing: GPU ops without a launch, launches without a GPU op, replays without all their nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model import units
from ..model.trace import NONE, Bools, Event, HostKind, Notice, Trace, Void
from .check import Check, gpu_op

UNLINKED_SHARE: Final = 0.10
"""Over this share of the kept ops without a launch, gaps can't be explained."""

_NAME_CHARACTERS: Final = 60
_LEAST_COMMON: Final = 2  # characters

LOST_SHARE: Final = 0.01
"""Over this share of the kept steps' launch calls without a GPU op, records were lost."""

NSYS_RECORD: Final = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node"


def is_nsys(trace: Trace) -> bool:
    """Whether Nsight Systems recorded it."""
    return trace.source.format.startswith("nsys")


def _no_gpu_ops(context: Context) -> Iterator[Notice]:
    if not context.trace_facts.gpu_ops:
        text = f"no GPU op in the file: {_why_no_gpu_ops(context.trace)}"
        yield Notice("no_gpu_ops", text, voids={Void.TRACE: "no GPU op in the file"})


def _no_launches(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    if not len(trace.launches) and _without_id(trace).any() and not (trace.gpu_ops.correlation != NONE).any():
        text = f"{facts.gpu_ops:,} GPU ops, none of which carries the correlation id of its launch: gaps have no cause"
        voids = {Void.TRACE: "no GPU op is linked to its launch"}
        yield Notice("no_launches", text, facts.gpu_ops, voids=voids)
    elif facts.gpu_ops and not len(context.trace.launches):
        text = (
            f"{facts.gpu_ops:,} GPU ops, but no API calls that launched them, so launch gaps can't be explained; "
            f"{_why_no_launches(context.trace)}"
        )
        yield Notice("no_launches", text, facts.gpu_ops, voids={Void.TRACE: "no launches in the file"})


def _zero_correlation(context: Context) -> Iterator[Notice]:
    """Collectors that don't know a kernel's launch: https://github.com/ROCm/roctracer/issues/100."""
    facts, trace, without = context.trace_facts, context.trace, _without_id(context.trace)
    count = int(without.sum())
    if not count:
        return
    graphs = sum("GraphLaunch" in trace.name(name) for name in trace.host_ops.name[facts.lost_calls].tolist())
    their = f", while {units.plural(graphs, 'graph launch', 'graph launches')} have none of their ops" if graphs else ""
    text = (
        f"{units.part(count, facts.gpu_ops)} GPU ops, {_named(trace, without)}, carry no correlation id, or 0, so no "
        f"launch is known of them{their}; ROCm's roctracer does so to kernels of RCCL and of replayed graphs: record "
        "with a torch whose profiler uses rocprofiler-sdk, or without graphs; or a tool dropped the ids: give the "
        "profiler's own file"
    )
    event = gpu_op(trace, int(np.argmax(without)), "it carries no correlation id")
    yield Notice("zero_correlation", text, count, event, _unlinked_void(context) if len(trace.launches) else {})


def _without_id(trace: Trace) -> Bools:
    """[gpu_ops] kernels that carry no correlation id, in a file that has API calls to link them to."""
    has_calls = len(trace.launches) > 0 or len(trace.blocking_calls) > 0 or HostKind.API in trace.host_ops.kind
    without: Bools = trace.gpu_ops.is_kernel & (trace.gpu_ops.correlation == NONE)
    return without if has_calls else np.zeros_like(without)


def _named(trace: Trace, rows: Bools) -> str:
    """By what the names of these GPU ops begin with."""
    names = sorted({trace.name(name) for name in np.unique(trace.gpu_ops.name[rows]).tolist()})
    common = os.path.commonprefix(names)  # noqa: RUF071  # they are no paths
    if len(names) == 1:
        return f"all named {names[0][:_NAME_CHARACTERS]!r}"
    if len(common) >= _LEAST_COMMON:
        return f"all named {common[:_NAME_CHARACTERS]}…"
    return f"of {len(names):,} names such as {names[0][:_NAME_CHARACTERS]!r}"


def _unlinked_void(context: Context) -> dict[Void, str]:
    facts = context.trace_facts
    kept, of_kept = int(facts.kept.sum()), int((facts.kept & ~facts.linked).sum())
    if of_kept > UNLINKED_SHARE * kept:
        return {Void.TRACE: f"{units.part(of_kept, kept)} kept GPU ops have no launch in the file"}
    return {}


def _orphans(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    orphans = ~facts.linked & ~_without_id(trace)
    unlinked = int(orphans.sum())
    if not unlinked or not len(trace.launches):
        return
    head = int((orphans & (trace.gpu_ops.start_ns < trace.gpu_ops.start_ns[facts.linked].min())).sum())
    of_them = {0: "none", unlinked: "all"}.get(head, f"{head:,}")
    text = (
        f"{units.part(unlinked, facts.gpu_ops)} GPU ops have no launch in the file, {of_them} of them at its "
        "start: launched before the recording began, or the call's record was lost; start the recording on an "
        "idle GPU"
    )
    event = gpu_op(trace, int(np.argmax(orphans)), "no launch call")
    yield Notice("orphans", text, unlinked, event, _unlinked_void(context))


def _lost_ops(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    lost, launches = len(facts.lost_calls), len(facts.lost_calls) + facts.launches_kept
    if not lost:
        return
    where = np.unique(np.searchsorted(context.steps.start_ns, trace.host_ops.start_ns[facts.lost_calls], "right"))
    text = (
        f"{units.part(lost, launches)} launch calls of the kept steps have no GPU op in the "
        f"file, in {len(where):,} of {len(context.steps.kept_rows):,} steps: synchronise before the recording "
        "stops, and record fewer steps"
    )
    voids = {}
    if len(facts.cut_calls):
        voids[Void.TRACE] = (
            f"the recording ends inside a kept step: {len(facts.cut_calls):,} of its launch calls have no GPU op"
        )
    elif lost > LOST_SHARE * launches:
        voids[Void.TRACE] = (
            f"{units.part(lost, launches)} launch calls of the kept steps have no GPU op: records were lost"
        )
    first, host = int(facts.lost_calls[0]), trace.host_ops
    event = Event(trace.name(int(host.name[first])), int(host.start_ns[first]), "the call has no GPU op")
    yield Notice("lost_ops", text, lost, event, voids)


def _under_recorded(context: Context) -> Iterator[Notice]:
    replays = context.replays
    for graph in replays.differing.tolist():
        of_graph = np.flatnonzero(replays.graph == graph)
        counts = replays.op_count[of_graph]
        short = int((counts < counts.max()).sum())
        name = replays.graph_names[graph]
        text = (
            f"{name}: {units.part(short, len(counts))} replays have fewer than "
            f"{counts.max():,} GPU ops (down to {counts.min():,}): records were lost; record fewer steps in a fresh "
            "process"
        )
        least = int(of_graph[np.argmin(counts)])
        first = int(np.argmax(replays.op_replay == least))
        event = gpu_op(context.trace, first, f"its replay has {counts.min():,} of {counts.max():,} GPU ops")
        yield Notice(
            "under_recorded",
            text,
            short,
            event,
            {Void.TRACE: "replays of one graph differ in their number of GPU ops"},
        )


def _capture_recorded(context: Context) -> Iterator[Notice]:
    trace, host = context.trace, context.trace.host_ops
    begins = np.array(["StreamBeginCapture" in name for name in trace.names], np.bool_)
    rows = np.flatnonzero((host.kind == HostKind.API) & begins[host.name])
    if not len(rows) or trace.launches.is_graph.any() or context.has_steps:
        return
    calls = units.plural(len(rows), "graph was captured", "graphs were captured")
    text = (
        f"{calls} while it was recorded and none was replayed: what it shows is the making of a graph, not a step; "
        "record after the warm-up, when replays run"
    )
    event = Event(trace.name(int(host.name[rows[0]])), int(host.start_ns[rows[0]]), "a capture begins here")
    reason = "it is the recording of a capture: no graph is replayed in it"
    yield Notice("capture_recorded", text, len(rows), event, {Void.TRACE: reason})


def _why_no_gpu_ops(trace: Trace) -> str:
    """The likely reason, by what the file holds instead, and what to do."""
    if other := next((each for each in trace.notices if each.code == "other_accelerator"), None):
        return other.message
    kinds = set(trace.host_ops.kind.tolist())
    has_calls = HostKind.API in kinds or len(trace.blocking_calls) > 0
    if is_nsys(trace):
        if any(notice.code == "graph_level" for notice in trace.notices):
            return f"graph replays were recorded as a whole, and nothing ran beside them; record with `{NSYS_RECORD}`"
        calls = "API calls, so nsys traced CUDA, but it got no record of the GPU"
        found = calls if has_calls else "no API call: CUDA was not traced, or no process used the GPU meanwhile"
        return f"it holds {found}; record with `{NSYS_RECORD}`, and synchronise before the recording stops"
    if not trace.events:
        return "it holds no event at all: the profiler's schedule never reached its active steps"
    if has_calls:
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


def _why_no_launches(trace: Trace) -> str:
    if trace.source.format.startswith("proton"):
        return "Proton records none: record with torch.profiler or nsys"
    if is_nsys(trace):
        return f"its tables of API calls were left out: record with `{NSYS_RECORD}` and export the report whole"
    return "the file was filtered or its writer leaves API calls out: re-export it whole"


LOST: Final = (
    Check("no_gpu_ops", "a recording of a GPU holds GPU ops", _no_gpu_ops),
    Check("no_launches", "a GPU op was launched by a call of the host", _no_launches),
    Check("zero_correlation", "a kernel carries the correlation id of its launch", _zero_correlation),
    Check("orphans", "the launch of each GPU op is in the file", _orphans),
    Check("lost_ops", "a call that launches has its GPU op in the file", _lost_ops),
    Check("capture_recorded", "a recording of steps is not that of a graph's capture", _capture_recorded),
    Check("under_recorded", "replays of one graph run the same GPU ops", _under_recorded),
)
