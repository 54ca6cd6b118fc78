"""A profile per batch size, each a capture of its own: a sweep that was stopped goes on where it was."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path

from ..analysis.capture import AS_WRITTEN, Manifest, open_capture
from ..analysis.errors import BadTarget, LaunchscopeError, NothingMeasured
from .api import Interrupted, run_profile
from .describe import masked, target_name
from .device import CUDA
from .options import ProfileOptions, Progress


def run_sweep(
    options: ProfileOptions,
    batch_sizes: Sequence[int],
    folder: Path,
    progress: Progress,
    device_layer: str = CUDA,
) -> Iterator[tuple[int, Path | None, str | None]]:
    """Batch size, its capture below ``folder``, and why there is none, as soon as each is measured.

    A capture that is there already is taken as it is; LaunchscopeError where it is of something else. Raises as
    ``run_profile``, but not for a batch that can't be built or measured after one that can: the largest may not fit.
    """
    can_be_built = False
    for place, size in enumerate(batch_sizes, 1):
        capture = folder / f"batch-{size}.zip"
        if capture.exists():
            _require_the_same(capture, replace(options, batch_size=size))
            can_be_built = True
            yield size, capture, None
            continue
        said = f"batch {size} ({place} of {len(batch_sizes)})"
        try:
            path = run_profile(
                replace(options, batch_size=size, out=capture),
                lambda message, said=said: progress(f"{said}: {message}"),  # type: ignore[misc]
                device_layer,
            )
        except NothingMeasured as error:
            yield size, None, str(error)
        except BadTarget as error:
            if not can_be_built:
                raise
            yield size, None, str(error)
        except Interrupted:
            capture.unlink(missing_ok=True)  # a part of it would be taken for the whole when the sweep goes on
            raise KeyboardInterrupt from None
        else:
            can_be_built = True
            yield size, path, None


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
