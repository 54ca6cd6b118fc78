"""A profile per batch size, prompt length and number of ranks, each a capture: a stopped sweep goes on there."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final, Literal

from ...analysis.model.capture import AS_WRITTEN, Manifest, open_capture
from ...analysis.model.errors import BadTarget, LaunchscopeError, NothingMeasured, RankFailed
from ...analysis.model.paths import exists
from ..measure.device import CUDA
from ..target.describe import masked, target_name
from ..target.options import ProfileOptions, Progress, RanksOptions
from .api import Interrupted
from .launch import run_ranks

PROMPT_LENGTH: Final = "prompt_length"
"""The parameter of a target's build that makes its step the prefill of a prompt of so many tokens."""


Kind = Literal["batch", "prompt", "ranks"]

_WORDS: Final = {"batch": "batch {}", "prompt": "prompt of {} tokens", "ranks": "{} ranks"}


@dataclass(frozen=True)
class Point:
    """One size to measure: of the batch of a decode step, of the prompt of a prefill, or of the group of ranks."""

    size: int
    kind: Kind = "batch"

    @property
    def word(self) -> str:
        """'batch 8'."""
        return "1 rank" if (self.size, self.kind) == (1, "ranks") else _WORDS[self.kind].format(self.size)

    @property
    def file(self) -> str:
        return f"{self.kind}-{self.size}.zip"

    def of(self, options: ProfileOptions) -> ProfileOptions:
        if self.kind == "prompt":
            return replace(options, settings={**options.settings, PROMPT_LENGTH: str(self.size)})
        return replace(options, batch_size=self.size) if self.kind == "batch" else options

    @property
    def ranks(self) -> int:
        return self.size if self.kind == "ranks" else 1


def run_sweep(
    options: ProfileOptions, points: Sequence[Point], folder: Path, progress: Progress, device_layer: str = CUDA
) -> Iterator[tuple[Point, Path | None, str | None]]:
    """Each point, its capture below ``folder``, and why there is none, as soon as it is measured.

    A capture that is there already is taken as it is; LaunchscopeError where it is of something else. Raises as
    ``run_profile``, but not for a size that can't be built or measured after one that can: the largest may not fit.
    """
    built: set[Kind] = set()
    for place, point in enumerate(points, 1):
        capture, wanted = folder / point.file, point.of(options)
        if exists(capture):
            _require_the_same(capture, wanted, point)
            built.add(point.kind)
            yield point, capture, None
            continue
        said = f"{point.word} ({place} of {len(points)})"
        try:
            path = run_ranks(
                replace(wanted, out=capture),
                RanksOptions(nproc_per_node=point.ranks),
                lambda message, said=said: progress(f"{said}: {message}"),  # type: ignore[misc]
                device_layer,
            )
        except (NothingMeasured, RankFailed) as error:
            capture.unlink(missing_ok=True)  # a part of it would be taken for the whole when the sweep goes on
            yield point, None, str(error)
        except BadTarget as error:
            if point.kind not in built:
                raise
            yield point, None, str(error)
        except Interrupted:
            capture.unlink(missing_ok=True)
            raise KeyboardInterrupt from None
        else:
            built.add(point.kind)
            yield point, path, None


def _require_the_same(path: Path, options: ProfileOptions, point: Point) -> None:
    manifest = open_capture(path).manifest
    differs = [
        f"{name} {was}, not {now}"
        for name, was, now in _settings_compared(manifest, options, point.ranks)
        if now is not None and was != now
    ]
    if differs:
        raise LaunchscopeError(
            f"{path}: measured before with {'; '.join(differs)}: name another folder with -o, or remove this file"
        )


def _settings_compared(manifest: Manifest, options: ProfileOptions, ranks: int) -> Iterator[tuple[str, object, object]]:
    """What it is called, as measured, and as asked for; null where that is left to the target."""
    target = manifest.target
    yield "target", target.name, target_name(options.target)
    yield "batch size", target.batch_size, options.batch_size
    yield "context length", target.context_length, options.context_length
    yield "dtype", target.dtype, options.dtype
    yield "settings", target.settings, masked(options.settings)
    yield "ranks", len(manifest.ranks) or 1, ranks
    repeats = (
        len({each.repeat for each in mode.processes if each.trace_pass != "stacks"}) for mode in manifest.modes.values()
    )
    yield "repeats", min(repeats), options.repeats
    if AS_WRITTEN not in manifest.modes:  # a target under graphs of its own runs in that mode, whatever is asked for
        yield "modes", ", ".join(manifest.modes), ", ".join(options.modes)
