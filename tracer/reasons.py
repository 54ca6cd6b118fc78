"""Why a mode failed, in words, with the user's own line."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

_LONGEST: Final = 300  # characters of somebody else's message
_INSTALLED: Final = ("site-packages", "dist-packages", f"{os.sep}lib{os.sep}python3")


def reason(error: BaseException, phase: str, folder: Path | None) -> str:
    """One line: what happened, during which phase, at which line of the user's code where that is known."""
    chain = list(_chain(error))
    # leaving a capture that failed raises an error of its own, and so does the compiler
    told = chain[-1] if phase in ("capture", "compile") else error
    return f"{_words(told, phase)}{_place(chain, folder)}"


def nothing_measured(errors: Mapping[str, str | None]) -> str:
    """Why no mode ran: each reason once, with the modes that it stopped."""
    modes: dict[str, list[str]] = {}
    for mode, error in errors.items():
        modes.setdefault(error or "interrupted", []).append(mode)
    return "no mode ran: " + "; ".join(f"{', '.join(those)}: {error}" for error, those in modes.items())


def _chain(error: BaseException | None) -> Iterator[BaseException]:
    """The error, the one it came from, and so on back to the first; an error ``from None`` is the first."""
    seen = set()
    while error is not None and id(error) not in seen:
        seen.add(id(error))
        yield error
        error = error.__cause__ or (None if error.__suppress_context__ else error.__context__)


def _words(error: BaseException, phase: str) -> str:
    import torch

    text = _first_line(str(error))
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of GPU memory ({phase}): {text.partition(' Including non-PyTorch memory')[0]}"
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


def _place(chain: list[BaseException], folder: Path | None) -> str:
    """`, at model.py:42 in decode: x.item()`: the innermost frame of the user's code in the earliest error with one.

    A frame in the target's own folder goes before one in another folder of theirs.
    """
    errors = [[f for f in traceback.extract_tb(error.__traceback__) if _is_theirs(f.filename)] for error in chain]
    beside = [[f for f in frames if _is_in(f.filename, folder)] for frames in errors]
    for frames in (*reversed(beside), *reversed(errors)):
        if frames:
            frame = frames[-1]
            return f", at {Path(frame.filename).name}:{frame.lineno} in {frame.name}: {(frame.line or '').strip()}"
    return ""


def _is_theirs(filename: str) -> bool:
    path = os.path.realpath(filename)
    own = str(Path(__file__).resolve().parent)
    return not (filename.startswith("<") or path.startswith(own) or any(part in path for part in _INSTALLED))


def _is_in(filename: str, folder: Path | None) -> bool:
    return folder is not None and Path(os.path.realpath(filename)).is_relative_to(folder.resolve())
