"""Why a mode failed, in words, with the user's own line."""

from __future__ import annotations

import os
import re
import traceback
from pathlib import Path
from typing import Final

_LONGEST: Final = 300  # characters of somebody else's message
_INSTALLED: Final = ("site-packages", "dist-packages", f"{os.sep}lib{os.sep}python3")


def reason(error: BaseException, phase: str, folder: Path | None) -> str:
    """One line: what happened, during which phase, at which line of the user's code where that is known."""
    root = _root(error)
    return f"{_words(root, phase)}{_place(error, folder)}"


def _root(error: BaseException) -> BaseException:
    """The first error of a chain: leaving a capture that failed raises one of its own."""
    while (earlier := error.__cause__ or error.__context__) is not None:
        error = earlier
    return error


def _words(error: BaseException, phase: str) -> str:
    import torch

    text = _first_line(str(error))
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of GPU memory ({phase}): {text}"
    if phase == "capture" and ("captur" in text or "cudaErrorStreamCapture" in str(error)):
        return (
            "can't be captured: the step does something that waits for the GPU or depends on its results "
            f"(.item(), .cpu(), nonzero, a synchronise) — {text}"
        )
    if phase == "compile":
        return f"torch.compile failed: {type(error).__name__}: {text}"
    return f"{type(error).__name__} ({phase}): {text}"


def _first_line(text: str) -> str:
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    line = re.sub(r"[\x00-\x1f\x7f]", " ", line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def _place(error: BaseException | None, folder: Path | None) -> str:
    """`, at model.py:42 in decode: x.item()`: the innermost frame of the user's own code, in any error of the chain."""
    seen = set()
    frames: list[traceback.FrameSummary] = []
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        frames = [f for f in traceback.extract_tb(error.__traceback__) if _is_theirs(f.filename, folder)] or frames
        error = error.__cause__ or error.__context__
    if not frames:
        return ""
    frame = frames[-1]
    return f", at {Path(frame.filename).name}:{frame.lineno} in {frame.name}: {(frame.line or '').strip()}"


def _is_theirs(filename: str, folder: Path | None) -> bool:
    path = os.path.realpath(filename)
    own = str(Path(__file__).resolve().parent)
    if folder is not None and Path(path).is_relative_to(folder.resolve()):
        return not path.startswith(own)
    return not (filename.startswith("<") or path.startswith(own) or any(part in path for part in _INSTALLED))
