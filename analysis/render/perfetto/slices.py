"""What a Perfetto file shows of one trace: its rows as slices with notes, and its counters as series."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Final

import numpy as np

from ...model.columns import Intervals, follow, numbered, threads
from ...model.document import CAUSES
from ...model.trace import NONE, Bools, HostKind, Ints, OpKind, Trace, narrow
from .packets import ABSENT, Flows, Slices, Texts

if TYPE_CHECKING:
    from ...facts.gaps import Gaps
    from ...facts.steps import Steps
    from ...figures.analyses import TraceAnalysis

_API_CATEGORIES: Final = ("launch", "graph launch", "blocking call", "api")


def gpu_op_slices(analysis: TraceAnalysis, first_flow: int) -> Slices:
    """Every GPU op, a row each; flow ``first_flow + row`` leads there from its launch.

    Latency and queue time of a launch stand at its earliest op, whose they are.
    """
    trace, steps, times, graphs = (
        analysis.context.trace,
        analysis.context.steps,
        analysis.context.launch_times,
        analysis.context.replays,
    )
    ops, launches = trace.gpu_ops, trace.launches
    linked = ops.launch_row != NONE
    # skewed clocks: drawn as it was recorded, backwards
    before_launch = linked & (ops.start_ns < follow(launches.start_ns, ops.launch_row))
    flow = np.arange(first_flow, first_flow + len(ops))
    launch_of_first = np.full(len(ops), NONE, np.int64)
    launch_of_first[times.first_op] = np.arange(len(launches))
    return Slices(
        start_ns=ops.start_ns,
        end_ns=ops.end_ns,
        name=Texts(ops.name, trace.names),
        category=Texts(ops.kind, [kind.word for kind in OpKind]),
        numbers={
            "duration_ns": ops.dur_ns,
            "launch_overhead_ns": follow(launches.dur_ns, ops.launch_row, ABSENT),
            "launch_latency_ns": follow(times.latency_ns, launch_of_first, ABSENT),
            "queue_time_ns": follow(times.queue_ns, launch_of_first, ABSENT),
            "bytes": _known(ops.bytes),
            "graph_replay": _known(graphs.op_replay),
            "graph_node": _known(np.where(ops.graph_node != NONE, ops.graph_node, graphs.ordinal)),
            "correlation": _known(ops.correlation),
        },
        texts={
            "launch": _names(trace, launches.api, ops.launch_row),
            "operator": _operators(trace, follow(launches.operator_row, ops.launch_row)),
            "operator_inferred": _inferred(analysis),
            "step": Texts(steps.op_step, steps.names),
            "graph": Texts(follow(graphs.graph, graphs.op_replay), graphs.graph_names),
        },
        flows=Flows(np.append(0, np.cumsum(before_launch)), flow[before_launch]),
        ends_flow=np.where(linked & ~before_launch, flow, NONE),
    )


def _inferred(analysis: TraceAnalysis) -> Texts:
    """Operators that the aligned eager trace tells of kernels in replays."""
    ops, names = analysis.context.trace.gpu_ops, analysis.context.trace.names
    operators = {row.name: row.operator for row in analysis.document.kernels if row.operator_inferred and row.operator}
    of_name = np.full(len(names), NONE, np.int64)
    at = {name: place for place, name in enumerate(operators)}
    for name in np.unique(ops.name).tolist() if operators else ():
        of_name[name] = at.get(names[name], NONE)
    return Texts(of_name[ops.name], list(operators.values()))


def api_call_slices(analysis: TraceAnalysis, first_flow: int) -> tuple[Slices, Ints, Ints]:
    """Launches, then blocking calls that launch nothing, then other API calls; and the process and thread of each."""
    trace, steps, times = analysis.context.trace, analysis.context.steps, analysis.context.launch_times
    launches, calls, host = trace.launches, trace.blocking_calls, trace.host_ops
    blocking, other = _only_blocking(trace), np.flatnonzero(host.kind == HostKind.API)

    def column(name: str) -> Ints:
        return np.concatenate([getattr(launches, name), getattr(calls, name)[blocking], getattr(host, name)[other]])

    launch_row = trace.gpu_ops.launch_row
    by_launch = np.argsort(launch_row, kind="stable")
    unlinked = int((launch_row == NONE).sum())
    gpu_ops = np.bincount(launch_row[launch_row != NONE], minlength=len(launches))
    unknown = np.full(len(other), NONE, dtype=np.int64)
    rest = np.zeros(len(blocking) + len(other), dtype=np.int64)
    kind = np.concatenate([launches.is_graph, np.full(len(blocking), 2), np.full(len(other), 3)])
    api = np.concatenate([launches.api, calls.api[blocking], host.name[other]])
    operator = np.concatenate([launches.operator_row, calls.operator_row[blocking], unknown])
    step = np.concatenate([steps.launch_step, steps.blocking_step[blocking], unknown])
    of_launches = {
        "launch_overhead_ns": launches.dur_ns,
        "launch_latency_ns": times.latency_ns,
        "queue_time_ns": times.queue_ns,
        "gpu_ops": gpu_ops,
        "correlation": launches.correlation,
    }
    slices = Slices(
        start_ns=column("start_ns"),
        end_ns=column("end_ns"),
        name=Texts(api, trace.names),
        category=Texts(kind.astype(np.int8), _API_CATEGORIES),
        numbers={name: np.concatenate([values, rest + ABSENT]) for name, values in of_launches.items()},
        texts={"operator": _operators(trace, operator), "step": Texts(step, steps.names)},
        flows=Flows(
            np.concatenate([[0], np.cumsum(gpu_ops), rest + len(launch_row) - unlinked]),
            first_flow + by_launch[unlinked:],
        ),
    )
    return slices, column("process"), column("thread")


def host_op_slices(trace: Trace) -> Slices:
    """Every host op, a row each."""
    ops = trace.host_ops
    kinds = [kind.word for kind in HostKind]
    return Slices(ops.start_ns, ops.end_ns, Texts(ops.name, trace.names), Texts(ops.kind, kinds))


def step_slices(steps: Steps) -> Slices:
    """The host range of every step that was found."""
    shown = np.arange(len(steps.names))
    return Slices(
        start_ns=steps.start_ns,
        end_ns=steps.end_ns,
        name=Texts(shown, steps.names),
        category=_all("step", len(shown)),
        texts=_step_notes(steps, shown),
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
        name=Texts(shown, steps.names),
        category=_all("gpu step", len(shown)),
        numbers={"gpu_ops": np.bincount(group, minlength=len(shown))},
        texts=_step_notes(steps, shown),
    )


def gap_slices(trace: Trace, steps: Steps, gaps: Gaps) -> Slices:
    """Every gap under its cause; a cut gap as its parts, where they lie. Time by cause equals the gaps' own."""
    cause, gap, start_ns, end_ns = _gap_parts(trace, gaps)
    order = np.lexsort((end_ns, start_ns))
    cause, gap = cause[order], gap[order]
    is_host, is_launch = cause == CAUSES.index("host"), cause == CAUSES.index("launch")
    after_sync_ns = np.where(is_host, gaps.after_sync_ns[gap], 0)
    stall_ns = np.where(is_host, gaps.stall_host_ns[gap], np.where(is_launch, gaps.stall_launch_ns[gap], 0))
    return Slices(
        start_ns=start_ns[order],
        end_ns=end_ns[order],
        name=Texts(cause, CAUSES),
        category=_all("gap", len(gap)),
        numbers={
            "gap": gap,
            "gap_ns": gaps.dur_ns[gap],
            "after_sync_ns": _numbers(after_sync_ns, after_sync_ns > 0),
            "stall_ns": _numbers(stall_ns, stall_ns > 0),
        },
        texts={
            "after": _names(trace, trace.gpu_ops.name, gaps.prev_op[gap]),
            "before": _names(trace, trace.gpu_ops.name, gaps.next_op[gap]),
            "step": Texts(narrow(follow(steps.op_step, gaps.next_op[gap])), steps.names),
            "boundary": _where(gaps.boundary[gap], "between steps"),
            "observer": _where(is_launch & gaps.observer[gap], "mostly the profiler's own cost"),
            "another_thread_in": _names(trace, trace.blocking_calls.api, gaps.waiting_call[gap]),
        },
    )


def _gap_parts(trace: Trace, gaps: Gaps) -> tuple[Ints, Ints, Ints, Ints]:
    """(place in CAUSES, gap, start, end) of every part, those of one cause together."""
    host_end_ns = gaps.start_ns + gaps.parts_ns["sync"] + gaps.parts_ns["host"]
    begins = {"launch": host_end_ns, "dispatch": host_end_ns + gaps.parts_ns["launch"]}
    waited = (gaps.parts_ns["sync"] > 0) & (gaps.parts_ns["host"] > 0)
    parts = []
    for cause in CAUSES:
        there = gaps.parts_ns[cause] > 0
        gap = np.flatnonzero(there & ~waited if cause in ("sync", "host") else there)
        start_ns = begins.get(cause, gaps.start_ns)[gap]
        parts.append(_of_cause(cause, gap, start_ns, start_ns + gaps.parts_ns[cause][gap]))
    rows = np.flatnonzero(waited)
    launch = trace.gpu_ops.launch_row[gaps.next_op[rows]]
    calls = threads(trace.blocking_calls.process, trace.blocking_calls.thread)
    for thread, places in threads(trace.launches.process[launch], trace.launches.thread[launch]).items():
        waits = trace.blocking_calls.take(calls[thread])
        parts += _sync_and_host(gaps, rows[places], host_end_ns, Intervals.union(waits.start_ns, waits.end_ns))
    cause_at, gap_at, start_at, end_at = (np.concatenate(column) for column in zip(*parts, strict=True))
    return cause_at, gap_at, start_at, end_at


def _of_cause(cause: str, gap: Ints, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints, Ints, Ints]:
    return np.full(len(gap), CAUSES.index(cause), np.int8), narrow(gap), start_ns, end_ns


def _sync_and_host(
    gaps: Gaps, gap: Ints, host_end_ns: Ints, waits: Intervals
) -> Iterator[tuple[Ints, Ints, Ints, Ints]]:
    """The parts of gaps before their launch calls: inside a blocking call of the launching thread, or not."""
    since_ns, until_ns = gaps.start_ns[gap], host_end_ns[gap]
    first = np.searchsorted(waits.end_ns, since_ns, side="right")
    count = np.searchsorted(waits.start_ns, until_ns) - first
    place = np.repeat(np.arange(len(gap)), count)
    wait = np.arange(len(place)) + np.repeat(first - (np.cumsum(count) - count), count)
    begin_ns = np.maximum(waits.start_ns[wait], since_ns[place])
    end_ns = np.minimum(waits.end_ns[wait], until_ns[place])
    drawn_ns = np.zeros(len(gap), np.int64)
    np.add.at(drawn_ns, place, end_ns - begin_ns)
    assert (drawn_ns == gaps.parts_ns["sync"][gap]).all(), "a gap's sync part is where its blocking calls are"
    yield _of_cause("sync", gap[place], begin_ns, end_ns)
    where = np.append(np.arange(len(gap)), place)  # of each gap what lies around the waits, which are in order
    starts_ns, ends_ns = np.append(since_ns, end_ns), np.append(until_ns, begin_ns)
    starts_ns, ends_ns = starts_ns[np.lexsort((starts_ns, where))], ends_ns[np.lexsort((ends_ns, where))]
    there = ends_ns > starts_ns
    yield _of_cause("host", gap[np.sort(where)][there], starts_ns[there], ends_ns[there])


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


def _only_blocking(trace: Trace) -> Ints:
    """Rows of blocking calls that are not launches too: a synchronous copy is both, and shown once, as a launch."""
    launches, calls = trace.launches, trace.blocking_calls
    pairs = [(getattr(launches, name), getattr(calls, name)) for name in ("process", "thread", "start_ns", "api")]
    number = numbered(*(np.concatenate(pair) for pair in pairs))
    return np.flatnonzero(~np.isin(number[len(launches) :], number[: len(launches)]))


def _step_notes(steps: Steps, shown: Ints) -> dict[str, Texts]:
    reasons = sorted(set(steps.reasons.values()))
    at = {reason: place for place, reason in enumerate(reasons)}
    reason = np.array([at[steps.reasons[i]] if i in steps.reasons else NONE for i in shown.tolist()], np.int64)
    return {"use": Texts(steps.kept[shown].astype(np.int8), ("dropped", "kept")), "reason": Texts(reason, reasons)}


def _numbers(values: Ints, there: Bools) -> Ints:
    return np.where(there, values.astype(np.int64), ABSENT)


def _known(values: Ints) -> Ints:
    return _numbers(values, values != NONE)


def _where(there: Bools, text: str) -> Texts:
    return Texts(np.where(there, 0, NONE).astype(np.int8), [text])


def _all(text: str, count: int) -> Texts:
    return Texts(np.zeros(count, np.int8), [text])


def _names(trace: Trace, names: Ints, rows: Ints) -> Texts:
    """The names that stand in another table's rows."""
    return Texts(narrow(follow(names, rows)), trace.names)


def _operators(trace: Trace, rows: Ints) -> Texts:
    return _names(trace, trace.host_ops.name, rows)
