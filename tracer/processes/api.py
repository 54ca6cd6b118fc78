"""Profile a target: every mode in fresh processes, alternated, kept in a capture."""

from __future__ import annotations

import ast
import re
import uuid
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ...analysis.model import capture
from ...analysis.model.errors import LaunchscopeError, NothingMeasured
from ..measure.device import CUDA, load_device, require_hardware
from ..target.checkout import checked_out
from ..target.describe import parts_of_target
from ..target.options import MODES, REPEATS, STEPS, ProfileOptions, Progress, no_progress, place_from_environment
from .client import ForkServer
from .run import Run, in_turn

PRELOAD: Final = ("torch", "torch.profiler", "torch._dynamo", "launchscope.tracer.processes.worker")
"""torch._dynamo, since making a model on the meta device imports it; not inductor: importing that starts threads and
workers, which no fork may share."""


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
        beside = place.with_name(f"{place.stem}-against{place.suffix}")
        writer = capture.CaptureWriter(place)
        try:
            runs = [
                Run(options, writer, progress, device_layer, run=pair, side="target: "),
                Run(
                    replace(options, target=other, out=beside),
                    capture.CaptureWriter(beside),
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
            beside = "".join(f" (what was measured beside it is in {path})" for path in paths if path is not None)
            raise NothingMeasured(run.why_nothing() + beside)
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
    from .live import profile_live

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
    theirs = [name for options in runs for name in _imports_of_transformers(_script(options))]
    return list(dict.fromkeys([*PRELOAD, *theirs]))


def _script(options: ProfileOptions) -> Path:
    return Path(parts_of_target(options.target)[0])


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
    return options.out or _default_path(_script(options).stem)


def _default_path(stem: str) -> Path:
    name = re.sub(r"[^\w.-]+", "_", stem)  # of a lambda, say
    return Path("launchscope-out", f"{name}-{datetime.now().astimezone():%Y%m%d-%H%M%S}")
