"""The state of one profile run: a target measured process by process, until its capture has a manifest."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import msgspec

from ...analysis.model import __version__, capture
from ...analysis.model.errors import BadTarget, LaunchscopeError, RankFailed
from ..measure.device import Environment
from ..target.checkout import Checkout
from ..target.describe import masked, masked_command, masked_process, masked_text, target_name
from ..target.options import ProfileOptions, Progress
from ..target.reasons import nothing_measured
from .calibrate import load_or_measure, probe_machine
from .client import ForkServer
from .outcome import Outcome, at_fault, run_job
from .worker import Job, Result, now, trace_name


@dataclass(eq=False)
class Run:
    """One target's measurements so far, and the capture that they go into."""

    options: ProfileOptions
    writer: capture.CaptureWriter
    progress: Progress
    device_layer: str
    checkout: Checkout | None = None
    run: str | None = None  # what it shares with the other side of `--against`
    side: str = ""  # begins its lines of progress
    began: float = field(default_factory=time.perf_counter)
    created: str = field(default_factory=now)
    modes: dict[str, list[capture.ProcessRecord]] = field(default_factory=dict)
    seconds: dict[str, float] = field(default_factory=dict)
    environment: Environment = field(default_factory=dict)
    calibration: capture.Calibration | None = None
    target: capture.Target | None = None
    labels: tuple[str, ...] = ()
    floor: capture.Floor | None = None
    ranks: tuple[capture.RankRecord, ...] = ()

    def __post_init__(self) -> None:
        self.modes = {mode: [] for mode in self.options.modes}

    def prepare(self, server: ForkServer) -> None:
        """Probe the machine, and calibrate it if need be."""
        self.seconds["import torch"] = server.preload_s
        self.environment = self.probe(server)
        began = time.perf_counter()
        try:
            self.calibration, _, _ = load_or_measure(server, self.environment, self.device_layer, self.progress)
        except LaunchscopeError as error:  # it costs the floor and the predictions, not the run
            self.labels += (str(error),)
        self.seconds["calibrate"] = time.perf_counter() - began

    def probe(self, server: ForkServer) -> Environment:
        return probe_machine(server, self.device_layer)

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
        """One fresh process, or one on every rank."""
        process = "with stacks" if trace_pass == "stacks" else f"process {repeat + 1} of {self.options.repeats}"
        name = f"{mode}, {process}"
        job = Job(
            options=self.options.of_target,
            mode=mode,
            repeat=repeat,
            trace_pass=trace_pass,
            steps=self.options.steps,
            folder=str(self.writer.folder.absolute()),  # another revision's process goes to a folder of its own
            device_layer=self.device_layer,
            checkout=self.checkout,
        )
        outcomes, arrived = self.run_job(server, job, lambda phase: self.progress(f"{self.side}{name}: {phase}"))
        faults = at_fault(outcomes, arrived)
        alone = bool(faults) and len(faults) < len(outcomes)
        if faults and not alone and not self.measured and (first := outcomes[0]).refused:
            how = (
                first.error if first.died is None else f"{self.options.target}: the process that builds it {first.died}"
            )
            raise BadTarget(how or "")  # as it would be in every other mode
        for outcome in outcomes:
            self._take(mode, repeat, outcome, faults[0] if alone else None)
        if (lost := self.lost()) is not None:
            raise RankFailed(f"{name}: {lost}")
        if alone:
            raise RankFailed(faults[0].message(name))

    def run_job(
        self, server: ForkServer, job: Job, tell: Callable[[str], None]
    ) -> tuple[list[Outcome], Mapping[int | None, int]]:
        """How the job ended on each rank, and how many barriers each has come to."""
        return [run_job(server, job, self.options.timeout_s, tell)], {}

    def lost(self) -> str | None:
        """Why the run can't go on; null when it can."""
        return None

    def _take(self, mode: str, repeat: int, outcome: Outcome, fault: Outcome | None) -> None:
        """Keep what a process found out; with ``fault``, the rank that failed alone, why others were stopped."""
        result = outcome.result or Result()
        error = outcome.error
        if error is not None and fault is not None and outcome is not fault and outcome.stopped:
            error = f"the process was stopped ({outcome.phase}): rank {fault.rank} had failed"
        record = result.process
        if error is not None:
            record = record or capture.ProcessRecord(repeat=repeat, started=now())
            record = msgspec.structs.replace(record, error=error, rank=outcome.rank)
        if result.as_written is not None and mode != capture.AS_WRITTEN:
            mode = self._only_as_written(mode)
            record = record and self._renamed(record)
        self.target = self.target or self._labelled(result)
        if not outcome.rank:  # times and the floor are rank 0's
            self.floor = self.floor or result.floor
            for phase, seconds in result.seconds.items():
                self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
        if record is not None:
            self.modes[capture.AS_WRITTEN if capture.AS_WRITTEN in self.modes else mode].append(record)

    def _only_as_written(self, mode: str) -> str:
        """The target is under graphs or compiled by its own hand: one mode replaces all."""
        if capture.AS_WRITTEN not in self.modes:
            self.modes = {capture.AS_WRITTEN: self.modes[mode]}
        return capture.AS_WRITTEN

    def _renamed(self, record: capture.ProcessRecord) -> capture.ProcessRecord:
        """Its trace is named after the mode that it turned out to be."""
        if record.trace is None:
            return record
        trace = trace_name(capture.AS_WRITTEN, record.repeat, record.trace_pass or "", record.rank)
        (self.writer.folder / record.trace).rename(self.writer.folder / trace)
        return msgspec.structs.replace(record, trace=trace)

    def _labelled(self, result: Result) -> capture.Target | None:
        if result.target is None:
            return None
        written = (result.as_written,) if result.as_written else ()
        return msgspec.structs.replace(result.target, labels=(*result.target.labels, *written, *self.labels))

    @property
    def measured(self) -> bool:
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

    def why_nothing(self) -> str:
        return self.side + nothing_measured({mode: self.error(mode) for mode in self.modes})

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
            ranks=self.ranks,
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
