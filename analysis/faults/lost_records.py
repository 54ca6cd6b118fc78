"""Records that are missing: GPU ops without a launch, launches without a GPU op, replays without all their nodes."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model import units
from ..model.trace import NONE, Bools, Event, HostKind, Ints, Notice, Trace, Void
from .check import Check, gpu_op

UNLINKED_SHARE: Final = 0.10
"""Over this share of the kept ops without a launch, gaps can't be explained."""

_NAME_CHARACTERS: Final = 60
_LEAST_COMMON: Final = 2  # characters

LOST_SHARE: Final = 0.01
"""Over this share of the launch calls without a GPU op, records were lost."""

MOST_CUT: Final = 1 / 3
"""Over this share of the launch calls before the first that has its GPU op, or after the last, too little is left."""

EDGE: Final = 0.25
"""Lost calls that all stand among the first or last of so large a share were lost at that end."""

NSYS_RECORD: Final = "nsys profile --trace=cuda,nvtx --cuda-graph-trace=node"


def is_nsys(trace: Trace) -> bool:
    """Whether Nsight Systems recorded it."""
    return trace.source.format.startswith("nsys")


def _no_gpu_ops(context: Context) -> Iterator[Notice]:
    if not context.trace_facts.gpu_ops:
        text = f"no GPU op in the file: {_why_no_gpu_ops(context)}"
        yield Notice("no_gpu_ops", text, voids={Void.TRACE: "no GPU op in the file"})


def _no_launches(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    if not facts.gpu_ops or len(trace.launches) or _nodes_missing(context):
        return
    if _without_id(trace).any() and not (trace.gpu_ops.correlation != NONE).any():
        text = f"{facts.gpu_ops:,} GPU ops, none of which carries the correlation id of its launch: gaps have no cause"
        voids = {Void.TRACE: "no GPU op is linked to its launch"}
        yield Notice("no_launches", text, facts.gpu_ops, voids=voids)
    else:
        text = (
            f"{facts.gpu_ops:,} GPU ops, but no API calls that launched them, so launch gaps can't be explained; "
            f"{_why_no_launches(context.trace)}"
        )
        yield Notice("no_launches", text, facts.gpu_ops, voids={Void.TRACE: "no launches in the file"})


def _zero_correlation(context: Context) -> Iterator[Notice]:
    """Collectors that don't know a kernel's launch: https://github.com/ROCm/roctracer/issues/100."""
    facts, trace, without = context.trace_facts, context.trace, _without_id(context.trace)
    count = int(without.sum())
    if not count or _nodes_missing(context):
        return
    text = (
        f"{units.part(count, facts.gpu_ops)} GPU ops, {_named(trace, without)}, carry no correlation id, or 0, so no "
        f"launch is known of them; ROCm's roctracer does so to kernels of RCCL and of replayed graphs: record "
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
    """The trace, where too many of the kept ops have no launch; not those of replays queued before it began, or cut."""
    facts, trace, replays = context.trace_facts, context.trace, context.replays
    first = trace.gpu_ops.start_ns[facts.linked].min()
    queued = (replays.op_replay != NONE) & ~facts.linked & (trace.gpu_ops.start_ns < first)
    whole = facts.kept & ~queued & ~np.append(replays.cut, False)[replays.op_replay]
    kept, of_kept = int(whole.sum()), int((whole & ~facts.linked).sum())
    if of_kept > UNLINKED_SHARE * kept:
        return {Void.TRACE: f"{units.part(of_kept, kept)} kept GPU ops have no launch in the file"}
    return {}


def _orphans(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    orphans = ~facts.linked & ~_without_id(trace)
    unlinked = int(orphans.sum())
    if not unlinked or not len(trace.launches):
        return
    first = trace.gpu_ops.start_ns[facts.linked].min()
    head = int((orphans & (trace.gpu_ops.start_ns < first)).sum())
    of_them = {0: "none", unlinked: "all"}.get(head, f"{head:,}")
    text = (
        f"{units.part(unlinked, facts.gpu_ops)} GPU ops have no launch in the file, {of_them} of them at its "
        "start: launched before the recording began, or the call's record was lost; start the recording on an "
        "idle GPU"
    )
    event = gpu_op(trace, int(np.argmax(orphans)), "no launch call")
    yield Notice("orphans", text, unlinked, event, _unlinked_void(context))


def _lost_ops(context: Context) -> Iterator[Notice]:
    lost = context.lost_calls
    rows = lost.inside
    if not len(rows) or _are_elsewhere(context):
        return
    calls = len(rows) + len(context.trace.launches)
    text = f"{units.part(len(rows), calls)} launch calls have no GPU op in the file{_in_steps(context, rows)}"
    voids = {}
    replays, empty = len(lost.graph_launches), _emptied_steps(context)
    if len(rows) > LOST_SHARE * calls or replays or empty:
        reason = f"{units.part(len(rows), calls)} launch calls have no GPU op: records were lost"
        if replays:
            reason += f", {units.plural(replays, 'whole graph replay')} among them"
        elif empty:
            reason += f", all of {units.plural(empty, 'step')} among them"
        voids[Void.TRACE] = reason
    yield Notice("lost_ops", f"{text}: {_remedy(context, rows)}", len(rows), _call(context, rows, "no GPU op"), voids)


def _lost_first(context: Context) -> Iterator[Notice]:
    rows = _not_sacrificed(context, context.lost_calls.head)
    if len(rows) and not _are_elsewhere(context):
        text = (
            f"no GPU op in the file for the first {units.plural(len(rows), 'launch call')} of the recording"
            f"{_in_steps(context, rows)}: a profiler may lose the first records of a session; run "
            "a warm-up step inside it, before the steps that count"
        )
        yield Notice("lost_first", text, len(rows), _call(context, rows, "no GPU op"), _cut_inside(context, rows))


def _lost_last(context: Context) -> Iterator[Notice]:
    rows = _not_sacrificed(context, context.lost_calls.tail)
    if len(rows) and not _are_elsewhere(context):
        text = (
            f"no GPU op in the file for the last {units.plural(len(rows), 'launch call')} of the recording"
            f"{_in_steps(context, rows)}: it ended before the GPU was done; synchronise before it "
            "stops"
        )
        yield Notice("lost_last", text, len(rows), _call(context, rows, "no GPU op"), _cut_inside(context, rows))


def _graph_nodes_missing(context: Context) -> Iterator[Notice]:
    rows = context.lost_calls.rows
    rows = np.asarray(rows[context.lost_calls.is_graph[rows]])
    if not context.trace_facts.gpu_ops or not _nodes_missing(context):
        return
    unlinked, launched = int((~context.trace_facts.linked).sum()), _graphs_launched(len(rows))
    if unlinked:
        text = (
            f"{launched} without a GPU op, and {unlinked:,} GPU ops without a launch: replays whose kernels aren't "
            f"linked to their launch; {_unlinked_gaps(context, len(rows))}{_node_setting(context.trace)}"
        )
        reason = "the kernels of graph replays aren't linked to their launch"
    else:
        text = f"{launched}, and the GPU ops of none: graph nodes were not recorded; {_node_setting(context.trace)}"
        reason = "graph nodes were not recorded"
    voids = {Void.TRACE: reason}
    yield Notice("graph_nodes_missing", text, len(rows), _call(context, rows, "no GPU op of its graph"), voids)


def _graphs_launched(count: int) -> str:
    return units.plural(count, "graph launch", "graph launches")


def _are_elsewhere(context: Context) -> bool:
    """Whether the ops of such calls may be in the file, without their id; another check tells of those."""
    trace, ops = context.trace, context.trace.gpu_ops
    without_id = int((ops.correlation == NONE).sum())
    return not len(trace.launches) or _nodes_missing(context) or without_id >= len(context.lost_calls.rows)


def _nodes_missing(context: Context) -> bool:
    """Whether graphs are launched and not one launch has its GPU ops."""
    lost = context.lost_calls
    return bool(lost.is_graph[lost.rows].any()) and not context.trace.launches.is_graph.any()


def _node_setting(trace: Trace) -> str:
    """What makes the collector record nodes, and link them."""
    if is_nsys(trace):
        return f"record with `{NSYS_RECORD}`"
    if any("hipGraphLaunch" in name for name in trace.names):
        return (
            "roctracer loses them, or their ids, up to ROCm 7.2.1: record with DEBUG_CLR_GRAPH_PACKET_CAPTURE=0, or "
            "use the HIP and roctracer libraries of 7.2.2 or newer, also where torch brings its own (torch/lib)"
        )
    return "CUPTI records them where it is attached before the capture: profile in a fresh process, one session only"


def _unlinked_gaps(context: Context, replays: int) -> str:
    """Idle between and inside replays, where the unlinked ops are as many in each by their order; else nothing."""
    ops = context.trace.gpu_ops
    rows = np.flatnonzero(~context.trace_facts.linked)
    nodes = len(rows) // replays
    if nodes * replays != len(rows) or nodes < 2 or len(np.unique(ops.device[rows])) > 1:
        return ""
    names = ops.name[rows].reshape(replays, nodes)
    if (names != names[0]).any():
        return ""
    span = np.arange(rows[0], rows[-1] + 1)
    span = span[ops.device[span] == ops.device[rows[0]]]
    gaps = np.maximum(ops.start_ns[span[1:]] - np.maximum.accumulate(ops.end_ns[span])[:-1], 0)
    replay = np.full(len(ops), NONE)
    replay[rows] = np.arange(len(rows)) // nodes
    inside = (replay[span[1:]] == replay[span[:-1]]) & (replay[span[1:]] != NONE)
    return (
        f"by their order they are {nodes:,} each, with {units.duration(float(gaps[inside].sum()))} idle between nodes "
        f"and {units.duration(float(gaps[~inside].sum()))} between replays; "
    )


def _not_sacrificed(context: Context, rows: Ints) -> Ints:
    """Without those of the step that a capture sacrifices for them."""
    steps = context.steps
    start = context.trace.host_ops.start_ns[rows]
    if steps.source == "capture" and len(steps):
        rows = np.asarray(rows[(start < steps.start_ns[0]) | (start >= steps.end_ns[0])])
    return rows


def _cut_inside(context: Context, rows: Ints) -> dict[Void, str]:
    """The trace, where such a call lies in a step that is kept, as no other is whole, or where most of it is cut."""
    lost = context.lost_calls
    edges = len(lost.head) + len(lost.tail)
    calls = len(lost.rows) + len(context.trace.launches)
    if edges > MOST_CUT * calls:
        return {Void.TRACE: f"{units.part(edges, calls)} launch calls, at the start or the end, have no GPU op"}
    steps, start = context.steps, context.trace.host_ops.start_ns[rows]
    kept = steps.kept_rows
    held = [(start >= steps.start_ns[step]) & (start < steps.end_ns[step]) for step in kept.tolist()]
    if not held or not np.any(held):
        return {}
    of_it = units.plural(len(rows), "launch call")
    return {Void.TRACE: f"the recording is cut inside a kept step: {of_it} of it without a GPU op"}


def _emptied_steps(context: Context) -> int:
    """Steps between others that launch and have not one GPU op."""
    steps, rows = context.steps, context.lost_calls.inside
    ops = steps.counted(steps.op_step)
    step = np.searchsorted(steps.start_ns, context.trace.host_ops.start_ns[rows], side="right") - 1
    step = step[step >= 0]
    return int((ops[np.unique(step)] == 0).sum())


def _in_steps(context: Context, rows: Ints) -> str:
    """In how many of the steps these calls are; nothing without steps."""
    steps = context.steps
    if not len(steps):
        return ""
    start = context.trace.host_ops.start_ns[rows]
    step = np.searchsorted(steps.start_ns, start, side="right") - 1
    inside = (step >= 0) & (start < steps.end_ns[np.maximum(step, 0)])
    return f", in {len(np.unique(step[inside])):,} of {len(steps):,} steps"


def _remedy(context: Context, rows: Ints) -> str:
    """What to do, by where the calls stand among all that launch."""
    starts = np.sort(np.append(context.trace.launches.start_ns, context.trace.host_ops.start_ns[rows]))
    place = np.searchsorted(starts, context.trace.host_ops.start_ns[rows]) / len(starts)
    if place.max() < EDGE:
        return "all near the start; run a warm-up step inside the session, before the steps that count"
    if place.min() > 1 - EDGE:
        return "all near the end; synchronise before the recording stops"
    return "the profiler lost records; record fewer steps, in a fresh process"


def _call(context: Context, rows: Ints, lacks: str) -> Event:
    """The first of these calls, as what proves the loss."""
    host, first = context.trace.host_ops, int(rows[0])
    return Event(context.trace.name(int(host.name[first])), int(host.start_ns[first]), f"the call has {lacks}")


def _cut_replays(context: Context) -> Iterator[Notice]:
    replays, trace = context.replays, context.trace
    cut = np.flatnonzero(replays.cut)
    if not len(cut):
        return
    most = np.zeros(len(replays.graph_names), np.int64)
    np.maximum.at(most, replays.graph, replays.op_count)
    parts = [
        f"{replays.graph_names[graph]}: {units.part(count, most[graph])} GPU ops"
        for graph, count in zip(replays.graph[cut].tolist(), replays.op_count[cut].tolist(), strict=True)
    ]
    text = (
        f"the recording began or ended inside {units.plural(len(cut), 'graph replay')} ({', '.join(parts)}): left out "
        "of what needs whole replays"
    )
    event = gpu_op(trace, int(np.argmax(replays.op_replay == cut[0])), f"its replay has {parts[0].split(': ')[1]}")
    yield Notice("cut_replay", text, len(cut), event)


def _under_recorded(context: Context) -> Iterator[Notice]:
    replays, without = context.replays, int((context.trace.gpu_ops.correlation == NONE).sum())
    for graph in replays.differing.tolist():
        of_graph = np.flatnonzero((replays.graph == graph) & ~replays.cut)
        counts = replays.op_count[of_graph]
        short = int((counts < counts.max()).sum())
        name, reason = replays.graph_names[graph], "replays of one graph differ in their number of GPU ops"
        why = "records were lost; record fewer steps in a fresh process"
        if int((counts.max() - counts).sum()) <= without:
            own = f"{units.plural(without, 'GPU op')} without a correlation id"
            why = f"{own} may be of them; give the profiler's own file"
            reason += f"; {own} may be of them"
        text = (
            f"{name}: {units.part(short, len(counts))} replays have fewer than "
            f"{counts.max():,} GPU ops (down to {counts.min():,}): {why}"
        )
        least = int(of_graph[np.argmin(counts)])
        first = int(np.argmax(replays.op_replay == least))
        event = gpu_op(context.trace, first, f"its replay has {counts.min():,} of {counts.max():,} GPU ops")
        yield Notice("under_recorded", text, short, event, {Void.TRACE: reason})


def _graph_level(context: Context) -> Iterator[Notice]:
    trace, whole = context.trace, context.trace.whole_replays
    count = int(whole.sum())
    if count:
        launches = np.unique(trace.gpu_ops.launch_row[whole])
        took = trace.launches.dur_ns[launches[launches != NONE]]
        cost = f", which the host launches in {units.duration(float(np.median(took)))}" if len(took) else ""
        text = (
            f"{units.plural(count, 'graph replay')} recorded as a whole, one op each{cost}: busy time holds all of it, "
            "so the GPU works at most what is said; kernels, node gaps and what fusion would save aren't known; record "
            f"the nodes: {NSYS_RECORD}"
        )
        reason = "graph replays were recorded as a whole"
        event = gpu_op(trace, int(np.argmax(whole)), "what runs in it is not in the file")
        yield Notice("graph_level", text, count, event, {Void.NODE_TAX: reason})


def _capture_recorded(context: Context) -> Iterator[Notice]:
    trace, host = context.trace, context.trace.host_ops
    begins = np.array(["StreamBeginCapture" in name for name in trace.names], np.bool_)
    rows = np.flatnonzero((host.kind == HostKind.API) & begins[host.name])
    named = context.has_steps and context.steps.source != "repetition"  # a warm-up's layers repeat, too
    if not len(rows) or trace.launches.is_graph.any() or named:
        return
    calls = units.plural(len(rows), "graph was captured", "graphs were captured")
    text = (
        f"{calls} while it was recorded and none was replayed: what it shows is the making of a graph, not a step; "
        "record after the warm-up, when replays run"
    )
    event = Event(trace.name(int(host.name[rows[0]])), int(host.start_ns[rows[0]]), "a capture begins here")
    reason = "it is the recording of a capture: no graph is replayed in it"
    yield Notice("capture_recorded", text, len(rows), event, {Void.TRACE: reason})


def _why_no_gpu_ops(context: Context) -> str:
    """The likely reason, by what the file holds instead, and what to do."""
    trace, lost = context.trace, context.lost_calls
    if launches := int(lost.is_graph[lost.rows].sum()):
        return f"it holds {_graphs_launched(launches)}, whose nodes were not recorded; {_node_setting(trace)}"
    if other := next((each for each in trace.notices if each.code == "other_accelerator"), None):
        return other.message
    kinds = set(trace.host_ops.kind.tolist())
    has_calls = HostKind.API in kinds or len(trace.blocking_calls) > 0
    if is_nsys(trace):
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
    Check("lost_first", "the first launch call has its GPU op in the file", _lost_first),
    Check("lost_last", "the last launch call has its GPU op in the file", _lost_last),
    Check("graph_nodes_missing", "a graph launch has GPU ops that carry its id", _graph_nodes_missing),
    Check("graph_level", "the nodes of a replay are in the file", _graph_level),
    Check("capture_recorded", "a recording of steps is not that of a graph's capture", _capture_recorded),
    Check("cut_replay", "the recording begins and ends between replays", _cut_replays),
    Check("under_recorded", "replays of one graph run the same GPU ops", _under_recorded),
)
