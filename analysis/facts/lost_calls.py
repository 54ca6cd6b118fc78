"""Calls that enqueue work and have no GPU op in the file: what the recording lacks, and where."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Final

import numpy as np

from ..model.columns import threads
from ..model.trace import Bools, HostKind, Ints, Trace

_ENQUEUES: Final = re.compile(r"Launch(?:Cooperative)?Kernel|GraphLaunch")

_WHERE_RECORDED: Final = re.compile(r"Launch(?!HostFunc)|(?:cuda|hip|cu)Memcpy\w*Async")
"""Counted where the file has ops of such calls: else nothing says that a copy was not empty, or is recorded at all."""

_DRAINS: Final = re.compile(r"(?:cuda|hip)DeviceSynchronize|cuCtxSynchronize")
"""When such a call returns, the GPU has done all that its process asked for: no recording ended before that."""


@dataclass(frozen=True, eq=False)
class LostCalls:
    """Rows of host_ops that launch a kernel or a graph, without a GPU op: by where they stand.

    What stands before the first launch that has its op, or after the last, is cut: the recording began or ended there.
    Where the host waited for the GPU after it, the recording did not end there.
    """

    head: Ints
    inside: Ints
    tail: Ints
    is_graph: Bools  # [host_ops]

    @property
    def graph_launches(self) -> Ints:
        """Those inside that launch a graph: whole replays are missing."""
        return self.inside[self.is_graph[self.inside]]

    @property
    def rows(self) -> Ints:
        """All of them, by start."""
        return np.sort(np.concatenate([self.head, self.inside, self.tail]))


def find_lost_calls(trace: Trace) -> LostCalls:
    """Not those around or inside another launch: a runtime call wraps the driver call that does its work. Nor between
    the begin and the end of a capture on their thread: nothing runs then. Without a launch in the file all are inside.
    """
    host, launches = trace.host_ops, trace.launches
    enqueues = np.array([_ENQUEUES.search(name) is not None for name in trace.names], np.bool_)
    for api in np.unique(launches.api).tolist():
        enqueues[api] |= _WHERE_RECORDED.search(trace.name(api)) is not None
    is_graph = np.array(["GraphLaunch" in name for name in trace.names], np.bool_)
    rows = np.flatnonzero(host.kind == HostKind.API)
    rows = rows[enqueues[host.name[rows]]]
    rows = rows[~_beside_launches(trace, rows) & ~_nested(trace, rows)]
    rows = rows[~_capturing(trace, rows)]
    head, tail = np.zeros(len(rows), np.bool_), np.zeros(len(rows), np.bool_)
    for process in np.unique(host.process[rows]).tolist() if len(launches) else ():
        of_process = launches.process == process
        launched = launches.start_ns[of_process] if of_process.any() else launches.start_ns
        own, start = host.process[rows] == process, host.start_ns[rows]
        head |= own & (start < launched[0])
        tail |= own & (start > max(int(launched[-1]), _drained_ns(trace, process)))
    return LostCalls(rows[head], rows[~head & ~tail], rows[tail], is_graph[host.name])


def _drained_ns(trace: Trace, process: int) -> int:
    """Start of the process's last call that waited for all of the GPU's work."""
    calls = trace.blocking_calls
    drains = np.array([_DRAINS.match(name) is not None for name in trace.names], np.bool_)
    found = calls.start_ns[drains[calls.api] & (calls.process == process)]
    return int(found[-1]) if len(found) else int(np.iinfo(np.int64).min)


def _beside_launches(trace: Trace, rows: Ints) -> Bools:
    """True where a row of host_ops lies inside a launch call of its thread, or holds one."""
    host, launches = trace.host_ops, trace.launches
    found = np.zeros(len(rows), np.bool_)
    launches_of = threads(launches.process, launches.thread)
    for thread, here in threads(host.process[rows], host.thread[rows]).items():
        calls = launches_of.get(thread, here[:0])
        start, end = launches.start_ns[calls], host.end_ns[rows[here]]
        reached = np.append(np.maximum.accumulate(launches.end_ns[calls]), np.iinfo(np.int64).min)
        last = np.searchsorted(start, host.start_ns[rows[here]], side="right") - 1
        # none before it: the last entry
        inside = (reached[last] > host.start_ns[rows[here]]) & (reached[last] >= end - trace.clock_ns)
        holds = np.searchsorted(start, end) > last + 1
        found[here] = inside | holds
    return found


def _nested(trace: Trace, rows: Ints) -> Bools:
    """True where a row lies inside another of them on its thread: the outer one counts."""
    host = trace.host_ops
    found = np.zeros(len(rows), np.bool_)
    for here in threads(host.process[rows], host.thread[rows]).values():
        here = here[np.lexsort((-host.end_ns[rows[here]], host.start_ns[rows[here]]))]
        reach = np.maximum.accumulate(host.end_ns[rows[here]])
        start, end = host.start_ns[rows[here[1:]]], host.end_ns[rows[here[1:]]]
        found[here[1:]] = (start < reach[:-1]) & (end - trace.clock_ns <= reach[:-1])
    return found


def _capturing(trace: Trace, rows: Ints) -> Bools:
    """True where a row stands between the begin and the end of a capture of its thread."""
    host = trace.host_ops
    found = np.zeros(len(rows), np.bool_)
    begins, ends = (
        np.flatnonzero(np.array([word in name for name in trace.names], np.bool_)[host.name])
        for word in ("StreamBeginCapture", "StreamEndCapture")
    )
    if not len(begins) and not len(ends):
        return found
    begins_of, ends_of = (threads(host.process[each], host.thread[each]) for each in (begins, ends))
    for thread, here in threads(host.process[rows], host.thread[rows]).items():
        its_begins = begins[begins_of.get(thread, begins[:0])]
        its_ends = ends[ends_of.get(thread, ends[:0])]
        start = host.start_ns[rows[here]]
        open_captures = np.searchsorted(host.start_ns[its_begins], start) - np.searchsorted(
            host.start_ns[its_ends], start
        )
        # an end before every begin: the recording began inside that capture
        began_inside = len(its_ends) > 0 and not (host.start_ns[its_begins] < host.start_ns[its_ends[0]]).any()
        found[here] = open_captures + began_inside > 0
    return found
