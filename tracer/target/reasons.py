"""Why a mode failed, in words, with the user's own line."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

from ...analysis.model.capture import Failure

NO_CAPTURE: Final = "can't be captured"
"""How the reason of a step begins that a graph can't hold."""

_LONGEST: Final = 300  # characters of somebody else's message
_RESUMED: Final = re.compile(r"^(?:torch_dynamo_resume_in_)+(.+?)(?:_at_\d+)+$")
"""How torch.compile names the rest of a function behind a graph break."""
_INSTALLED: Final = ("site-packages", "dist-packages", f"{os.sep}lib{os.sep}python3")


def reason(error: BaseException, phase: str, folder: Path | None) -> str:
    """One line: what happened, during which phase, at which line of the user's code where that is known."""
    found = failure(error, phase, folder)
    return found.reason if found.line is None else f"{found.reason}, at {found.line}"


def failure(error: BaseException, phase: str, folder: Path | None) -> Failure:
    """The same by its parts; the operator is not known here."""
    chain = list(_chain(error))
    # leaving a capture that failed raises an error of its own, and so does the compiler
    cause = chain[-1] if phase in ("capture", "compile") else error
    stacks = [traceback.extract_tb(each.__traceback__) for each in reversed(chain)]
    return Failure(phase=phase, reason=_words(cause, phase), line=user_line(*stacks, folder=folder))


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

    message = message_of(error)
    text = first_line(message)
    if isinstance(error, torch.OutOfMemoryError):
        return f"out of GPU memory ({phase}): {text.partition(' Including non-PyTorch memory')[0]}"
    if phase == "capture" and ("captur" in text or "cudaErrorStreamCapture" in message):
        return (
            f"{NO_CAPTURE}: the step does something that waits for the GPU or depends on its results "
            f"(.item(), .cpu(), nonzero, a synchronise) — {text}"
        )
    if phase == "compile":
        return f"torch.compile failed: {type(error).__name__}: {text}"
    return f"{type(error).__name__} ({phase}): {text}"


def message_of(error: BaseException) -> str:
    """What an error says of itself; nothing where its own code fails at that."""
    try:
        return str(error)
    except Exception:
        return ""


def first_line(text: str) -> str:
    """The first line of somebody else's message, of bearable length; a lone surrogate, which no file holds, escaped."""
    text = text.encode("utf-8", "backslashreplace").decode()
    line = next((line.strip() for line in text.splitlines() if line.strip()), "no message")
    line = re.sub(r"[\x00-\x1f\x7f]", " ", line)
    return line if len(line) <= _LONGEST else line[: _LONGEST - 1] + "…"


def user_line(*stacks: Sequence[traceback.FrameSummary], folder: Path | None) -> str | None:
    """`model.py:42 in decode: x.item()`: the innermost frame of user code in the first of the stacks with one.

    One in the target's own folder comes before all others.
    """
    for home in (folder.resolve(), None) if folder is not None else (None,):
        for frames in stacks:
            users = [frame for frame in frames if _is_user_code(frame.filename, home)]
            if users:
                place = f"{Path(users[-1].filename).name}:{users[-1].lineno} in {original_name(users[-1].name)}"
                return f"{place}: {(users[-1].line or '').strip()}"
    return None


def original_name(function: str) -> str:
    """A function as its author named it: torch.compile has names of its own for the rest behind a graph break."""
    return _RESUMED.sub(r"\1", function)


def _is_user_code(filename: str, folder: Path | None) -> bool:
    """With a folder only what lies in it."""
    path = os.path.realpath(filename)
    tracer = str(Path(__file__).resolve().parents[1])
    theirs = not (filename.startswith("<") or path.startswith(tracer) or is_installed(path))
    return theirs and (folder is None or Path(path).is_relative_to(folder))


def is_installed(path: str) -> bool:
    """A file of Python's or of a package's."""
    return any(part in path for part in _INSTALLED)
