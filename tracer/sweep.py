"""A profile per batch size and prompt length, each a capture of its own: a sweep that was stopped goes on there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from ..analysis.capture import AS_WRITTEN, Manifest, open_capture
from ..analysis.errors import BadTarget, LaunchscopeError, NothingMeasured
from .api import Interrupted, run_profile
from .describe import masked, target_name
from .device import CUDA
from .options import ProfileOptions, Progress

PROMPT_LENGTH: Final = "prompt_length"
"""The parameter of a target's build that makes its step the prefill of a prompt of so many tokens."""


@dataclass(frozen=True)
class Point:
    """One size to measure: of the batch of a decode step, or of the prompt of a prefill."""

    size: int
    is_prompt: bool = False

    @property
    def word(self) -> str:
        """As it is told."""
        return f"prompt of {self.size} tokens" if self.is_prompt else f"batch {self.size}"

    @property
    def file(self) -> str:
        """The name of its capture."""
        return f"{'prompt' if self.is_prompt else 'batch'}-{self.size}.zip"

    def of(self, options: ProfileOptions) -> ProfileOptions:
        """The options of its profile."""
        if self.is_prompt:
            return replace(options, settings={**options.settings, PROMPT_LENGTH: str(self.size)})
        return replace(options, batch_size=self.size)


def run_sweep(
    options: ProfileOptions,
    points: Sequence[Point],
    folder: Path,
    progress: Progress,
    device_layer: str = CUDA,
) -> Iterator[tuple[Point, Path | None, str | None]]:
    """Each point, its capture below ``folder``, and why there is none, as soon as it is measured.

    A capture that is there already is taken as it is; LaunchscopeError where it is of something else. Raises as
    ``run_profile``, but not for a size that can't be built or measured after one that can: the largest may not fit.
    """
    built: set[bool] = set()
    for place, point in enumerate(points, 1):
        capture, asked = folder / point.file, point.of(options)
        if capture.exists():
            _require_the_same(capture, asked)
            built.add(point.is_prompt)
            yield point, capture, None
            continue
        said = f"{point.word} ({place} of {len(points)})"
        try:
            path = run_profile(
                replace(asked, out=capture),
                lambda message, said=said: progress(f"{said}: {message}"),  # type: ignore[misc]
                device_layer,
            )
        except NothingMeasured as error:
            yield point, None, str(error)
        except BadTarget as error:
            if point.is_prompt not in built:
                raise
            yield point, None, str(error)
        except Interrupted:
            capture.unlink(missing_ok=True)  # a part of it would be taken for the whole when the sweep goes on
            raise KeyboardInterrupt from None
        else:
            built.add(point.is_prompt)
            yield point, path, None


def _require_the_same(path: Path, options: ProfileOptions) -> None:
    manifest = open_capture(path).manifest
    differs = [
        f"{name} {was}, not {now}" for name, was, now in _asked(manifest, options) if now is not None and was != now
    ]
    if differs:
        raise LaunchscopeError(
            f"{path}: measured before with {'; '.join(differs)}: name another folder with -o, or remove this file"
        )


def _asked(manifest: Manifest, options: ProfileOptions) -> Iterator[tuple[str, object, object]]:
    """What it is called, as measured, and as asked for; null where that is left to the target."""
    target = manifest.target
    yield "target", target.name, target_name(options.target)
    yield "batch size", target.batch_size, options.batch_size
    yield "context length", target.context_length, options.context_length
    yield "dtype", target.dtype, options.dtype
    yield "settings", target.settings, masked(options.settings)
    repeats = (sum(each.trace_pass != "stacks" for each in mode.processes) for mode in manifest.modes.values())
    yield "repeats", min(repeats), options.repeats
    if AS_WRITTEN not in manifest.modes:  # a target under graphs of its own runs in that mode, whatever is asked for
        yield "modes", ", ".join(manifest.modes), ", ".join(options.modes)
