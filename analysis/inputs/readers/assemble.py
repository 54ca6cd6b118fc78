"""The last step of a reader: its columns become a Trace, and what belongs together is linked."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...model.errors import UnreadableInput
from ...model.trace import BlockingCalls, GpuOps, HostOps, Ints, Launches, Notice, Source, Trace
from .correlate import Calls, innermost_operators, link

_BLOCKING_COPY: Final = re.compile(r"(?:cuda|hip|cu)Memcpy(?!.*Async)")
_WHOLE_US_SLACK_NS: Final = 1000
_MOST_APART: Final = 1024


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
    whole_us: bool = False,
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
    slack_ns = _WHOLE_US_SLACK_NS if whole_us else 0
    is_graph = np.array(["GraphLaunch" in name for name in names], np.bool_)
    return Trace(
        source=facts.source,
        names=names,
        gpu_ops=GpuOps(**ops, launch_row=launch_row).compact(),
        launches=Launches(
            start_ns=launches.start_ns,
            end_ns=launches.end_ns,
            api=launches.api,
            process=launches.process,
            thread=launches.thread,
            correlation=launches.correlation,
            is_graph=is_graph[launches.api],
            operator_row=innermost_operators(host_ops, launches, slack_ns),
        ).compact(),
        blocking_calls=BlockingCalls(
            start_ns=blocking.start_ns,
            end_ns=blocking.end_ns,
            api=blocking.api,
            process=blocking.process,
            thread=blocking.thread,
            operator_row=innermost_operators(host_ops, blocking, slack_ns),
        ).compact(),
        host_ops=host_ops,
        events=facts.events,
        device_names=facts.device_names,
        rank=facts.rank,
        whole_us=whole_us,
        notices=facts.notices,
        complete=facts.complete,
        shapes=shapes,
        collectives=collectives,
        world_size=facts.world_size,
        group_ranks=facts.group_ranks,
    )
