"""What is being done now, on stderr: one line that is rewritten on a terminal, a line each in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Final

from .writing import one_line, say

if TYPE_CHECKING:
    from rich.progress import Progress, TaskID

_QUIET_S: Final = 1.0  # what is done by then needs no bar
_REFRESH_S: Final = 0.1
_CLEAR_LINE: Final = "\r\x1b[2K"
_UNKNOWN_WIDTH: Final = 80


class ProgressLine:
    """Call it with a message. Leaving the ``with`` block clears the line on a terminal."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._begun = time.monotonic()

    def __enter__(self) -> ProgressLine:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live:
            self._draw("")

    def __call__(self, message: str) -> None:
        line = f"{one_line(message)} · {time.monotonic() - self._begun:.0f} s"
        if self._live:
            self._draw(line)
        else:
            say(line)

    def _draw(self, line: str) -> None:
        import os

        with contextlib.suppress(OSError, ValueError):
            try:
                width = os.get_terminal_size(sys.stderr.fileno()).columns or _UNKNOWN_WIDTH
            except OSError:
                width = _UNKNOWN_WIDTH
            sys.stderr.write(_CLEAR_LINE + line[: width - 1])
            sys.stderr.flush()


class ReadingBar:
    """How much of a file has been read, on a terminal and after a second; call it with path, size and bytes read."""

    def __init__(self) -> None:
        self._live = sys.stderr is not None and sys.stderr.isatty()
        self._begun = self._drawn = time.monotonic()
        self._bar: Progress | None = None
        self._tasks: dict[str, TaskID] = {}
        self._read: dict[str, int] = {}

    def __enter__(self) -> ReadingBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._bar is not None:
            self._bar.stop()

    def __call__(self, path: str, size: int, count: int) -> None:
        self._read[path] = self._read.get(path, 0) + count
        now = time.monotonic()
        if not self._live or now - self._begun < _QUIET_S or now - self._drawn < _REFRESH_S:
            return
        self._drawn = now
        if self._bar is None:
            self._bar = _new_bar()
            self._bar.start()
        if path not in self._tasks:
            self._tasks[path] = self._bar.add_task(f"reading {one_line(PurePath(path).name)}", total=size)
        self._bar.update(self._tasks[path], completed=self._read[path], refresh=True)


def _new_bar() -> Progress:
    """Gone when it ends; redrawn by whoever reads, since a thread that redraws would take time from reading."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, Progress, TextColumn, TimeRemainingColumn

    name = TextColumn("{task.description}", markup=False)
    columns = (name, BarColumn(), DownloadColumn(), TimeRemainingColumn())
    return Progress(*columns, console=Console(stderr=True), transient=True, auto_refresh=False)
