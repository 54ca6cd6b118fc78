"""Ranks whose numbers can be worked out in the head: a step every 1000 µs, collectives by name, group and times."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from launchscope.analysis.facts.collectives import Collectives, collectives_of
from launchscope.analysis.figures.analyses import TraceAnalysis, analyze_trace
from launchscope.fixtures.builder import TraceBuilder, trace

ALL_REDUCE = "ncclDevKernel_AllReduce_Sum_bf16_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
ALL_GATHER = "ncclDevKernel_AllGather_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
BROADCAST = "ncclDevKernel_Broadcast_RING_LL(ncclDevKernelArgsStorage<4096ul>)"
PERIOD = 1000  # µs
COMPUTE = 100  # µs, at the start of each step

Collective = tuple[int, int]
"""Start in its step and duration, µs."""


def rank_trace(
    rank: int,
    steps: Sequence[Sequence[Collective]],
    *,
    world: int = 2,
    clock: int = 0,
    names: Sequence[str] = (ALL_REDUCE,),
    group: tuple[str, str] | None = None,
    first: int = 0,
    pg_config: list[dict[str, Any]] | None = None,
    stream: int = 7,
) -> TraceBuilder:
    """A rank whose step n computes 100 µs from its start on, launched 20 µs sooner, then runs these collectives.

    Each is launched 10 µs before it starts. ``clock`` is how far the rank's own clock is ahead, µs.
    """
    config = [{"pg_name": "0", "ranks": list(range(world))}] if pg_config is None else pg_config
    made = trace(device_names={rank: "Test GPU"}).header(
        distributedInfo={"backend": "nccl", "rank": rank, "world_size": world, "pg_config": config}
    )
    for number, collectives in enumerate(steps):
        at = clock + 50 + PERIOD * (number + first)
        made.step(number + first, at - 30, PERIOD - 1).launch(at - 20, 5).kernel(at, COMPUTE, device=rank)
        for place, (start, dur) in enumerate(collectives):
            made.launch(at + start - 10, 5).kernel(at + start, dur, name=names[place % len(names)], device=rank)
            told = made._events[-1]
            told["args"]["stream"] = stream
            if group is not None:
                told["args"] |= {"Process Group Name": group[0], "Process Group Ranks": group[1]}
    return made


def analysed(made: TraceBuilder) -> TraceAnalysis:
    return analyze_trace(made.build(), name="a rank")


def collectives(made: TraceBuilder) -> Collectives:
    found = analysed(made)
    return collectives_of(found.context.trace, found.context.steps, found.document.headline_device)
