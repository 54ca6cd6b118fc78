"""Recordings of a simulated decode loop: what happened is known, because the simulation made it happen."""

from __future__ import annotations

from dataclasses import dataclass, field
from itertools import pairwise
from random import Random
from typing import Final

from launchscope.fixtures.builder import STREAM, TraceBuilder, trace

MARKS: Final = ("ProfilerStep", "annotation", "none")
STARTS_AFTER: Final = (900, 4000)  # ns from the end of a launch call to its first op, at the least


@dataclass
class Op:
    """A kernel, copy or memset that ran."""

    kind: str
    name: str
    start: int
    dur: int
    correlation: int
    step: int
    stream: int = STREAM


@dataclass
class Call:
    """A host call: it launches, or it waits."""

    api: str
    start: int
    dur: int
    correlation: int
    step: int


@dataclass
class Mark:
    """A range with a name: a step, or a layer of one."""

    name: str
    start: int
    dur: int


@dataclass
class Recording:
    """All that a profiler saw; times in ns."""

    marks: list[Mark] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    dressing: str = "ProfilerStep"
    replays: bool = False

    def builder(self) -> TraceBuilder:
        """The file that the profiler wrote."""
        made = trace()
        for mark in self.marks:
            made.annotation(mark.name, mark.start / 1000, mark.dur / 1000)
        for call in self.calls:
            made.launch(call.start / 1000, call.dur / 1000, call.api, correlation=call.correlation)
        for op in self.ops:
            add = {"kernel": made.kernel, "memcpy": made.memcpy, "memset": made.memset}[op.kind]
            add(op.start / 1000, op.dur / 1000, name=op.name, stream=op.stream, correlation=op.correlation)
        return made


def made(random: Random) -> Recording:
    """A loop of one kind of step: eager, one replay a step or a replay a layer; a copy and a sync at its end."""
    mode = random.choice(("eager", "graph", "piecewise"))
    steps, layers, per_layer = random.randint(5, 9), random.randint(2, 5), random.randint(4, 6)
    layer_marks, sync = random.random() < 0.5, random.random() < 0.7
    recording = Recording(dressing=random.choice(MARKS), replays=mode != "eager")
    host, device, correlation = random.randint(1001, 9999), 0, 0
    for step in range(steps):
        began = host
        for layer in range(layers):
            layer_began = host
            for position in range(per_layer):
                first = position == 0 and (mode == "piecewise" or layer == 0)
                if mode == "eager" or first:
                    correlation += 1
                    cost = random.randint(2000, 6000)
                    api = "cudaLaunchKernel" if mode == "eager" else "cudaGraphLaunch"
                    recording.calls.append(Call(api, host, cost, correlation, step))
                    host += cost
                    asked = host + random.randint(*STARTS_AFTER)
                    host += random.randint(500, 5000)
                start = max(device + random.randint(300, 1500), asked)
                dur = random.randint(1500, 12000)
                name = f"layer_{layer}_kernel_{position}" if mode == "graph" else f"kernel_{position}"
                recording.ops.append(Op("kernel", name, start, dur, correlation, step))
                device = start + dur
            if layer_marks and mode != "graph" and recording.dressing != "none":  # alone, layers would be the steps
                recording.marks.append(Mark(f"layer {layer}", layer_began, host - layer_began))
        correlation += 1
        recording.calls.append(Call("cudaMemcpyAsync", host, 3000, correlation, step))
        start = max(device + 1000, host + 4000)
        name = "Memcpy DtoH (Device -> Pinned)"
        recording.ops.append(Op("memcpy", name, start, 1800, correlation, step))
        device, host = start + 1800, host + 3500
        if sync:
            correlation += 1
            wait = max(device - host, 0) + 1500
            recording.calls.append(Call("cudaStreamSynchronize", host, wait, correlation, step))
            host += wait
        if recording.dressing != "none":
            name = f"ProfilerStep#{step}" if recording.dressing == "ProfilerStep" else f"decode step {step}"
            recording.marks.append(Mark(name, began - 200, host - began + 400))
        host += random.randint(1000, 9000)
    return recording


@dataclass(frozen=True)
class Truth:
    """What a loop took: per step, and from the first op's start to the last one's end."""

    periods: tuple[int, ...]
    work: tuple[int, ...]
    launches: int
    kernels: int
    window: int
    busy: int
    node: int

    @classmethod
    def of(cls, recording: Recording) -> Truth:
        """The truth of a recording in which nothing is damaged; its ops run one after the other."""
        ops = recording.ops
        steps = range(ops[-1].step + 1)
        per_step = len(ops) // len(steps)
        periods = tuple(later.start - op.start for op, later in zip(ops, ops[per_step:], strict=False))
        if recording.dressing != "none":
            periods = periods[::per_step]
        apart = pairwise(ops)
        return cls(
            periods=periods,
            work=tuple(sum(op.dur for op in ops if op.step == step) for step in steps),
            launches=len({op.correlation for op in ops if op.step == 0}),
            kernels=sum(op.kind == "kernel" for op in ops if op.step == 0),
            window=ops[-1].start + ops[-1].dur - ops[0].start,
            busy=sum(op.dur for op in ops),
            node=sum(b.start - a.start - a.dur for a, b in apart if a.correlation == b.correlation),
        )
