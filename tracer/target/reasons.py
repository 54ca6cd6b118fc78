"""Why a mode failed, and what torch.compile says of itself, in words, with the user's own line.

Graph breaks, recompiles and CUDA graphs that it left out are read from its own records after the fact, and it is never
imported for it: a process that compiled nothing has none.
"""

from __future__ import annotations

import logging
import os
import re
import sys
import traceback
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import CodeType
from typing import Any, Final

from ...analysis.model.capture import CompileRecord, Failure, GraphBreak, Recompile

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


_SKIP_LOGGERS: Final = ("torch._inductor.cudagraph_utils.__perf_hints", "torch._inductor.cudagraph_utils.__cudagraphs")
"""Where skips are logged: the first until torch 2.12 or so, the second from then on."""
_SKIP: Final = re.compile(r"skipping cudagraphs|cudagraph", re.IGNORECASE)
_HINT: Final = re.compile(r"^\s*Hint: (.+)$", re.MULTILINE)
_GUARD: Final = re.compile(r"^(\S+/\d+): (.*)", re.DOTALL)  # '4/0: L['n'] == 3  # …'
_GUARDED: Final = re.compile(r"#\s*(?P<code>[^#\n]*?)\s*#\s*(?P<file>\S+):(?P<line>\d+) in (?P<function>\S+)")
_LIMIT: Final = re.compile(r"recompile_limit|recompile limit|cache_size_limit")


class Compiler:
    """Listens to what torch.compile logs from now on, and reads the rest of its records when asked."""

    def __init__(self) -> None:
        self._skips: list[str] = []
        handler = _Listener(self._skips)
        for name in _SKIP_LOGGERS:
            logging.getLogger(name).addHandler(handler)

    def record(self, folder: Path | None) -> CompileRecord | None:
        """What it did in this process up to now; null if it compiled nothing. ``folder``: of the target."""
        utils: Any = sys.modules.get("torch._dynamo.utils")
        if utils is None or not utils.counters["frames"]["total"]:
            return None
        counters = utils.counters
        guards: dict[CodeType, list[str]] = dict(getattr(utils, "guard_failures", {}))
        unlogged = ("no reason was logged",) if counters["inductor"]["cudagraph_skips"] else ()
        said = [*counters["graph_break"], *counters["unimplemented"]]
        return CompileRecord(
            unique_graphs=counters["stats"].get("unique_graphs"),
            graph_breaks=tuple(_breaks(getattr(utils, "graph_break_reasons", ()), counters["graph_break"], folder)),
            recompiles=tuple(_recompile(code, failed) for code, failed in guards.items() if failed),
            limit_reached=any(_LIMIT.search(text) for text in said),
            cudagraph_skips=tuple(dict.fromkeys(self._skips)) or unlogged,
        )


class _Listener(logging.Handler):
    def __init__(self, heard: list[str]) -> None:
        super().__init__(logging.WARNING)
        self._heard = heard

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        if _SKIP.search(text):
            self._heard.append(first_line(text))


def _breaks(reasons: Iterable[Any], counted: Counter[str], folder: Path | None) -> list[GraphBreak]:
    """By reason and line; those that were only counted without a line. The recompile limit is no break."""
    found: Counter[tuple[str, str | None]] = Counter()
    hints: dict[str, str | None] = {}
    for each in reasons:
        text = str(each.reason)
        if _LIMIT.search(text):
            continue
        found[first_line(text), user_line(each.user_stack, folder=folder)] += 1
        hints[first_line(text)] = _hint(text)
    seen = {reason for reason, _ in found}
    for text, count in counted.items():
        if first_line(text) not in seen and not _LIMIT.search(text):
            found[first_line(text), None] += count
            hints[first_line(text)] = _hint(text)
    return [
        GraphBreak(reason=reason, hint=hints[reason], line=line, count=count)
        for (reason, line), count in found.most_common()
    ]


def _hint(text: str) -> str | None:
    found = _HINT.search(text)
    return first_line(found[1]) if found else None


def _recompile(code: CodeType, failed: list[str]) -> Recompile:
    """Each time, every version compiled so far says which of its guards failed: the oldest one was asked each time."""
    parsed = [found for text in failed if (found := _GUARD.match(text))]
    counts = Counter(found[1] for found in parsed)
    last = parsed[-1][2] if parsed else failed[-1]
    about = _GUARDED.search(last)
    guard = first_line(last.partition("  #")[0])
    line = None
    if about is not None:
        function = original_name(about["function"])
        line = f"{Path(about['file']).name}:{about['line']} in {function}: {about['code'].strip()}"
    return Recompile(
        guard=guard,
        function=f"{original_name(code.co_name)} at {Path(code.co_filename).name}:{code.co_firstlineno}",
        line=line,
        count=max(counts.values(), default=len(failed)),
    )
