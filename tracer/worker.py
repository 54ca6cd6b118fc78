"""One fresh process, one job: build the target, warm up, time it unprofiled, then one single profiler session.

The order is the point: timing never follows a profiler session in the same process (CUPTI stays attached: launching a
735-node graph then costs 480 µs instead of 25), and no process has a second session (CUPTI before 13.1 update 1 gives
wrong correlation ids for graph launches after the first). Measured on an H200 with torch 2.11 and CUDA 13.0.
"""

from __future__ import annotations

import gc
import importlib
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from ..analysis import capture
from ..analysis.errors import LaunchscopeError
from .device import Device, Step, host_times, marked_steps
from .modes import Prepared, prepare
from .options import ProfileOptions
from .reasons import reason

SEED: Final = 0
WARM_UP_STEPS: Final = 10
BATCHES: Final = 40  # of back-to-back steps; METRICS asks for at least 30
BATCH_NS: Final = 30e6  # a batch runs at least about this long, so that the events' resolution (0.5 µs) vanishes
MOST_STEPS_PER_BATCH: Final = 100
HOST_SUBMITS: Final = 21
STACK_STEPS: Final = 4  # recorded in the `stacks` pass, which is heavy


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process is to do."""

    mode: str
    repeat: int
    trace_pass: str
    folder: str  # the capture under its temporary name
    target: str
    batch_size: int | None
    dtype: str | None
    context_length: int | None
    steps: int
    settings: dict[str, str]
    device_layer: str

    @property
    def trace(self) -> str:
        """Where the trace goes inside the capture."""
        return f"traces/{self.mode}-{self.repeat}-{self.trace_pass}.json.gz"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process found out."""

    process: capture.ProcessRecord | None = None
    target: capture.Target | None = None
    floor: capture.Floor | None = None
    as_written: str | None = None  # why the step ran only as its author made it; its mode is then `as_written`
    refusal: str | None = None  # the target can't be profiled at all
    seconds: dict[str, float] = {}


@dataclass
class _Progress:
    """Where the job stands, what it has measured so far, and where its time went."""

    tell: Callable[[str], None]
    phase: str = "start"
    seconds: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def __call__(self, phase: str) -> None:
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + time.perf_counter() - self.began
        self.phase, self.began = phase, time.perf_counter()
        self.tell(phase)


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a first, short-lived process says about the machine."""

    missing: str | None
    environment: dict[str, str | int | float | bool | None] = {}


def probe(argument: bytes, tell: Callable[[str], None]) -> Probe:
    """Start the device in a process of its own and say what it is. ``argument``: the device layer, as JSON text."""
    tell("probe")
    device = load_device(msgspec.json.decode(argument, type=str))
    missing = device.missing()
    return Probe(missing=missing) if missing else Probe(missing=None, environment=device.environment())


def run(argument: bytes, tell: Callable[[str], None]) -> Result:
    """Do one Job, given as JSON.

    Errors of the target become the record's ``error``, in words; what was measured before is kept.
    """
    job = msgspec.json.decode(argument, type=Job)
    progress = _Progress(tell)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    record = capture.ProcessRecord(repeat=job.repeat, started=started)
    state = _State(job, record, progress)
    try:
        _measure(state)
    except LaunchscopeError as error:
        return Result(refusal=str(error), seconds=progress.seconds)
    except (Exception, SystemExit) as error:
        folder = Path(job.target.rpartition(":")[0] or job.target).parent
        words = reason(error, progress.phase, folder)
        if progress.phase == "build":
            return Result(refusal=f"{job.target}: {words}", seconds=progress.seconds)
        state.keep(error=words)
    progress("end")
    return Result(
        process=state.record,
        target=state.target,
        floor=state.floor,
        as_written=state.as_written,
        seconds=progress.seconds,
    )


@dataclass
class _State:
    """What a job has measured so far; kept when a later phase fails."""

    job: Job
    record: capture.ProcessRecord
    progress: _Progress
    target: capture.Target | None = None
    floor: capture.Floor | None = None
    as_written: str | None = None

    def keep(self, **found: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **found)


def _measure(state: _State) -> None:
    import torch

    from . import outputs
    from .target import resolve
    from .watch import watching

    job, progress = state.job, state.progress
    device = load_device(job.device_layer)
    torch.manual_seed(SEED)
    torch.set_grad_enabled(False)
    progress("build")
    resolved = resolve(_options(job), device.name)
    target = resolved.target
    progress("warm up")
    with watching() as watch:
        warmup = _warm_up(target.step, device, 2)
    watch.refuse()
    state.as_written = watch.as_written()
    state.target = _describe(job, resolved)
    warmup += _warm_up(target.step, device, WARM_UP_STEPS)
    state.keep(warmup_ns=tuple(warmup))
    mode = "eager" if state.as_written else job.mode
    expected = None
    if job.repeat == 0 and mode != "eager":
        progress("output check")
        expected = outputs.reference(target.step, target)
    prepared = prepare(mode, target.step, device, progress, WARM_UP_STEPS)
    _keep_costs(state, prepared)
    if expected is not None:
        progress("output check")
        state.keep(output=outputs.compare(prepared.step, target, expected))
    _time(state, prepared.step, device)
    _record(state, prepared.step, device)
    if mode == "eager" and not state.as_written and job.repeat == 0:
        from .floor import count_floor

        progress("floor")
        state.floor = count_floor(target.step)


def load_device(layer: str) -> Device:
    """The device layer that 'module:name' names."""
    module, _, name = layer.partition(":")
    device: Device = getattr(importlib.import_module(module), name)()
    return device


def _options(job: Job) -> ProfileOptions:
    return ProfileOptions(
        target=job.target,
        batch_size=job.batch_size,
        dtype=job.dtype,
        context_length=job.context_length,
        steps=job.steps,
        settings=job.settings,
    )


def _describe(job: Job, resolved: Any) -> capture.Target:
    from .describe import masked, parameter_count, revision, target_name

    return capture.Target(
        name=target_name(job.target),
        revision=revision(job.target),
        batch_size=resolved.setting.batch_size,
        dtype=resolved.setting.dtype,
        context_length=resolved.setting.context_length,
        parameters=parameter_count(resolved.target.model),
        settings=masked(job.settings),
        labels=resolved.labels,
    )


def _keep_costs(state: _State, prepared: Prepared) -> None:
    state.keep(
        compile_ns=prepared.compile_ns,
        capture_ns=prepared.capture_ns,
        graph_memory_bytes=prepared.graph_memory_bytes,
        notes=prepared.notes,
    )


def _warm_up(step: Step, device: Device, count: int) -> list[float]:
    """Host time of each step including its wait, ns."""
    times = []
    for _ in range(count):
        begin = time.perf_counter_ns()
        step()
        device.synchronize()
        times.append(float(time.perf_counter_ns() - begin))
    return times


def _time(state: _State, step: Step, device: Device) -> None:
    """T's samples, then host_submit's; the GPU is warm and nothing has profiled in this process."""
    state.progress("timing")
    estimate = min(_warm_up(step, device, 5))
    steps = int(min(max(round(BATCH_NS / estimate), 1), MOST_STEPS_PER_BATCH))
    gc.collect()
    before = device.state()
    device.time_batches(step, 2, steps)  # the clocks are up and the allocator has settled
    samples = device.time_batches(step, BATCHES, steps)
    state.keep(
        samples_ns=tuple(samples),
        steps_per_sample=steps,
        host_submit_ns=tuple(host_times(step, HOST_SUBMITS, device.synchronize)),
        before=before,
        after=device.state(),
    )


def _record(state: _State, step: Step, device: Device) -> None:
    """One profiler session; the first step is a sacrifice, since CUPTI can drop a session's first records."""
    job = state.job
    state.progress("profiler session")
    count = STACK_STEPS if job.trace_pass == "stacks" else job.steps
    with device.session(job.trace_pass) as session:
        marks = marked_steps(step, count)
    state.progress("export")
    session.export(Path(job.folder) / job.trace)
    state.keep(trace_pass=job.trace_pass, trace=job.trace, marks_ns=tuple(marks))
