"""Profile a target: every mode in fresh processes, alternated, kept in a capture."""

from __future__ import annotations

import ast
import re
import sys
import time
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from .. import __version__
from ..analysis import capture
from ..analysis.errors import BadTarget, LaunchscopeError, NothingMeasured
from .calibrate import load_or_measure, machine
from .client import ForkServer, ProcessFailed
from .device import CUDA, require_hardware
from .options import MODES, REPEATS, STEPS, ProfileOptions, Progress
from .reasons import nothing_measured
from .worker import Job, Result, load_device, trace_name

PRELOAD: Final = ("torch", "torch.profiler", "launchscope.tracer.worker")
PRELOAD_FUSED: Final = (
    "torch._dynamo",
)  # not inductor: importing it starts threads and workers, which no fork may share


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a profile; ``capture`` holds what was measured until then, null when nothing was."""

    def __init__(self, capture: Path | None) -> None:
        super().__init__()
        self.capture = capture


def run_profile(options: ProfileOptions, progress: Progress, device_layer: str = CUDA) -> Path:
    """Measure the target in every mode and keep it; the path of the capture.

    Raises MissingRequirement without GPU, driver or torch; BadTarget when the target can't be profiled as it stands;
    NothingMeasured when every mode failed; Interrupted on Ctrl-C.
    """
    began = time.perf_counter()
    if device_layer == CUDA:
        require_hardware()
    destination = options.out or _default_place(Path(options.target.rpartition(":")[0] or options.target).stem)
    writer = capture.CaptureWriter(destination)
    run = _Run(options, writer, progress, device_layer)
    try:
        with ForkServer(_preload(options)) as server:
            progress("starting")
            run.seconds["import torch"] = server.preload_s
            run.all(server)
    except KeyboardInterrupt:
        raise Interrupted(_finish(run, writer, began)) from None
    except BaseException:
        writer.discard()
        raise
    path = _finish(run, writer, began)
    if path is None:
        raise NothingMeasured(nothing_measured({mode: run.error(mode) for mode in run.modes}))
    return path


def profile(
    target: Any,
    *,
    example_inputs: Any = None,
    batch_size: int | None = None,
    dtype: str | None = None,
    context_length: int | None = None,
    modes: Sequence[str] = MODES,
    steps: int = STEPS,
    repeats: int = REPEATS,
    settings: Mapping[str, str] | None = None,
    out: str | Path | None = None,
    progress: Progress | None = None,
) -> Path:
    """Measure a file or module by name in fresh processes, or a live object in this one; the path of the capture."""
    from .live import profile_live

    tell = progress or _ignore
    options = ProfileOptions(
        target=str(target) if isinstance(target, (str, Path)) else type(target).__name__,
        batch_size=batch_size,
        dtype=dtype,
        context_length=context_length,
        steps=steps,
        repeats=repeats,
        modes=tuple(modes),
        settings=dict(settings or {}),
        out=Path(out) if out is not None else None,
    )
    if isinstance(target, (str, Path)):
        return run_profile(options, tell)
    return profile_live(
        target,
        options,
        example_inputs=example_inputs,
        out=options.out or _default_place(getattr(target, "__name__", options.target)),
        device=load_device(CUDA),
        progress=tell,
    )


def _finish(run: _Run, writer: capture.CaptureWriter, began: float) -> Path | None:
    """Name the capture, if it holds any measurement."""
    run.seconds["all"] = time.perf_counter() - began
    if not _measured(run.modes):
        writer.discard()
        return None
    return writer.finish(run.manifest())


class _Run:
    """The state of one profile run: what has been measured so far."""

    def __init__(
        self, options: ProfileOptions, writer: capture.CaptureWriter, progress: Progress, device_layer: str
    ) -> None:
        self.options = options
        self.writer = writer
        self.progress = progress
        self.device_layer = device_layer
        self.created = datetime.now(UTC).isoformat(timespec="seconds")
        self.modes: dict[str, list[capture.ProcessRecord]] = {mode: [] for mode in options.modes}
        self.seconds: dict[str, float] = {}
        self.environment: dict[str, str | int | float | bool | None] = {}
        self.calibration: capture.Calibration | None = None
        self.target: capture.Target | None = None
        self.labels: tuple[str, ...] = ()
        self.floor: capture.Floor | None = None

    def all(self, server: ForkServer) -> None:
        """Probe the machine, calibrate it if need be, then every (repeat, mode) in turn and the stacks pass."""
        self.environment = machine(server, self.device_layer)
        began = time.perf_counter()
        try:
            self.calibration, _, _ = load_or_measure(server, self.environment, self.device_layer, self.progress)
        except LaunchscopeError as error:  # it costs the floor and the predictions, not the run
            self.labels = (str(error),)
        self.seconds["calibrate"] = time.perf_counter() - began
        for repeat in range(self.options.repeats):
            for mode in list(self.modes):
                if mode in self.modes and self.error(mode) is None:
                    self.one(server, mode, repeat, "cpu_cuda" if repeat % 2 else "cuda")
        first = next(iter(self.modes))
        if self.options.repeats > 1 and first in ("eager", capture.AS_WRITTEN) and self.error(first) is None:
            self.one(server, first, self.options.repeats, "stacks")

    def one(self, server: ForkServer, mode: str, repeat: int, trace_pass: str) -> None:
        """One fresh process."""
        job = self._job(mode, repeat, trace_pass)
        of = "with stacks" if trace_pass == "stacks" else f"process {repeat + 1} of {self.options.repeats}"
        phases = ["start"]

        def tell(phase: str) -> None:
            phases.append(phase)
            self.progress(f"{mode}, {of}: {phase}")

        try:
            result: Result = server.run(
                "launchscope.tracer.worker:run",
                job,
                Result,
                self.options.timeout_s,
                tell,
            )
        except ProcessFailed as error:
            if phases[-1] == "build":
                result = Result(refusal=f"{self.options.target}: the process that builds it {error}")
            else:
                result = _failed(repeat, f"the process {error} ({phases[-1]})", error.kept)
        if result.refusal is not None:
            if not _measured(self.modes):
                raise BadTarget(result.refusal)  # as it would be in every other mode
            result = _failed(repeat, result.refusal)
        for phase, seconds in result.seconds.items():
            self.seconds[phase] = self.seconds.get(phase, 0.0) + seconds
        if result.as_written is not None and mode != capture.AS_WRITTEN:
            self._only_as_written(mode)
            mode = capture.AS_WRITTEN
            result = self._renamed(result)
        self.target = self.target or _labelled(result, self.labels)
        self.floor = self.floor or result.floor
        if result.process is not None:
            self.modes[mode].append(result.process)

    def error(self, mode: str) -> str | None:
        """Why the mode failed; null when it has not."""
        return next((process.error for process in self.modes[mode] if process.error), None)

    def manifest(self) -> capture.Manifest:
        from .describe import masked, masked_command, target_name

        fallback = capture.Target(name=target_name(self.options.target), settings=masked(self.options.settings))
        return capture.Manifest(
            launchscope=__version__,
            created=self.created,
            command=masked_command(sys.argv),
            target=self.target or fallback,
            environment=self.environment,
            calibration=self.calibration,
            floor=self.floor,
            modes={mode: self._mode_record(mode) for mode in self.modes},
            seconds={phase: round(seconds, 3) for phase, seconds in self.seconds.items()},
        )

    def _mode_record(self, mode: str) -> capture.ModeRecord:
        processes = tuple(self.modes[mode])
        measured = any(process.samples_ns for process in processes)
        return capture.ModeRecord(processes=processes, error=None if measured else self.error(mode) or "interrupted")

    def _only_as_written(self, mode: str) -> None:
        """The target is under graphs or compiled by its own hand: one mode replaces all."""
        self.modes = {capture.AS_WRITTEN: self.modes[mode]}

    def _renamed(self, result: Result) -> Result:
        """The same result, its trace named after the mode that it turned out to be."""
        record = result.process
        if record is None or record.trace is None:
            return result
        trace = trace_name(capture.AS_WRITTEN, record.repeat, record.trace_pass or "")
        (self.writer.folder / record.trace).rename(self.writer.folder / trace)
        return msgspec.structs.replace(result, process=msgspec.structs.replace(record, trace=trace))

    def _job(self, mode: str, repeat: int, trace_pass: str) -> Job:
        o = self.options
        return Job(
            mode=mode,
            repeat=repeat,
            trace_pass=trace_pass,
            folder=str(self.writer.folder),
            target=o.target,
            batch_size=o.batch_size,
            dtype=o.dtype,
            context_length=o.context_length,
            steps=o.steps,
            settings=o.settings,
            device_layer=self.device_layer,
        )


def _measured(modes: Mapping[str, list[capture.ProcessRecord]]) -> bool:
    return any(process.samples_ns for processes in modes.values() for process in processes)


def _failed(repeat: int, error: str, kept: bytes | None = None) -> Result:
    """The result of a process that failed: what it had kept, with the error."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    result = msgspec.json.decode(kept, type=Result) if kept else Result()
    record = result.process or capture.ProcessRecord(repeat=repeat, started=now)
    return msgspec.structs.replace(result, process=msgspec.structs.replace(record, error=error))


def _labelled(result: Result, labels: tuple[str, ...]) -> capture.Target | None:
    if result.target is None:
        return None
    written = (result.as_written,) if result.as_written else ()
    return msgspec.structs.replace(result.target, labels=(*result.target.labels, *written, *labels))


def _preload(options: ProfileOptions) -> list[str]:
    fused = PRELOAD_FUSED if {"fused", "fused_graph"} & set(options.modes) else ()
    return [*PRELOAD, *fused, *_imports_of_transformers(Path(options.target.rpartition(":")[0] or options.target))]


def _imports_of_transformers(script: Path) -> list[str]:
    """What the script takes from transformers at its top level: seconds of import that each process would repeat."""
    try:
        tree = ast.parse(script.read_text(encoding="utf-8"))
    except (OSError, ValueError, SyntaxError):
        return []  # a module name, or a file whose own error the first process will tell
    return [
        f"transformers:{alias.name}"
        for node in tree.body
        if isinstance(node, ast.ImportFrom) and node.module == "transformers"
        for alias in node.names
    ]


def _default_place(stem: str) -> Path:
    name = re.sub(r"[^\w.-]+", "_", stem)  # of a lambda, say
    return Path("launchscope-out", f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")


def _ignore(_: str) -> None:
    """Progress that nobody needs to see."""
