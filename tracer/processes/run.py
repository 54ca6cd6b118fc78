"""The state of one profile run: a target measured process by process, until its capture has a manifest."""

from __future__ import annotations

import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec

from ...analysis.model import __version__, capture
from ...analysis.model.errors import BadTarget, LaunchscopeError
from ..target.checkout import Checkout
from ..target.describe import masked, masked_command, masked_process, masked_text, target_name
from ..target.options import ProfileOptions, Progress
from .calibrate import load_or_measure, probe_machine
from .client import ForkServer, ProcessFailed
from .worker import Job, Result, trace_name


class Run:
    """One target's measurements so far, and the capture that they go into."""

    def __init__(
        self,
        options: ProfileOptions,
        writer: capture.CaptureWriter,
        progress: Progress,
        device_layer: str,
        *,
        checkout: Checkout | None = None,
        run: str | None = None,
        side: str = "",
    ) -> None:
        self.options = options
        self.writer = writer
        self.progress = progress
        self.device_layer = device_layer
        self.checkout = checkout
        self.run = run  # what it shares with the other side of `--against`
        self.side = side  # begins its lines of progress
        self.began = time.perf_counter()
        self.created = datetime.now(UTC).isoformat(timespec="seconds")
        self.modes: dict[str, list[capture.ProcessRecord]] = {mode: [] for mode in options.modes}
        self.seconds: dict[str, float] = {}
        self.environment: dict[str, str | int | float | bool | None] = {}
        self.calibration: capture.Calibration | None = None
        self.target: capture.Target | None = None
        self.labels: tuple[str, ...] = ()
        self.floor: capture.Floor | None = None

    def prepare(self, server: ForkServer) -> None:
        """Probe the machine, and calibrate it if need be."""
        self.seconds["import torch"] = server.preload_s
        self.environment = probe_machine(server, self.device_layer)
        began = time.perf_counter()
        try:
            self.calibration, _, _ = load_or_measure(server, self.environment, self.device_layer, self.progress)
        except LaunchscopeError as error:  # it costs the floor and the predictions, not the run
            self.labels = (str(error),)
        self.seconds["calibrate"] = time.perf_counter() - began

    def repeat(self, server: ForkServer, mode: str, repeat: int) -> None:
        """One fresh process of a mode, unless the mode has failed. The first two, or all, are recorded in turn."""
        if mode in self.modes and self.error(mode) is None:
            recorded = not self.options.for_check or repeat < len(capture.RECORDED_PASSES)
            self.one(server, mode, repeat, capture.RECORDED_PASSES[repeat % 2] if recorded else "timing")

    def stacks(self, server: ForkServer) -> None:
        """One more process, for the Python stacks of a step that the host launches kernel by kernel."""
        first = next(iter(self.modes))
        if self.options.repeats > 1 and first in ("eager", capture.AS_WRITTEN) and self.error(first) is None:
            self.one(server, first, self.options.repeats, "stacks")

    def one(self, server: ForkServer, mode: str, repeat: int, trace_pass: str) -> None:
        """One fresh process."""
        job, phases = self._job(mode, repeat, trace_pass), ["start"]
        name = self._name(mode, repeat, trace_pass)

        def tell(phase: str) -> None:
            phases.append(phase)
            self.progress(f"{self.side}{name}: {phase}")

        try:
            result: Result = server.run(
                "launchscope.tracer.processes.worker:run",
                job,
                Result,
                self.options.timeout_s,
                tell,
            )
        except ProcessFailed as error:
            result = self._of_failed(repeat, error, phases[-1])
        if result.refusal is not None:
            if not self.measured:
                raise BadTarget(result.refusal)  # as it would be in every other mode
            result = failed(repeat, result.refusal)
        self._take(mode, result)

    def _name(self, mode: str, repeat: int, trace_pass: str) -> str:
        """What a process is for, as progress tells it."""
        of = "with stacks" if trace_pass == "stacks" else f"process {repeat + 1} of {self.options.repeats}"
        return f"{mode}, {of}"

    def _of_failed(self, repeat: int, error: ProcessFailed, phase: str) -> Result:
        if phase == "build":
            return Result(refusal=f"{self.options.target}: the process that builds it {error}")
        return failed(repeat, f"the process {error} ({phase})", error.kept)

    def _take(self, mode: str, result: Result) -> None:
        """Keep what a process found out."""
        for phase, seconds in result.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
        if result.as_written is not None:
            if mode != capture.AS_WRITTEN:
                self._only_as_written(mode)
                mode = capture.AS_WRITTEN
            result = self._renamed(result)
        self.target = self.target or _labelled(result, self.labels)
        self.floor = self.floor or result.floor
        if result.process is not None:
            self.modes[mode].append(result.process)

    @property
    def measured(self) -> bool:
        """Whether anything has been."""
        return any(process.samples_ns for processes in self.modes.values() for process in processes)

    def finish(self) -> Path | None:
        """Name the capture, if it holds any measurement."""
        self.seconds["all"] = time.perf_counter() - self.began
        if not self.measured:
            self.writer.discard()
            return None
        return self.writer.finish(self.manifest())

    def error(self, mode: str) -> str | None:
        """Why the mode failed; null when it has not."""
        return next((process.error for process in self.modes[mode] if process.error), None)

    def manifest(self) -> capture.Manifest:
        """What was measured so far, as the capture tells it."""
        fallback = capture.Target(name=target_name(self.options.target), settings=masked(self.options.settings))
        return capture.Manifest(
            launchscope=__version__,
            created=self.created,
            run=self.run,
            command=masked_command(sys.argv),
            target=self.target or fallback,
            environment=self.environment,
            calibration=self.calibration,
            floor=self.floor,
            modes={mode: self._mode_record(mode) for mode in self.modes},
            seconds={phase: round(seconds, 3) for phase, seconds in self.seconds.items()},
        )

    def _mode_record(self, mode: str) -> capture.ModeRecord:
        processes = tuple(masked_process(each, self.mask) for each in self.modes[mode])
        measured = any(process.samples_ns for process in processes)
        error = next((each.error for each in processes if each.error), "interrupted")
        return capture.ModeRecord(processes=processes, error=None if measured else error)

    def mask(self, text: str) -> str:
        """What a process said, as the capture holds it."""
        return masked_text(text, self.options.settings)

    def _only_as_written(self, mode: str) -> None:
        """The target is under graphs or compiled by its own hand: one mode replaces all."""
        self.modes = {capture.AS_WRITTEN: self.modes[mode]}

    def _renamed(self, result: Result) -> Result:
        """The same result, its trace named after the mode that it turned out to be."""
        record = result.process
        if record is None or record.trace is None:
            return result
        trace = trace_name(capture.AS_WRITTEN, record.repeat, record.trace_pass or "", record.rank)
        (self.writer.folder / record.trace).rename(self.writer.folder / trace)
        return msgspec.structs.replace(result, process=msgspec.structs.replace(record, trace=trace))

    def _job(self, mode: str, repeat: int, trace_pass: str) -> Job:
        o = self.options
        return Job(
            mode=mode,
            repeat=repeat,
            trace_pass=trace_pass,
            folder=str(self.writer.folder.absolute()),  # another revision's process goes to a folder of its own
            steps=o.steps,
            **o.of_target,
            checkout=self.checkout,
            device_layer=self.device_layer,
        )


def failed(repeat: int, error: str, kept: bytes | None = None) -> Result:
    """The result of a process that failed: what it had kept, with the error."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    result = msgspec.json.decode(kept, type=Result) if kept else Result()
    record = result.process or capture.ProcessRecord(repeat=repeat, started=now)
    return msgspec.structs.replace(result, process=msgspec.structs.replace(record, error=error))


def in_turn(runs: Sequence[Run], server: ForkServer) -> None:
    """Every (repeat, mode) of each run in turn, then the stacks."""
    for run in runs:
        run.prepare(server)
    for repeat in range(runs[0].options.repeats):
        for mode in dict.fromkeys(mode for run in runs for mode in run.modes):
            for run in runs if repeat % 2 == 0 else reversed(runs):  # neither side is always the first
                run.repeat(server, mode, repeat)
    for run in runs:
        run.stacks(server)


def _labelled(result: Result, labels: tuple[str, ...]) -> capture.Target | None:
    if result.target is None:
        return None
    written = (result.as_written,) if result.as_written else ()
    return msgspec.structs.replace(result.target, labels=(*result.target.labels, *written, *labels))
