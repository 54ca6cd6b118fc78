"""The last step of a reader: its columns become a Trace, and what belongs together is linked.

That is a GPU op and the host call that enqueued it, and a host call and the operator around it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields
from typing import Any, Final, TypeVar

import numpy as np

from ...model.columns import follow, last_reaching, numbered, outermost_first, threads
from ...model.errors import UnreadableInput
from ...model.trace import NONE, BlockingCalls, GpuOps, HostKind, HostOps, Ints, Launches, Notice, Source, Table, Trace

_BLOCKING_COPY: Final = re.compile(r"(?:cuda|hip|cu)Memcpy(?!.*Async)")
_MOST_APART: Final = 1024
CallTable = TypeVar("CallTable", Launches, BlockingCalls)


@dataclass(frozen=True)
class FileFacts:
    """What the file says beside its records, and what its reader has to say."""

    source: Source
    events: int
    device_names: Mapping[int, str | None]
    rank: int | None
    notices: tuple[Notice, ...]
    complete: bool
    world_size: int | None = None
    group_ranks: tuple[tuple[int, ...], ...] = ()


def require_few(path: str, ops: Mapping[str, Ints], calls: Calls) -> None:
    """UnreadableInput where a file names more devices or processes than any recording has; time goes with both."""
    devices, processes = len(np.unique(ops["device"])), len(np.unique(calls.process))
    if max(devices, processes) > _MOST_APART:
        raise UnreadableInput(
            f"{path}: GPU ops of {devices:,} devices and calls of {processes:,} processes, more than {_MOST_APART:,} "
            "of a kind: a damaged file; record or export it again"
        )


def blocks(api: str) -> bool:
    """Whether a host call with this name waits for the GPU."""
    return "Synchronize" in api or _BLOCKING_COPY.match(api) is not None


def assemble(
    facts: FileFacts,
    names: tuple[str, ...],
    ops: Mapping[str, Ints],
    calls: Calls,
    host_ops_with: Callable[[Calls], HostOps],
    *,
    grid_ns: int = 1,
    shapes: tuple[str, ...] = (),
    collectives: tuple[str, ...] = (),
) -> Trace:
    """The trace of ``ops``, the columns of GpuOps without ``launch_row``, and of calls, both by start.

    ``host_ops_with`` gives the host ops by start: those of the file and the calls that neither launch nor block.
    """
    launch_call, launch_row = link(ops["process"], ops["correlation"], calls)
    blocking_call = np.flatnonzero(np.array([blocks(name) for name in names], np.bool_)[calls.api])
    launches, blocking = calls.take(launch_call), calls.take(blocking_call)
    neither = np.ones(len(calls), np.bool_)
    neither[launch_call] = neither[blocking_call] = False
    host_ops = host_ops_with(calls.take(neither)).compact()
    slack_ns = grid_ns if grid_ns > 1 else 0
    is_graph = np.array(["GraphLaunch" in name for name in names], np.bool_)
    return Trace(
        **{each.name: getattr(facts, each.name) for each in fields(facts)},
        names=names,
        gpu_ops=GpuOps(**ops, launch_row=launch_row).compact(),
        launches=_of_calls(
            Launches,
            launches,
            is_graph=is_graph[launches.api],
            operator_row=innermost_operators(host_ops, launches, slack_ns),
        ),
        blocking_calls=_of_calls(
            BlockingCalls, blocking, operator_row=innermost_operators(host_ops, blocking, slack_ns)
        ),
        host_ops=host_ops,
        grid_ns=grid_ns,
        shapes=shapes,
        collectives=collectives,
    )


def _of_calls(kind: type[CallTable], calls: Calls, **more: Any) -> CallTable:
    """A table of some calls: what is known of each, and more columns."""
    known = {each.name: getattr(calls, each.name) for each in fields(kind) if each.name not in more}
    return kind(**known, **more).compact()


_NO_CALL: Final = np.iinfo(np.int64).max


@dataclass(frozen=True, eq=False)
class Calls(Table):
    """Host API calls of any kind, by start."""

    api: Ints  # index into Trace.names
    process: Ints
    thread: Ints
    correlation: Ints  # NONE where the file has none
    position: Ints  # in the file


def home_processes(ops: Mapping[str, Ints], calls: Calls) -> Ints:
    """The host process of each GPU op: records of GPU ops name a device, not the process that drove it.

    One process in the file: that one. Several (merged ranks, whose correlation ids collide): the one that called with
    the op's correlation id; where several did, the one whose calls come before most of that device's ops, and closest.
    """
    processes = np.unique(calls.process)
    home = np.full(len(ops["start_ns"]), processes[0] if len(processes) else NONE, np.int64)
    if len(processes) < 2:
        return home
    devices, device = np.unique(ops["device"], return_inverse=True)
    shape = (len(processes), len(devices))
    fitting, latency = np.zeros(shape, np.int64), np.zeros(shape, np.float64)
    for row, process in enumerate(processes.tolist()):
        start = _call_starts(ops["correlation"], calls, process)
        fits = np.flatnonzero(start <= ops["start_ns"])
        fitting[row] = np.bincount(device[fits], minlength=len(devices))
        latency[row] = np.bincount(device[fits], ops["start_ns"][fits] - start[fits], len(devices))
    rank = np.argsort(np.lexsort((latency, -fitting), axis=0), axis=0)  # [process, device] 0: fits best
    best = np.full(len(home), len(processes))
    for row, process in enumerate(processes.tolist()):
        own = rank[row][device]
        better = (own < best) & (_call_starts(ops["correlation"], calls, process) != _NO_CALL)
        home[better], best[better] = process, own[better]
    nobody = np.flatnonzero(best == len(processes))
    home[nobody] = processes[rank.argmin(axis=0)][device[nobody]]
    return home


def link(process: Ints, correlation: Ints, calls: Calls) -> tuple[Ints, Ints]:
    """The rows of ``calls`` that enqueued a GPU op, by start, and for each op its index among them or NONE.

    The earliest call with a (process, correlation id) is the launch: a runtime call wraps the driver call it makes.
    """
    known = np.flatnonzero(calls.correlation != NONE)
    number = numbered(
        np.concatenate([calls.process[known], process]), np.concatenate([calls.correlation[known], correlation])
    )
    of_calls, of_ops = np.split(number, [len(known)])
    earliest = np.full(int(number.max(initial=NONE)) + 1, NONE, np.int64)
    earliest[of_calls[::-1]] = known[::-1]  # the last one that is written stays
    call_of_op = np.where(correlation == NONE, NONE, earliest[of_ops])
    is_launch = np.zeros(len(calls), np.bool_)
    is_launch[call_of_op[call_of_op != NONE]] = True
    return np.flatnonzero(is_launch), follow(np.cumsum(is_launch) - 1, call_of_op)


def innermost_operators(host_ops: HostOps, calls: Calls, slack_ns: int) -> Ints:
    """For each call the row of the innermost operator around it on its thread, or NONE.

    ``slack_ns`` is how far a call may seem to outlast its operator: files of coarse times round both ends.
    """
    found = np.full(len(calls), NONE, np.int64)
    operators = np.flatnonzero(host_ops.kind == HostKind.OPERATOR)
    if not len(operators) or not len(calls):
        return found
    operators_of = threads(host_ops.process[operators], host_ops.thread[operators])
    for key, own_calls in threads(calls.process, calls.thread).items():
        if key in operators_of:
            own = operators[operators_of[key]]
            own = own[outermost_first(host_ops.start_ns[own], host_ops.end_ns[own])]
            start_ns = calls.start_ns[own_calls]
            reach_ns = np.maximum(start_ns, calls.end_ns[own_calls] - slack_ns)
            before = np.searchsorted(host_ops.start_ns[own], start_ns, side="right")
            around = last_reaching(host_ops.end_ns[own], before, reach_ns - 1)
            found[own_calls] = np.where(around == NONE, NONE, own[around])
    return found


def _call_starts(correlation: Ints, calls: Calls, process: int) -> Ints:
    """Start of this process's earliest call with each correlation id, _NO_CALL where there is none."""
    own = np.flatnonzero((calls.process == process) & (calls.correlation != NONE))
    ids, first = np.unique(calls.correlation[own], return_index=True)
    if not len(ids):
        return np.full(len(correlation), _NO_CALL, np.int64)
    at = np.minimum(np.searchsorted(ids, correlation), len(ids) - 1)
    return np.where(ids[at] == correlation, calls.start_ns[own[first[at]]], _NO_CALL)
