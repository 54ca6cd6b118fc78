"""Profile a target: every mode in fresh processes, alternated, kept in a capture.

A live object (a closure, a notebook's model) can't reach a fresh process, so it is measured in this one: all timings
come first, then one profiler session for all modes; one process, no spread.
"""

from __future__ import annotations

import ast
import gc
import re
import sys
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import msgspec

from ...analysis.model import __version__, capture
from ...analysis.model.errors import LaunchscopeError, MissingRequirement, NothingMeasured
from ..measure import protocol
from ..measure.device import CUDA, WITHOUT_A_GPU, CudaDevice, Step, load_device, require_hardware
from ..target.checkout import checked_out
from ..target.describe import parts_of_target
from ..target.options import (
    MODES,
    REPEATS,
    STEPS,
    ProfileOptions,
    Progress,
    Setting,
    Target,
    no_progress,
    place_from_environment,
)
from ..target.reasons import Compiler, failure, nothing_measured, reason
from ..target.target import as_target
from ..target.watch import Buffers
from .client import ForkServer
from .run import Run, in_turn
from .worker import now

PRELOAD: Final = ("torch", "torch.profiler", "torch._dynamo", "launchscope.tracer.processes.worker")
"""torch._dynamo, since making a model on the meta device imports it; not inductor: importing that starts threads and
workers, which no fork may share."""
TRACE: Final = "traces/all-0-cuda.json.gz"
ONE_PROCESS: Final = "one process: no spread"

_profiled = False  # a session of ours ran in this process


class Interrupted(KeyboardInterrupt):
    """Ctrl-C during a profile; ``capture`` holds what was measured until then, ``against`` what of the other target.

    Either is null when nothing was.
    """

    def __init__(self, capture: Path | None, against: Path | None = None) -> None:
        super().__init__()
        self.capture = capture
        self.against = against


def run_profile(options: ProfileOptions, progress: Progress, device_layer: str = CUDA) -> Path:
    """Measure the target in every mode and keep it; the path of the capture.

    Raises MissingRequirement without GPU, driver or torch; BadTarget when the target can't be profiled as it stands;
    NothingMeasured when every mode failed; Interrupted on Ctrl-C.
    """
    if device_layer == CUDA:
        require_hardware()
    run = Run(options, capture.CaptureWriter(capture_path(options)), progress, device_layer)
    (path,) = _measure([run], progress)
    return path


def run_against(
    options: ProfileOptions, against: str, progress: Progress, device_layer: str = CUDA
) -> tuple[Path, Path]:
    """Measure two targets process by process in turn: the captures of the target and of ``against``.

    ``against`` is another file, or git:REV, the target as that revision has it: its code runs. Raises as
    ``run_profile``, and LaunchscopeError for a revision that can't be had.
    """
    if device_layer == CUDA:
        require_hardware()
    kind, colon, revision = against.partition(":")
    with ExitStack() as stack:
        checkout, other = None, against
        if kind == "git" and colon:
            checkout, other = stack.enter_context(checked_out(revision, options.target))
        place, pair = capture_path(options), uuid.uuid4().hex
        second = place.with_name(f"{place.stem}-against{place.suffix}")
        writer = capture.CaptureWriter(place)
        try:
            runs = [
                Run(options, writer, progress, device_layer, run=pair, side="target: "),
                Run(
                    replace(options, target=other, out=second),
                    capture.CaptureWriter(second),
                    progress,
                    device_layer,
                    checkout=checkout,
                    run=pair,
                    side="against: ",
                ),
            ]
        except BaseException:
            writer.discard()
            raise
        path, against_path = _measure(runs, progress)
    return path, against_path


def _measure(runs: Sequence[Run], progress: Progress) -> list[Path]:
    """Every (repeat, mode) of each run in turn, then the stacks; the captures."""
    try:
        with ForkServer(preload([run.options for run in runs])) as server:
            progress("starting")
            in_turn(runs, server)
    except KeyboardInterrupt:
        kept = [run.finish() for run in runs]
        raise Interrupted(*kept) from None
    except BaseException:
        for run in runs:
            run.writer.discard()
        raise
    paths = [run.finish() for run in runs]
    for run in runs:
        if not run.measured:
            elsewhere = "".join(f" (what was measured beside it is in {path})" for path in paths if path is not None)
            raise NothingMeasured(run.why_nothing() + elsewhere)
    return [path for path in paths if path is not None]


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
    _refuse_ranks()
    tell = progress or no_progress
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
        out=options.out or _default_path(getattr(target, "__name__", options.target)),
        device=load_device(CUDA),
        progress=tell,
    )


def _refuse_ranks() -> None:
    """Each rank's coordinator starts processes of its own, and rank 0's has the capture: that is a command's to do."""
    place = place_from_environment()
    if place is not None:
        raise LaunchscopeError(
            f"this process is rank {place.rank} of {place.world_size} (RANK, WORLD_SIZE): several ranks are profiled "
            f"from a file, by the command: launchscope profile model.py --nproc-per-node {place.local_world_size}"
        )


def preload(runs: Sequence[ProfileOptions]) -> list[str]:
    """What every process of these runs imports, once."""
    scripts = [Path(parts_of_target(options.target)[0]) for options in runs]
    return list(dict.fromkeys([*PRELOAD, *(name for script in scripts for name in _imports_of_transformers(script))]))


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


def capture_path(options: ProfileOptions) -> Path:
    """Where its capture goes."""
    return options.out or _default_path(Path(parts_of_target(options.target)[0]).stem)


def _default_path(stem: str) -> Path:
    name = re.sub(r"[^\w.-]+", "_", stem)  # of a lambda, say
    return Path("launchscope-out", f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")


def profile_live(
    found: Any, options: ProfileOptions, *, example_inputs: Any, out: Path, device: CudaDevice, progress: Progress
) -> Path:
    """Measure a step function, module or Target of this process in every mode; the path of the capture.

    Raises LaunchscopeError where a profiler already ran in this process; MissingRequirement without a GPU.
    """
    import torch

    global _profiled
    _refuse_second_session()
    if (missing := device.missing()) is not None:
        raise MissingRequirement(f"{missing} {WITHOUT_A_GPU}")
    writer = capture.CaptureWriter(out)
    phases = protocol.Progress(progress)
    try:
        with torch.no_grad():
            setting = Setting(options.batch_size, options.dtype, options.context_length, device.name)
            resolved = as_target(found, setting, settings=options.settings, example_inputs=example_inputs)
            records, steps, as_written = _timed_live(resolved.target, options.modes, device, phases)
            if not steps:
                raise NothingMeasured(nothing_measured({mode: record.error for mode, record in records.items()}))
            _profiled = True
            phases("profiler session")
            with device.session("cuda") as session:
                for mode, step in steps.items():
                    marks = protocol.marked_steps(step, options.steps)
                    device.synchronize()
                    records[mode] = msgspec.structs.replace(
                        records[mode], trace_pass="cuda", trace=TRACE, marks_ns=marks
                    )
            session.export(writer.folder / TRACE)
        target = resolved.describe(getattr(found, "__qualname__", type(found).__name__))
        labels = (*target.labels, ONE_PROCESS, *(() if as_written is None else (as_written,)))
        manifest = capture.Manifest(
            launchscope=__version__,
            created=now(),
            command=(),
            target=msgspec.structs.replace(target, labels=labels),
            environment=device.environment(),
            modes={
                mode: capture.ModeRecord(processes=(record,), error=None if record.samples_ns else record.error)
                for mode, record in records.items()
            },
            seconds=phases.seconds,
        )
        return writer.finish(manifest)
    except BaseException:
        writer.discard()
        raise


def _timed_live(
    target: Target, modes: Sequence[str], device: CudaDevice, phases: protocol.Progress
) -> tuple[dict[str, capture.ProcessRecord], dict[str, Step], str | None]:
    """Every mode's record, and its step where it ran, before anything profiles; and why it runs only as written."""
    records: dict[str, capture.ProcessRecord] = {}
    steps: dict[str, Step] = {}
    compiler, folder = Compiler(), Path.cwd()
    buffers = Buffers.of(target.step, target.inputs, others=False)
    warmup, as_written = protocol.first_steps(target, device, phases)
    replaced = buffers.replaced(target.step)
    for mode in (capture.AS_WRITTEN,) if as_written else modes:
        record = capture.ProcessRecord(repeat=0, started=now(), warmup_ns=tuple(warmup), replaced=replaced)
        try:
            step, costs = protocol.into_mode("eager" if as_written else mode, target, device, phases, check=True)
            record = msgspec.structs.replace(record, **costs)
            record = msgspec.structs.replace(record, **protocol.unprofiled(step, device, phases))
            steps[mode] = step
        except Exception as error:
            failed, words = failure(error, phases.phase, folder), reason(error, phases.phase, folder)
            record = msgspec.structs.replace(record, error=words, failure=failed)
        if mode in capture.COMPILED:
            record = msgspec.structs.replace(record, compiler=compiler.record(folder))
        records[mode] = record
    return records, steps, as_written


def _refuse_second_session() -> None:
    """CUPTI stays attached after a session, and a second one gives wrong correlation ids (see protocol)."""
    profiler = sys.modules.get("torch.autograd.profiler")
    if _profiled or (profiler is not None and any(issubclass(type(o), profiler.profile) for o in gc.get_objects())):
        raise LaunchscopeError(
            "a profiler has run in this process, which slows its launches down from then on: restart Python (the "
            "notebook's kernel) and profile first, or profile a file: launchscope profile model.py"
        )
