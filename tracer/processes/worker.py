"""One fresh process, one job: build the target and measure it in one mode (see protocol)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from ...analysis.model import capture
from ...analysis.model.errors import LaunchscopeError, MissingRequirement
from ..measure import protocol
from ..measure.compiler import Compiler
from ..measure.device import Step, load_device
from ..measure.modes import NotCaptured
from ..measure.protocol import NO_OTHER_RANKS, Ranks
from ..target.checkout import Checkout
from ..target.describe import masked, parameter_count, parts_of_target, revision, target_name
from ..target.options import ProfileOptions
from ..target.reasons import NO_CAPTURE, failure, reason
from .rank_child import JobRanks, leave
from .server import Channel

SEED: Final = 0
STACK_STEPS: Final = 3  # recorded in the `stacks` pass, which is heavy


class Job(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process is to do."""

    mode: str
    repeat: int
    trace_pass: str  # 'timing': nothing is recorded
    folder: str  # the capture under its temporary name
    target: str
    batch_size: int | None
    dtype: str | None
    context_length: int | None
    steps: int
    settings: dict[str, str]
    device_layer: str
    checkout: Checkout | None = None  # the revision that the target lies in
    job_ranks: JobRanks | None = None  # the ranks that run it, of which this is one; null for one process alone

    @property
    def rank(self) -> int | None:
        """This one's; null for one process alone."""
        return None if self.job_ranks is None else self.job_ranks.place.rank


def trace_name(mode: str, repeat: int, trace_pass: str, rank: int | None) -> str:
    """Where a process's trace goes inside the capture."""
    return f"traces/{mode}-{repeat}-{trace_pass}{'' if rank is None else f'-rank{rank}'}.json.gz"


class Result(msgspec.Struct, frozen=True, kw_only=True):
    """What a child process found out."""

    process: capture.ProcessRecord | None = None
    target: capture.Target | None = None
    floor: capture.Floor | None = None
    as_written: str | None = None  # why the step ran only as its author made it; its mode is then `as_written`
    refusal: str | None = None  # the target can't be profiled at all
    seconds: dict[str, float] = {}


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


def run(argument: bytes, channel: Channel) -> Result:
    """Do one Job, given as JSON.

    Errors of the target become the record's ``error``, in words; what was measured before is kept.
    """
    job = msgspec.json.decode(argument, type=Job)
    progress = protocol.Progress(channel)
    started = datetime.now(UTC).isoformat(timespec="seconds")
    record = capture.ProcessRecord(repeat=job.repeat, rank=job.rank, started=started)
    state = _State(job, record, progress, channel)
    try:
        if job.job_ranks is not None:
            state.ranks = job.job_ranks.join()
        _measure(state)
    except LaunchscopeError as error:
        return Result(refusal=str(error), seconds=progress.seconds)
    except BaseException as error:  # a KeyboardInterrupt is the target's own: Ctrl-C does not reach this process
        words = reason(error, progress.phase, state.folder)
        if progress.phase == "build":
            return Result(refusal=f"{job.target}: {words}", seconds=progress.seconds)
        _keep_failure(state, error, words)
    state.keep(compiler=state.compiler.record(state.folder))
    progress("end")
    if job.job_ranks is not None and state.record.error is None:
        _leave_together(state)
    return state.result()


def _leave_together(state: _State) -> None:
    """Ranks end when all are done: what is measured is safe before, as another one may not come."""
    state.channel.keep(state.result())
    state.ranks.barrier()
    if (note := leave()) is not None:
        state.keep(notes=(*state.record.notes, note))


def _keep_failure(state: _State, error: BaseException, words: str) -> None:
    """Why the mode failed; a capture is tried once more, to see at which operator it fails."""
    found = failure(error, state.progress.phase, state.folder)
    state.keep(error=words, failure=found)
    if isinstance(error, NotCaptured) and found.reason.startswith(NO_CAPTURE):
        state.channel.keep(state.result())  # the second attempt can take the process down with it
        from ..measure.modes import failing_operator

        device = load_device(state.job.device_layer)
        operator = failing_operator(error.step, device, found.line, state.folder)
        state.keep(failure=msgspec.structs.replace(found, operator=operator))


@dataclass
class _State:
    """What a job has measured so far; kept when a later phase fails."""

    job: Job
    record: capture.ProcessRecord
    progress: protocol.Progress
    channel: Channel
    target: capture.Target | None = None
    floor: capture.Floor | None = None
    as_written: str | None = None
    ranks: Ranks = NO_OTHER_RANKS
    compiler: Compiler = field(default_factory=Compiler)

    @property
    def folder(self) -> Path:
        """The target's own."""
        return Path(parts_of_target(self.job.target)[0]).parent

    def keep(self, **found: Any) -> None:
        self.record = msgspec.structs.replace(self.record, **found)

    def result(self) -> Result:
        return Result(
            process=self.record,
            target=self.target,
            floor=self.floor,
            as_written=self.as_written,
            seconds=self.progress.seconds,
        )


def _measure(state: _State) -> None:
    import torch

    from ..measure.protocol import target_graphs
    from ..target.target import resolve
    from ..target.variables import Buffers
    from ..target.watch import watching_captures

    job, progress, ranks = state.job, state.progress, state.ranks
    device = load_device(job.device_layer)
    if job.job_ranks is not None and (refusal := device.use(job.job_ranks.place.local_rank)) is not None:
        raise MissingRequirement(refusal)
    torch.manual_seed(SEED)
    torch.set_grad_enabled(False)
    if job.checkout is not None:
        job.checkout.enter()
    progress("build")
    with watching_captures(state.folder) as seen:
        resolved = resolve(_options(job), device.name)
        target = resolved.target
        buffers = Buffers.of(target.step, target.inputs, others=False) if job.repeat == 0 else None
        warmup, state.as_written = protocol.first_steps(target, device, progress)
    if job.checkout is not None:
        job.checkout.refuse_strangers()
    state.target = describe(job, resolved)
    own_graphs, replaced = target_graphs(seen, target, buffers, state.as_written, several=ranks.several)
    state.keep(warmup_ns=tuple(warmup), own_graphs=own_graphs, replaced=replaced)
    del buffers
    mode = "eager" if state.as_written else job.mode
    check = job.repeat == 0
    prepared, output = protocol.into_mode(mode, target, device, progress, check=check, ranks=ranks)
    state.keep(output=output, **protocol.costs(prepared))
    if job.trace_pass != "stacks":  # no time is ever taken from that process
        state.keep(**protocol.unprofiled(prepared.step, device, progress, ranks))
        state.keep(compiler=state.compiler.record(state.folder))
        state.channel.keep(state.result())  # a profiler can take its process down with it
    if job.trace_pass == "timing":
        return
    progress("profiler session")
    with device.session(job.trace_pass) as session:
        ranks.barrier()
        marks = protocol.marked_steps(prepared.step, STACK_STEPS if job.trace_pass == "stacks" else job.steps)
    progress("export")
    trace = trace_name(job.mode, job.repeat, job.trace_pass, job.rank)
    session.export(Path(job.folder) / trace)
    state.keep(trace_pass=job.trace_pass, trace=trace, marks_ns=marks)
    if mode == "eager" and not state.as_written and job.repeat == 0:
        _count_floor(state, target.step)


def _count_floor(state: _State, step: Step) -> None:
    from ..measure.floor import count_floor

    state.progress("floor")
    try:
        state.floor = count_floor(step)
    except Exception as error:  # a count that fails costs the floor, not the mode
        state.keep(notes=(*state.record.notes, f"no floor: {reason(error, state.progress.phase, None)}"))


def _options(job: Job) -> ProfileOptions:
    return ProfileOptions(
        target=job.target,
        batch_size=job.batch_size,
        dtype=job.dtype,
        context_length=job.context_length,
        steps=job.steps,
        settings=job.settings,
    )


def describe(job: Job | ProfileOptions, resolved: Any) -> capture.Target:
    """What was built, and from what."""
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
