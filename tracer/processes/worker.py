"""One fresh process, one job: build the target and measure it in one mode (see protocol)."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import msgspec

from ...analysis.model import capture
from ...analysis.model.errors import LaunchscopeError, MissingRequirement
from ..measure import protocol
from ..measure.device import Environment, Step, load_device
from ..measure.protocol import NO_OTHER_RANKS, NotCaptured, Ranks
from ..target.checkout import Checkout
from ..target.describe import masked, parts_of_target, revision, target_name
from ..target.options import TargetOptions
from ..target.reasons import NO_CAPTURE, Compiler, failure, reason
from .exchange import JobRanks
from .server import Channel

if TYPE_CHECKING:
    from ..target.target import Resolved

SEED: Final = 0
STACK_STEPS: Final = 3  # recorded in the `stacks` pass, which is heavy
TEARDOWN_S: Final = 20.0
"""Longest that a process group may take to go away: one whose collectives a graph still holds never does."""


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process is to do."""

    options: TargetOptions
    mode: str
    repeat: int
    trace_pass: str  # 'timing': nothing is recorded
    steps: int
    folder: str  # the capture under its temporary name
    device_layer: str
    checkout: Checkout | None = None  # the revision that the target lies in
    job_ranks: JobRanks | None = None  # the ranks that run it, of which this is one; null for one process alone

    @property
    def rank(self) -> int | None:
        return None if self.job_ranks is None else self.job_ranks.place.rank


def now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")


def trace_name(mode: str, repeat: int, trace_pass: str, rank: int | None) -> str:
    """Where a process's trace goes inside the capture."""
    return f"traces/{mode}-{repeat}-{trace_pass}{'' if rank is None else f'-rank{rank}'}.json.gz"


class Result(msgspec.Struct, kw_only=True):
    """What a child process found out."""

    process: capture.ProcessRecord | None = None
    target: capture.Target | None = None
    floor: capture.Floor | None = None
    as_written: str | None = None  # why the step ran only as its author made it; its mode is then `as_written`
    refusal: str | None = None  # the target can't be profiled at all
    seconds: dict[str, float] = {}


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe is to look at."""

    device_layer: str
    local_rank: int = 0


class Probe(msgspec.Struct, frozen=True, kw_only=True):
    """What a first, short-lived process says about what it, or its rank, has to run on."""

    missing: str | None = None
    environment: Environment = {}
    identity: str | None = None  # no other GPU of its host has the same
    host: str = ""
    local_rank: int = 0


def probe(argument: bytes, tell: Callable[[str], None]) -> Probe:
    """Start the device in a process of its own and say what it is."""
    request = msgspec.json.decode(argument, type=ProbeRequest)
    tell("probe")
    device = load_device(request.device_layer)
    missing = device.missing() or device.use(request.local_rank)
    if missing:
        return Probe(missing=missing)
    return Probe(environment=device.environment(), identity=device.identity())


def run(argument: bytes, channel: Channel) -> Result:
    """Do one Job, given as JSON.

    Errors of the target become the record's ``error``, in words; what was measured before is kept.
    """
    job = msgspec.json.decode(argument, type=Job)
    progress = protocol.Progress(channel)
    record = capture.ProcessRecord(repeat=job.repeat, rank=job.rank, started=now())
    state = _State(job, Result(process=record, seconds=progress.seconds), progress, channel)
    try:
        if job.job_ranks is not None:
            state.ranks = job.job_ranks.join()
        _measure(state)
    except LaunchscopeError as error:
        return Result(refusal=str(error), seconds=progress.seconds)
    except BaseException as error:  # a KeyboardInterrupt is the target's own: Ctrl-C does not reach this process
        words = reason(error, progress.phase, state.folder)
        if progress.phase == "build":
            return Result(refusal=f"{job.options.target}: {words}", seconds=progress.seconds)
        _keep_failure(state, error, words)
    state.keep(compiler=state.compiler.record(state.folder))
    progress("end")
    if job.job_ranks is not None and state.record.error is None:  # ranks end when all are done
        channel.keep(state.found)  # as another one may not come
        state.ranks.barrier()
        if (note := _leave()) is not None:
            state.note(note)
    return state.found


def _leave() -> str | None:
    """Take the process group down once no graph holds its collectives: the other way round it hangs. What to note."""
    import torch

    for found in gc.get_objects():
        if issubclass(type(found), torch.cuda.CUDAGraph):  # isinstance would ask __class__, which may do anything
            found.reset()
    gc.collect()
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]

    def destroy() -> None:
        if device is not None:
            torch.cuda.set_device(device)  # which each thread has for itself
        torch.distributed.destroy_process_group()

    teardown = threading.Thread(target=destroy, daemon=True)
    teardown.start()
    teardown.join(TEARDOWN_S)
    return f"the process group did not end within {TEARDOWN_S:g} s" if teardown.is_alive() else None


def _keep_failure(state: _State, error: BaseException, words: str) -> None:
    """Why the mode failed; a capture is tried once more, to see at which operator it fails."""
    found = failure(error, state.progress.phase, state.folder)
    state.keep(error=words, failure=found)
    if isinstance(error, NotCaptured) and found.reason.startswith(NO_CAPTURE):
        state.channel.keep(state.found)  # the second attempt can take the process down with it
        device = load_device(state.job.device_layer)
        operator = protocol.failing_operator(error.step, device, found.line, state.folder)
        state.keep(failure=msgspec.structs.replace(found, operator=operator))


@dataclass
class _State:
    """What a job has measured so far; kept when a later phase fails."""

    job: Job
    found: Result
    progress: protocol.Progress
    channel: Channel
    ranks: Ranks = NO_OTHER_RANKS
    compiler: Compiler = field(default_factory=Compiler)

    @property
    def folder(self) -> Path:
        return Path(parts_of_target(self.job.options.target)[0]).parent

    @property
    def record(self) -> capture.ProcessRecord:
        assert self.found.process is not None
        return self.found.process

    def keep(self, **found: Any) -> None:
        self.found.process = msgspec.structs.replace(self.record, **found)

    def note(self, note: str) -> None:
        self.keep(notes=(*self.record.notes, note))


def _measure(state: _State) -> None:
    import torch

    from ..target.target import resolve
    from ..target.watch import Buffers, watching_captures

    job, found, progress, ranks = state.job, state.found, state.progress, state.ranks
    device = load_device(job.device_layer)
    if job.job_ranks is not None and (refusal := device.use(job.job_ranks.place.local_rank)) is not None:
        raise MissingRequirement(refusal)
    torch.manual_seed(SEED)
    torch.set_grad_enabled(False)
    if job.checkout is not None:
        job.checkout.enter()
    progress("build")
    with watching_captures(state.folder) as seen:
        resolved = resolve(job.options, device.name)
        target = resolved.target
        buffers = Buffers.of(target.step, target.inputs, others=False) if job.repeat == 0 else None
        warmup, found.as_written = protocol.first_steps(target, device, progress)
    if job.checkout is not None:
        job.checkout.refuse_strangers()
    found.target = describe(job.options, resolved)
    own_graphs, replaced = protocol.target_graphs(seen, target, buffers, found.as_written, several=ranks.several)
    state.keep(warmup_ns=tuple(warmup), own_graphs=own_graphs, replaced=replaced)
    del buffers
    mode = "eager" if found.as_written else job.mode
    step, costs = protocol.into_mode(mode, target, device, progress, check=job.repeat == 0, ranks=ranks)
    state.keep(**costs)
    if job.trace_pass != "stacks":  # no time is ever taken from that process
        state.keep(**protocol.unprofiled(step, device, progress, ranks))
        state.keep(compiler=state.compiler.record(state.folder))
        state.channel.keep(found)  # a profiler can take its process down with it
    if job.trace_pass == "timing":
        return
    progress("profiler session")
    with device.session(job.trace_pass) as session:
        ranks.barrier()
        marks = protocol.marked_steps(step, STACK_STEPS if job.trace_pass == "stacks" else job.steps)
    progress("export")
    trace = trace_name(job.mode, job.repeat, job.trace_pass, job.rank)
    session.export(Path(job.folder) / trace)
    state.keep(trace_pass=job.trace_pass, trace=trace, marks_ns=marks)
    if mode == "eager" and not found.as_written and job.repeat == 0:
        _count_floor(state, target.step)


def _count_floor(state: _State, step: Step) -> None:
    from ..measure.floor import count_floor

    state.progress("floor")
    try:
        state.found.floor = count_floor(step)
    except Exception as error:  # a count that fails costs the floor, not the mode
        state.note(f"no floor: {reason(error, state.progress.phase, None)}")


def describe(options: TargetOptions, resolved: Resolved) -> capture.Target:
    name = target_name(options.target)
    return resolved.describe(name, revision=revision(options.target), settings=masked(options.settings))
