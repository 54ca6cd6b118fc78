"""What a Perfetto file shows of one trace: its rows as slices with notes, and its counters as series."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from ..columns import follow, named
from ..document import CAUSES
from ..intervals import Intervals
from ..trace import NONE, Bools, HostKind, Ints, OpKind, Trace
from .perfetto_packets import Slices

if TYPE_CHECKING:
    from ..analyses import TraceAnalysis
    from ..gaps import Gaps
    from ..steps import Steps


def gpu_op_slices(analysis: TraceAnalysis, first_flow: int) -> Slices:
    """Every GPU op, a row each; flow ``first_flow + row`` leads there from its launch.

    Latency and queue time of a launch stand at its earliest op, whose they are.
    """
    trace, steps, times, graphs = analysis.trace, analysis.steps, analysis.launch_times, analysis.graphs
    ops, launches = trace.gpu_ops, trace.launches
    inferred = {row.name: row.operator for row in analysis.document.kernels if row.operator_inferred}
    linked = ops.launch_row != NONE
    launch_start_ns = follow(launches.start_ns, ops.launch_row)
    earliest = np.isin(np.arange(len(ops)), times.first_op)
    before_launch = linked & (ops.start_ns < launch_start_ns)  # skewed clocks: drawn as it was recorded, backwards
    file_node = ops.graph_node != NONE
    return Slices(
        start_ns=ops.start_ns,
        end_ns=ops.end_ns,
        name=[trace.names[name] for name in ops.name.tolist()],
        category=[OpKind(kind).word for kind in ops.kind.tolist()],
        numbers={
            "duration_ns": ops.dur_ns.tolist(),
            "launch_overhead_ns": _numbers(follow(launches.dur_ns, ops.launch_row), linked),
            "launch_latency_ns": _numbers(follow(times.latency_ns, ops.launch_row), earliest),
            "queue_time_ns": _numbers(follow(times.queue_ns, ops.launch_row), earliest),
            "bytes": _known(ops.bytes),
            "graph_replay": _known(graphs.op_replay),
            "graph_node": _known(np.where(file_node, ops.graph_node, graphs.ordinal)),
            "correlation": _known(ops.correlation),
        },
        texts={
            "launch": named(trace.names, follow(launches.api, ops.launch_row)),
            "operator": _operators(trace, follow(launches.operator_row, ops.launch_row)),
            "operator_inferred": [inferred.get(trace.names[name]) for name in ops.name.tolist()],
            "step": named(steps.names, steps.op_step),
            "graph": named(graphs.graph_names, follow(graphs.graph, graphs.op_replay)),
        },
        flows={row: [first_flow + row] for row in np.flatnonzero(before_launch).tolist()},
        ends_flow={row: first_flow + row for row in np.flatnonzero(linked & ~before_launch).tolist()},
    )


def api_call_slices(analysis: TraceAnalysis, first_flow: int) -> Slices:
    """Launches, then blocking calls that launch nothing, then other API calls; see ``api_call_threads``."""
    trace, steps, times = analysis.trace, analysis.steps, analysis.launch_times
    launches, blocking, other = trace.launches, _only_blocking(trace), _other_api(trace)
    calls, host = trace.blocking_calls, trace.host_ops
    op_rows = np.flatnonzero(trace.gpu_ops.launch_row != NONE)
    flows: dict[int, list[int]] = {}
    for op, launch in zip(op_rows.tolist(), trace.gpu_ops.launch_row[op_rows].tolist(), strict=True):
        flows.setdefault(launch, []).append(first_flow + op)
    rest = [None] * (len(blocking) + len(other))
    unknown = np.full(len(other), NONE, dtype=np.int64)
    api = np.concatenate([launches.api, calls.api[blocking], host.name[other]])
    operator = np.concatenate([launches.operator_row, calls.operator_row[blocking], unknown])
    step = np.concatenate([steps.launch_step, steps.blocking_step[blocking], unknown])
    kinds = np.where(launches.is_graph, "graph launch", "launch").tolist()
    return Slices(
        start_ns=np.concatenate([launches.start_ns, calls.start_ns[blocking], host.start_ns[other]]),
        end_ns=np.concatenate([launches.end_ns, calls.end_ns[blocking], host.end_ns[other]]),
        name=[trace.names[name] for name in api.tolist()],
        category=[*kinds, *["blocking call"] * len(blocking), *["api"] * len(other)],
        numbers={
            "launch_overhead_ns": [*launches.dur_ns.tolist(), *rest],
            "launch_latency_ns": [*times.latency_ns.tolist(), *rest],
            "queue_time_ns": [*times.queue_ns.tolist(), *rest],
            "gpu_ops": [*(len(flows.get(row, ())) for row in range(len(launches))), *rest],
            "correlation": [*launches.correlation.tolist(), *rest],
        },
        texts={"operator": _operators(trace, operator), "step": named(steps.names, step)},
        flows=flows,
    )


def api_call_threads(trace: Trace) -> tuple[Ints, Ints]:
    """(process, thread) of each row of ``api_call_slices``."""
    tables = (trace.launches, trace.blocking_calls.take(_only_blocking(trace)), trace.host_ops.take(_other_api(trace)))
    return np.concatenate([t.process for t in tables]), np.concatenate([t.thread for t in tables])


def host_op_slices(trace: Trace) -> Slices:
    """Every host op, a row each."""
    ops = trace.host_ops
    return Slices(
        start_ns=ops.start_ns,
        end_ns=ops.end_ns,
        name=[trace.names[name] for name in ops.name.tolist()],
        category=[HostKind(kind).word for kind in ops.kind.tolist()],
    )


def step_slices(steps: Steps) -> Slices:
    """The host range of every step that was found."""
    return Slices(
        start_ns=steps.start_ns,
        end_ns=steps.end_ns,
        name=list(steps.names),
        category=["step"] * len(steps.names),
        texts=_step_notes(steps, range(len(steps.names))),
    )


def gpu_step_slices(trace: Trace, steps: Steps, device: int) -> Slices:
    """First start to last end of each step's own GPU ops on the device; none for a step without any."""
    ops = trace.gpu_ops
    rows = np.flatnonzero((ops.device == device) & (steps.op_step != NONE))
    shown, group = np.unique(steps.op_step[rows], return_inverse=True)
    start_ns = np.full(len(shown), np.iinfo(np.int64).max)
    end_ns = np.full(len(shown), np.iinfo(np.int64).min)
    np.minimum.at(start_ns, group, ops.start_ns[rows])
    np.maximum.at(end_ns, group, ops.end_ns[rows])
    return Slices(
        start_ns=start_ns,
        end_ns=end_ns,
        name=[steps.names[step] for step in shown.tolist()],
        category=["gpu step"] * len(shown),
        numbers={"gpu_ops": np.bincount(group, minlength=len(shown)).tolist()},
        texts=_step_notes(steps, shown.tolist()),
    )


def gap_slices(trace: Trace, steps: Steps, gaps: Gaps) -> Slices:
    """Every gap under its cause; a cut gap as its parts, where they lie. Time by cause equals the gaps' own."""
    parts: list[tuple[int, str, int, int]] = []  # (gap, cause, start, end)
    host_end_ns = gaps.start_ns + gaps.parts_ns["sync"] + gaps.parts_ns["host"]
    launch_end_ns = host_end_ns + gaps.parts_ns["launch"]
    begins = dict.fromkeys(CAUSES, gaps.start_ns) | {"launch": host_end_ns, "dispatch": launch_end_ns}
    waited = (gaps.parts_ns["sync"] > 0) & (gaps.parts_ns["host"] > 0)
    for cause in CAUSES:
        length_ns = gaps.parts_ns[cause]
        whole = length_ns > 0
        if cause in ("sync", "host"):
            whole &= ~waited
        for gap in np.flatnonzero(whole).tolist():
            begin = int(begins[cause][gap])
            parts.append((gap, cause, begin, begin + int(length_ns[gap])))
    for gap in np.flatnonzero(waited).tolist():
        parts += [(gap, *part) for part in _sync_and_host(trace, gaps, gap, int(host_end_ns[gap]))]
    parts.sort(key=lambda part: (part[2], part[3]))
    gap_of = np.array([part[0] for part in parts], dtype=np.int64)
    cause_of = [part[1] for part in parts]
    is_host = np.array([cause == "host" for cause in cause_of], dtype=np.bool_)
    is_launch = np.array([cause == "launch" for cause in cause_of], dtype=np.bool_)
    after_sync_ns = gaps.after_sync_ns[gap_of]
    observer = is_launch & gaps.observer[gap_of]
    stall_ns = np.where(is_host, gaps.stall_host_ns[gap_of], np.where(is_launch, gaps.stall_launch_ns[gap_of], 0))
    return Slices(
        start_ns=np.array([part[2] for part in parts], dtype=np.int64),
        end_ns=np.array([part[3] for part in parts], dtype=np.int64),
        name=cause_of,
        category=["gap"] * len(parts),
        numbers={
            "gap": gap_of.tolist(),
            "gap_ns": gaps.dur_ns[gap_of].tolist(),
            "after_sync_ns": _numbers(after_sync_ns, is_host & (after_sync_ns > 0)),
            "stall_ns": _numbers(stall_ns, stall_ns > 0),
        },
        texts={
            "after": named(trace.names, follow(trace.gpu_ops.name, gaps.prev_op[gap_of])),
            "before": named(trace.names, follow(trace.gpu_ops.name, gaps.next_op[gap_of])),
            "step": named(steps.names, follow(steps.op_step, gaps.next_op[gap_of])),
            "boundary": ["between steps" if crosses else None for crosses in gaps.boundary[gap_of].tolist()],
            "observer": ["mostly the profiler's own cost" if found else None for found in observer.tolist()],
            "another_thread_in": named(trace.names, follow(trace.blocking_calls.api, gaps.waiting_call[gap_of])),
        },
    )


def idle_series(trace: Trace, gaps: Gaps) -> tuple[Ints, Ints]:
    """(times, 1 while no GPU op runs on the device, else 0), from the first op's start to the last one's end."""
    ops = trace.gpu_ops
    first_ns = ops.start_ns[ops.device == gaps.device][:1]
    edges = np.column_stack([gaps.start_ns, gaps.end_ns]).ravel()
    return np.concatenate([first_ns, edges]), np.arange(len(first_ns) + len(edges)) % 2


def queue_depth_series(trace: Trace, device: int) -> tuple[Ints, Ints]:
    """(times, GPU ops of the device whose launch call has ended and that have not started); a time occurs once."""
    ops = trace.gpu_ops
    called_ns = follow(trace.launches.end_ns, ops.launch_row)
    queued = (ops.device == device) & (ops.launch_row != NONE) & (ops.start_ns > called_ns)
    edges = np.concatenate([called_ns[queued], ops.start_ns[queued]])
    time_ns, place = np.unique(edges, return_inverse=True)
    change = np.zeros(len(time_ns), dtype=np.int64)
    np.add.at(change, place, np.repeat([1, -1], int(queued.sum())))
    return time_ns, np.cumsum(change)


def _sync_and_host(trace: Trace, gaps: Gaps, gap: int, end_ns: int) -> list[tuple[str, int, int]]:
    """The parts of a gap before its launch call: inside a blocking call of the launching thread, or not."""
    launches, calls = trace.launches, trace.blocking_calls
    launch = trace.gpu_ops.launch_row[gaps.next_op[gap]]
    start_ns = int(gaps.start_ns[gap])
    same = (calls.process == launches.process[launch]) & (calls.thread == launches.thread[launch])
    waits = Intervals.union(calls.start_ns[same], calls.end_ns[same])
    inside = (waits.start_ns < end_ns) & (waits.end_ns > start_ns)
    parts: list[tuple[str, int, int]] = []
    at = start_ns
    for begin, end in zip(waits.start_ns[inside].tolist(), waits.end_ns[inside].tolist(), strict=True):
        if begin > at:
            parts.append(("host", at, begin))
        parts.append(("sync", max(at, begin), min(end, end_ns)))
        at = min(end, end_ns)
    if at < end_ns:
        parts.append(("host", at, end_ns))
    drawn_ns = sum(end - begin for cause, begin, end in parts if cause == "sync")
    assert drawn_ns == gaps.parts_ns["sync"][gap], "a gap's sync part is where its blocking calls are"
    return parts


def _only_blocking(trace: Trace) -> Ints:
    """Rows of blocking calls that are not launches too: a synchronous copy is both, and shown once, as a launch."""
    launches, calls = trace.launches, trace.blocking_calls
    keys = zip(*(c.tolist() for c in (launches.process, launches.thread, launches.start_ns, launches.api)), strict=True)
    known = set(keys)
    own = zip(*(c.tolist() for c in (calls.process, calls.thread, calls.start_ns, calls.api)), strict=True)
    return np.array([row for row, key in enumerate(own) if key not in known], dtype=np.int64)


def _other_api(trace: Trace) -> Ints:
    return np.flatnonzero(trace.host_ops.kind == HostKind.API)


def _step_notes(steps: Steps, shown: Sequence[int]) -> dict[str, list[str | None]]:
    kept = ["kept" if steps.kept[step] else "dropped" for step in shown]
    return {"use": list(kept), "reason": [steps.reasons.get(step) for step in shown]}


def _numbers(values: Ints, present: Bools) -> list[int | None]:
    return [value if there else None for value, there in zip(values.tolist(), present.tolist(), strict=True)]


def _known(values: Ints) -> list[int | None]:
    return _numbers(values, values != NONE)


def _operators(trace: Trace, rows: Ints) -> list[str | None]:
    return named(trace.names, follow(trace.host_ops.name, rows))
