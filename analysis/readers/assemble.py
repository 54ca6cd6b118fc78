"""The last step of a reader: columns of GPU ops, calls and host ops become a Trace, linked and sorted by start."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import fields
from typing import Final

import numpy as np

from ..trace import BlockingCalls, GpuOps, HostKind, HostOps, Ints, Launches, Notice, Source, Trace
from .correlate import Calls, innermost_operators, link

_BLOCKING_COPY: Final = re.compile(r"(?:cuda|hip|cu)Memcpy(?!.*Async)")


def blocks(api: str) -> bool:
    """Whether a host call with this name waits for the GPU."""
    return "Synchronize" in api or _BLOCKING_COPY.match(api) is not None


def assemble(
    source: Source,
    names: Sequence[str],
    ops: Mapping[str, Ints],
    calls: Calls,
    host: HostOps,
    *,
    events: int,
    device_names: Mapping[int, str | None],
    notices: tuple[Notice, ...] = (),
    complete: bool = True,
) -> Trace:
    """The trace of columns in file order; ``ops`` are those of GpuOps without ``launch_row``, ``host`` lacks calls."""
    order = np.argsort(ops["start_ns"], kind="stable")
    ops = {name: column[order] for name, column in ops.items()}
    calls = calls.take(np.argsort(calls.start_ns, kind="stable"))
    launch_call, launch_row = link(ops["process"], ops["correlation"], calls)
    blocking_call = np.flatnonzero(np.array([blocks(name) for name in names], np.bool_)[calls.api])
    launches, blocking = calls.take(launch_call), calls.take(blocking_call)
    neither = np.ones(len(calls), np.bool_)
    neither[launch_call] = neither[blocking_call] = False
    host = _with_calls(host, calls.take(neither))
    is_graph = np.array(["GraphLaunch" in name for name in names], np.bool_)
    return Trace(
        source=source,
        names=tuple(names),
        gpu_ops=GpuOps(**ops, launch_row=launch_row),
        launches=Launches(
            start_ns=launches.start_ns,
            end_ns=launches.end_ns,
            api=launches.api,
            process=launches.process,
            thread=launches.thread,
            correlation=launches.correlation,
            is_graph=is_graph[launches.api],
            operator_row=innermost_operators(host, launches, 0),
        ),
        blocking_calls=BlockingCalls(
            start_ns=blocking.start_ns,
            end_ns=blocking.end_ns,
            api=blocking.api,
            process=blocking.process,
            thread=blocking.thread,
            operator_row=innermost_operators(host, blocking, 0),
        ),
        host_ops=host,
        events=events,
        device_names=dict(device_names),
        notices=notices,
        complete=complete,
    )


def _with_calls(host: HostOps, calls: Calls) -> HostOps:
    """Host ops and calls that are nothing else, by start; the longer of equal starts is around the other."""
    more = {
        "start_ns": calls.start_ns,
        "end_ns": calls.end_ns,
        "name": calls.api,
        "kind": np.full(len(calls), HostKind.API, np.int64),
        "process": calls.process,
        "thread": calls.thread,
    }
    both = HostOps(**{f.name: np.concatenate([getattr(host, f.name), more[f.name]]) for f in fields(HostOps)})
    return both.take(np.lexsort((-both.end_ns, both.start_ns)))
