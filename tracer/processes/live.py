"""Profile a live object: a closure, a notebook's model. It can't reach a fresh process, so it is measured in this one.

All timings come first, then one profiler session for all modes: one process, no spread.
"""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from ...analysis.model import __version__, capture
from ...analysis.model.errors import LaunchscopeError, MissingRequirement, NothingMeasured
from ..measure import protocol
from ..measure.compiler import Compiler
from ..measure.device import WITHOUT_A_GPU, Device, Step
from ..target.options import ProfileOptions, Progress
from ..target.reasons import failure, nothing_measured, reason
from ..target.step import Setting
from ..target.target import as_target
from ..target.variables import Buffers

TRACE: Final = "traces/all-0-cuda.json.gz"
ONE_PROCESS: Final = "one process: no spread"

_profiled = False  # a session of ours ran in this process


def profile_live(
    found: Any,
    options: ProfileOptions,
    *,
    example_inputs: Any,
    out: Path,
    device: Device,
    progress: Progress,
) -> Path:
    """Measure a step function, module or Target of this process in every mode; the path of the capture.

    Raises LaunchscopeError where a profiler already ran in this process; MissingRequirement without a GPU.
    """
    global _profiled
    _refuse_second_session()
    if (missing := device.missing()) is not None:
        raise MissingRequirement(f"{missing} {WITHOUT_A_GPU}")
    writer = capture.CaptureWriter(out)
    try:
        with _no_grad():
            setting = Setting(options.batch_size, options.dtype, options.context_length, device.name)
            resolved = as_target(found, setting, settings=options.settings, example_inputs=example_inputs)
            run = _Live(device, protocol.Progress(progress))
            run.time(resolved, options.modes)
            if not run.steps:
                raise NothingMeasured(nothing_measured({m: r.error for m, r in run.records.items()}))
            _profiled = True
            run.record(options.steps, writer.folder / TRACE)
        return writer.finish(run.manifest(_describe(found, resolved, run.as_written)))
    except BaseException:
        writer.discard()
        raise


class _Live:
    """The state of one run."""

    def __init__(self, device: Device, progress: protocol.Progress) -> None:
        self.device = device
        self.progress = progress
        self.records: dict[str, capture.ProcessRecord] = {}
        self.steps: dict[str, Step] = {}
        self.as_written: str | None = None
        self.compiler = Compiler()

    def time(self, resolved: Any, modes: Sequence[str]) -> None:
        """Every mode's timing, before anything profiles."""
        target = resolved.target
        buffers = Buffers.of(target.step, target.inputs, others=False)
        warmup, self.as_written = protocol.first_steps(target, self.device, self.progress)
        replaced = buffers.replaced(target.step)
        for mode in (capture.AS_WRITTEN,) if self.as_written else modes:
            started = datetime.now(UTC).isoformat(timespec="seconds")
            record = capture.ProcessRecord(repeat=0, started=started, warmup_ns=tuple(warmup), replaced=replaced)
            try:
                as_mode = "eager" if self.as_written else mode
                prepared, output = protocol.into_mode(as_mode, target, self.device, self.progress, check=True)
                record = msgspec.structs.replace(record, output=output, **protocol.costs(prepared))
                timed = protocol.unprofiled(prepared.step, self.device, self.progress)
                record = msgspec.structs.replace(record, **timed)
                self.steps[mode] = prepared.step
            except Exception as error:
                phase, folder = self.progress.phase, Path.cwd()
                failed, words = failure(error, phase, folder), reason(error, phase, folder)
                record = msgspec.structs.replace(record, error=words, failure=failed)
            if mode in capture.COMPILED:
                record = msgspec.structs.replace(record, compiler=self.compiler.record(Path.cwd()))
            self.records[mode] = record

    def record(self, steps: int, path: Path) -> None:
        """One session for all modes that ran."""
        self.progress("profiler session")
        with self.device.session("cuda") as session:
            for mode, step in self.steps.items():
                marks = protocol.marked_steps(step, steps)
                self.device.synchronize()
                self.records[mode] = msgspec.structs.replace(
                    self.records[mode], trace_pass="cuda", trace=TRACE, marks_ns=marks
                )
        session.export(path)

    def manifest(self, target: capture.Target) -> capture.Manifest:
        return capture.Manifest(
            launchscope=__version__,
            created=datetime.now(UTC).isoformat(timespec="seconds"),
            command=(),
            target=target,
            environment=self.device.environment(),
            modes={
                mode: capture.ModeRecord(processes=(record,), error=None if record.samples_ns else record.error)
                for mode, record in self.records.items()
            },
            seconds=self.progress.seconds,
        )


def _describe(found: Any, resolved: Any, as_written: str | None) -> capture.Target:
    from ..target.describe import parameter_count

    labels = (*resolved.labels, ONE_PROCESS, *((as_written,) if as_written else ()))
    return capture.Target(
        name=getattr(found, "__qualname__", type(found).__name__),
        batch_size=resolved.setting.batch_size,
        dtype=resolved.setting.dtype,
        context_length=resolved.setting.context_length,
        parameters=parameter_count(resolved.target.model),
        labels=labels,
    )


def _refuse_second_session() -> None:
    """CUPTI stays attached after a session, and a second one gives wrong correlation ids (see protocol)."""
    profiler = sys.modules.get("torch.autograd.profiler")
    if _profiled or (profiler is not None and any(issubclass(type(o), profiler.profile) for o in gc.get_objects())):
        raise LaunchscopeError(
            "a profiler has run in this process, which slows its launches down from then on: restart Python (the "
            "notebook's kernel) and profile first, or profile a file: launchscope profile model.py"
        )


@contextmanager
def _no_grad() -> Iterator[None]:
    import torch

    with torch.no_grad():
        yield
