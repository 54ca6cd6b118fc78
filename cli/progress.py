"""What is being done now, on stderr: one line that is rewritten on a terminal, a line each in a log."""

from __future__ import annotations

import contextlib
import sys
import time
from types import TracebackType
from typing import Final

from .writing import one_line, say

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
