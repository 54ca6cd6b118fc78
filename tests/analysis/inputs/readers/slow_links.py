"""What belongs together, found one row after the other: to hold analysis/inputs/readers/assemble.py against."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping

import numpy as np
from launchscope.analysis.inputs.readers.assemble import Calls
from launchscope.analysis.model.trace import NONE, HostKind, HostOps, Ints


def home_processes(ops: Mapping[str, Ints], calls: Calls) -> Ints:
    """The process of each GPU op: of those that called with its correlation id the one that fits its device best."""
    processes = sorted(set(calls.process.tolist()))
    rows = list(zip(*(ops[name].tolist() for name in ("start_ns", "device", "correlation")), strict=True))
    if len(processes) < 2:
        return np.array([processes[0] if processes else NONE] * len(rows), np.int64)
    first: dict[tuple[int, int], int] = {}
    called = (calls.process.tolist(), calls.correlation.tolist(), calls.start_ns.tolist())
    for process, id, start in zip(*called, strict=True):
        if id != NONE:
            first.setdefault((process, id), start)
    fitting: defaultdict[tuple[int, int], int] = defaultdict(int)
    latency: defaultdict[tuple[int, int], float] = defaultdict(float)
    for start, device, id in rows:
        for process in processes:
            began = first.get((process, id))
            if began is not None and began <= start:
                fitting[device, process] += 1
                latency[device, process] += float(start - began)
    ranked: dict[int, list[int]] = {}
    for device in {device for _, device, _ in rows}:
        ranked[device] = sorted(processes, key=lambda own: (-fitting[device, own], latency[device, own]))
    home = [next((p for p in ranked[device] if (p, id) in first), ranked[device][0]) for _, device, id in rows]
    return np.array(home, np.int64)


def link(process: Ints, correlation: Ints, calls: Calls) -> tuple[Ints, Ints]:
    """The rows of ``calls`` that enqueued a GPU op, and for each op its index among them or NONE."""
    earliest: dict[tuple[int, int], int] = {}
    for row, key in enumerate(zip(calls.process.tolist(), calls.correlation.tolist(), strict=True)):
        earliest.setdefault(key, row)
    keys = list(zip(process.tolist(), correlation.tolist(), strict=True))
    of_op = [NONE if id == NONE else earliest.get((own, id), NONE) for own, id in keys]
    launches = sorted({row for row in of_op if row != NONE})
    place = {row: index for index, row in enumerate(launches)} | {NONE: NONE}
    return np.array(launches, np.int64), np.array([place[row] for row in of_op], np.int64)


def innermost_operators(host_ops: HostOps, calls: Calls, slack_ns: int) -> Ints:
    """For each call the operator around it on its thread that began last, of those the shortest, or NONE."""
    own: defaultdict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
    columns = (host_ops.kind, host_ops.process, host_ops.thread, host_ops.start_ns, host_ops.end_ns)
    for row, (kind, process, thread, start, end) in enumerate(zip(*(c.tolist() for c in columns), strict=True)):
        if kind == HostKind.OPERATOR:
            own[process, thread].append((start, -end, row))
    for operators in own.values():
        operators.sort(reverse=True)
    found = []
    columns = (calls.process, calls.thread, calls.start_ns, calls.end_ns)
    for process, thread, start, end in zip(*(c.tolist() for c in columns), strict=True):
        reach = max(start, end - slack_ns)
        around = (row for began, ended, row in own[process, thread] if began <= start and -ended >= reach)
        found.append(next(around, NONE))
    return np.array(found, np.int64)


def outside(ops: Mapping[str, Ints], calls: Calls, zero_ns: int) -> set[tuple[int, int]]:
    """(0, row) of GPU ops and (1, row) of calls that lie over an hour from the others, or at 0 before all calls."""
    timed = [(int(at), 0, row) for row, at in enumerate(ops["start_ns"])]
    timed = sorted([*timed, *((int(at), 1, row) for row, at in enumerate(calls.start_ns))])
    parts: list[list[tuple[int, int]]] = []
    for number, (at, table, row) in enumerate(timed):
        if not number or at - timed[number - 1][0] > 3_600 * 10**9:
            parts.append([])
        parts[-1].append((table, row))
    middle = timed[len(timed) // 2][1:] if timed else None
    found = {each for part in parts if middle not in part for each in part}
    found = found if 10 * len(found) <= len(timed) else set()
    ids = {*zip(calls.process.tolist(), calls.correlation.tolist(), strict=True)}
    zeros = [row for row, at in enumerate(ops["start_ns"]) if at == zero_ns]
    keys = [(int(ops["process"][row]), int(ops["correlation"][row])) for row in zeros]
    is_launched = any(key in ids and key[1] != NONE for key in keys)
    return found | {(0, row) for row in zeros if is_launched and min(calls.start_ns) > zero_ns}


def without(lost: set[tuple[int, int]], ops: Mapping[str, Ints], calls: Calls) -> tuple[dict[str, Ints], Calls]:
    """The others."""
    of_ops = np.array([(0, row) not in lost for row in range(len(ops["start_ns"]))], np.bool_)
    of_calls = np.array([(1, row) not in lost for row in range(len(calls))], np.bool_)
    return {name: column[of_ops] for name, column in ops.items()}, calls.take(of_calls)
