"""Stacks: the operators and Python frames around a host call, outermost first."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

import numpy as np

from .trace import HostKind, HostOps, Ints, Trace

Stack = tuple[int, ...]
"""Indices into Trace.names, outermost first."""


def enclosing_stacks(trace: Trace, start_ns: Ints, process: Ints, thread: Ints) -> list[Stack]:
    """For each host call the operators and Python frames open on its thread when it starts; () where none is.

    Annotations are left out: their numbers would make every step a place of its own.
    """
    host = trace.host_ops
    frames = np.flatnonzero((host.kind == HostKind.OPERATOR) | (host.kind == HostKind.PYTHON))
    stacks: list[Stack] = [()] * len(start_ns)
    if not len(frames):
        return stacks
    frames = frames[np.lexsort((-host.end_ns[frames], host.start_ns[frames]))]
    frames_of = _by_thread(frames.tolist(), host.process[frames], host.thread[frames])
    calls_of = _by_thread(np.argsort(start_ns, kind="stable").tolist(), process, thread, indexed=True)
    known: dict[tuple[Stack, int], Stack] = {}
    for key, calls in calls_of.items():
        if key in frames_of:
            _walk(host, frames_of[key], calls, start_ns, stacks, known)
    return stacks


def _by_thread(
    rows: Iterable[int], process: Ints, thread: Ints, *, indexed: bool = False
) -> dict[tuple[int, int], list[int]]:
    """Rows by (process, thread) of their own; columns stand in the order of the rows, or are indexed by them."""
    groups: dict[tuple[int, int], list[int]] = defaultdict(list)
    processes, threads = process.tolist(), thread.tolist()
    for position, row in enumerate(rows):
        at = row if indexed else position
        groups[processes[at], threads[at]].append(row)
    return groups


def _walk(
    host: HostOps,
    frames: list[int],
    calls: list[int],
    start_ns: Ints,
    stacks: list[Stack],
    known: dict[tuple[Stack, int], Stack],
) -> None:
    """One thread's frames (outer before inner) and calls, by start; equal stacks are one object."""
    starts, ends, names = (column[frames].tolist() for column in (host.start_ns, host.end_ns, host.name))
    opened = 0
    ends_open: list[int] = []
    stack_open: list[Stack] = [()]
    for call in calls:
        now = int(start_ns[call])
        while opened < len(starts) and starts[opened] <= now:
            _close(ends_open, stack_open, starts[opened])
            ends_open.append(ends[opened])
            key = (stack_open[-1], names[opened])
            stack_open.append(known.setdefault(key, (*key[0], key[1])))
            opened += 1
        _close(ends_open, stack_open, now)
        stacks[call] = stack_open[-1]


def _close(ends_open: list[int], stack_open: list[Stack], now: int) -> None:
    while ends_open and ends_open[-1] <= now:
        ends_open.pop()
        stack_open.pop()
