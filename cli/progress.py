"""What is being done now, on stderr: one line that is rewritten on a terminal, a line each in a log."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
from pathlib import PurePath
from types import TracebackType
from typing import TYPE_CHECKING, Final

from .writing import one_line, say

if TYPE_CHECKING:
    from rich.progress import Progress

_QUIET_S: Final = 1.0  # what is done by then needs no bar
_REFRESH_S: Final = 0.1
_CLEAR_LINE: Final = "\r\x1b[2K"
_UNKNOWN_WIDTH: Final = 80
_BAR_WIDTH: Final = 40
_NAME_WIDTH: Final = 32
_MB: Final = 1e6


def can_redraw() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


class ProgressLine:
    """Call it with a message. Leaving the ``with`` block clears the line on a terminal."""

    def __init__(self) -> None:
        self._live = can_redraw()
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
        with contextlib.suppress(OSError, ValueError):
            try:
                width = os.get_terminal_size(sys.stderr.fileno()).columns or _UNKNOWN_WIDTH
            except OSError:
                width = _UNKNOWN_WIDTH
            sys.stderr.write(_CLEAR_LINE + line[: width - 1])
            sys.stderr.flush()


class Bar:
    """How far reading or writing has come, on a terminal and after a second; call it with path, size and bytes done.

    It shows the file at hand, and says when that one has been read and is analyzed. Drawn from a thread of its own, so
    that it also appears while there is nothing to be told.
    """

    def __init__(self, doing: str = "reading") -> None:
        self._live = can_redraw()
        self._doing = doing
        self._begun = time.monotonic()
        self._at: tuple[str, int | None, int] = ("", None, 0)  # path, size, done: replaced as one
        self._ends = threading.Event()
        self._drawing = threading.Thread(target=self._draw, daemon=True)

    def __enter__(self) -> Bar:
        if self._live:
            try:
                self._drawing.start()
            except RuntimeError:  # no thread to be had
                self._live = False
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ends.set()
        if self._live:
            self._drawing.join()

    def __call__(self, path: str, size: int | None, count: int) -> None:
        """``size`` None: nobody knows."""
        before, _, done = self._at
        self._at = (path, size, count + (done if path == before else 0))

    def _draw(self) -> None:
        if self._ends.wait(_QUIET_S):
            return
        with contextlib.suppress(OSError, ValueError), _new_bar() as bar:  # a terminal may go away
            task = bar.add_task("", text="")
            while True:
                path, size, done = self._at
                doing = "analyzing" if size is not None and done >= size else self._doing
                of = "" if size is None else f"/{size / _MB:.1f}"
                amount = f"{done / _MB:.1f}{of} MB · " if path else ""
                text = f"{amount}{time.monotonic() - self._begun:.0f} s"
                name = one_line(PurePath(path).name)
                what = f"{doing} {name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 1] + '…'}"
                bar.update(task, description=what, total=size, completed=done, text=text, refresh=True)
                if self._ends.wait(_REFRESH_S):
                    return


def _new_bar() -> Progress:
    """One line, gone when it ends; drawn when it is told to."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
    bar = BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=_BAR_WIDTH))
    text = TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True))
    return Progress(name, bar, text, console=Console(stderr=True), transient=True, auto_refresh=False)
