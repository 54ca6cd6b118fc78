"""Recordings of a simulated decode loop: what happened is known, because the simulation made it happen."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from random import Random
from statistics import median
from typing import Final

from launchscope.fixtures.builder import PROCESS, STREAM, TraceBuilder, trace

MARKS: Final = ("ProfilerStep", "annotation", "none")
MODES: Final = ("eager", "graph", "piecewise")
REPLAYS: Final = MODES[1:]
SIDE: Final = STREAM + 1
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
    """All that a profiler saw of one rank; times in ns."""

    marks: list[Mark] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)
    ops: list[Op] = field(default_factory=list)
    dressing: str = "ProfilerStep"
    process: int = PROCESS
    device: int = 0
    other: Recording | None = None  # of another rank, in the same file

    def everything(self) -> list[Op | Call | Mark]:
        """All records."""
        return [*self.ops, *self.calls, *self.marks]

    def builder(self, into: TraceBuilder | None = None) -> TraceBuilder:
        """The file that the profiler wrote."""
        made = trace() if into is None else into
        for mark in self.marks:
            made.annotation(mark.name, mark.start / 1000, mark.dur / 1000, process=self.process)
        for call in self.calls:
            ids = {"process": self.process, "correlation": call.correlation}
            made.launch(call.start / 1000, call.dur / 1000, call.api, **ids)
        for op in self.ops:
            add = {"kernel": made.kernel, "memcpy": made.memcpy, "memset": made.memset}[op.kind]
            ids = {"device": self.device, "stream": op.stream, "correlation": op.correlation}
            add(op.start / 1000, op.dur / 1000, name=op.name, **ids)
        return made if self.other is None else self.other.builder(made)


def made(random: Random, modes: Sequence[str] = MODES, streams: Sequence[int] = (1, 1, 2)) -> Recording:
    """A loop of one kind of step: eager, one replay a step or a replay a layer; a copy and a sync at its end."""
    mode = random.choice(modes)
    steps, layers, per_layer = random.randint(5, 9), random.randint(2, 5), random.randint(4, 6)
    layer_marks, sync = random.random() < 0.5, random.random() < 0.7
    side, memsets, parts = random.choice(streams) > 1, random.random() < 0.3, random.random() < 0.3
    recording = Recording(dressing=random.choice(MARKS))
    host, device, correlation = random.randint(1001, 9999), 0, 0
    for step in range(steps):
        began = host
        for layer in range(layers):
            layer_began, joined = host, joined_at(recording.ops[-per_layer:])
            for position in range(per_layer):
                first = position == 0 and (mode == "piecewise" or layer == 0)
                if mode == "eager" or first:
                    correlation += 1
                    cost = random.randint(2000, 6000)
                    api = "cudaLaunchKernel" if mode == "eager" else "cudaGraphLaunch"
                    api = "cudaMemsetAsync" if mode == "eager" and memsets and position == 1 else api
                    recording.calls.append(Call(api, host, cost, correlation, step))
                    host += cost
                    asked = host + random.randint(*STARTS_AFTER)
                    host += random.randint(500, 5000)
                at_its_side = side and position == 2  # it runs beside the op before it
                ready = recording.ops[-1].start + random.randint(1, 900) if at_its_side else device
                ready = max(ready if at_its_side else ready + random.randint(300, 1500), joined)
                start = max(ready, asked, recording.ops[-1].start + 1 if recording.ops else 0)
                dur = random.randint(1500, 12000)
                name = f"layer_{layer}_kernel_{position}" if mode == "graph" else f"kernel_{position}"
                kind = "memset" if memsets and position == 1 else "kernel"
                stream = SIDE if at_its_side else STREAM
                name = name if kind == "kernel" else "Memset (Device)"
                recording.ops.append(Op(kind, name, start, dur, correlation, step, stream))
                device = device if at_its_side else start + dur
            if layer_marks and mode != "graph" and recording.dressing != "none":  # alone, layers would be the steps
                recording.marks.append(Mark(f"layer {layer}", layer_began, host - layer_began))
                if parts and host - layer_began > 2000:
                    recording.marks.append(Mark("attention", layer_began + 100, host - layer_began - 1000))
        correlation += 1
        recording.calls.append(Call("cudaMemcpyAsync", host, 3000, correlation, step))
        start = max(device + 1000, joined_at(recording.ops[-per_layer:]) + 1000, host + 4000)
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


def joined_at(ops: Sequence[Op]) -> int:
    """When all ops so far have ended."""
    return max((op.start + op.dur for op in ops), default=0)


def busy_ns(ops: Sequence[Op], since: int, until: int) -> int:
    """How long ops ran between two times, each moment once."""
    busy, reached = 0, since
    for op in sorted(ops, key=lambda op: op.start):
        end = min(op.start + op.dur, until)
        busy += max(0, end - max(op.start, reached))
        reached = max(reached, end)
    return busy


@dataclass(frozen=True)
class Truth:
    """What a loop took: per step, and from the first op's start to the last one's end.

    Where steps are not marked, a step may begin at any op: then periods, work and idle are of each of those.
    """

    periods: tuple[int, ...]
    work: tuple[int, ...]
    idle: tuple[float, ...]  # shares of the periods
    shares: tuple[float, float]  # of work in the period, by the medians of all steps and of all but one
    launches: int
    kernels: int
    window: int
    busy: int
    node: int

    @classmethod
    def of(cls, recording: Recording) -> Truth:
        """The truth of a recording in which nothing is damaged; its ops start one after the other."""
        ops = recording.ops
        steps = range(ops[-1].step + 1)
        per_step = len(ops) // len(steps)
        every = 1 if recording.dressing == "none" else per_step
        idle, node = _idle_before(ops)
        firsts = range(0, len(ops) - per_step, every)
        periods = tuple(ops[first + per_step].start - ops[first].start for first in firsts)
        lasting = [ops[first : first + per_step] for first in range(0, len(ops) - per_step + 1, every)]
        end = joined_at(ops)
        work = tuple(busy_ns(of_step, of_step[0].start, end) for of_step in lasting)
        begins = per_step // every  # at how many ops a step may begin
        shares = [share for n in range(begins) for share in _shares(work[n::begins], periods[n::begins])]
        return cls(
            periods=periods,
            work=work,
            shares=(min(shares), max(shares)),
            idle=tuple((idle[n + per_step] - idle[n]) / period for n, period in zip(firsts, periods, strict=True)),
            launches=len({op.correlation for op in ops if op.step == 0}),
            kernels=sum(op.kind == "kernel" for op in ops if op.step == 0),
            window=end - ops[0].start,
            busy=end - ops[0].start - idle[-1],
            node=node,
        )


def _shares(work: Sequence[int], periods: Sequence[int]) -> list[float]:
    """Median work by median period: of these steps, and of all but each."""
    steps = range(len(work))
    kept = [steps, *([step for step in steps if step != left_out] for left_out in steps)]
    return [
        median(work[step] for step in some) / median(periods[step] for step in some if step < len(periods))
        for some in kept
    ]


def _idle_before(ops: Sequence[Op]) -> tuple[list[int], int]:
    """Per op how long the GPU was idle until it started, and how much of it all between nodes of one replay."""
    idle, node, last = [0], 0, ops[0]
    for op in ops[1:]:
        gap = max(0, op.start - last.start - last.dur)
        idle.append(idle[-1] + gap)
        node += gap * (op.correlation == last.correlation)
        last = max(last, op, key=lambda op: (op.start + op.dur, op.start))
    return idle, node
