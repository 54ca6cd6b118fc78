"""What is being done now, on stderr: one line that is rewritten on a terminal, a line each in a log."""

from __future__ import annotations

import os
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from pathlib import PurePath
from typing import TYPE_CHECKING, Final

from ..analysis.model.errors import one_line
from .writing import say

if TYPE_CHECKING:
    from rich.progress import Progress

    from ..analysis.many.document import RankRow

_QUIET_S: Final = 1.0  # what is done by then needs no bar
_REFRESH_S: Final = 0.1
_ROWS_LIVE_S: Final = 0.2
_ROWS_LOGGED_S: Final = 10.0  # between lines of a log
_CLEAR_LINE: Final = "\r\x1b[2K"
_UNKNOWN_WIDTH: Final = 80
_BAR_WIDTH: Final = 40
_NAME_WIDTH: Final = 32
_MB: Final = 1e6

_State = tuple[str, int | None, int]
"""Path, size and bytes done."""


def can_redraw() -> bool:
    return sys.stderr is not None and sys.stderr.isatty() and os.environ.get("TERM") != "dumb"


@contextmanager
def progress_line() -> Iterator[Callable[[str], None]]:
    """A function that shows a message. The end of the ``with`` block clears the line on a terminal."""
    is_live, begun = can_redraw(), time.monotonic()

    def show(message: str) -> None:
        line = f"{one_line(message)} · {time.monotonic() - begun:.0f} s"
        if is_live:
            _redraw(line)
        else:
            say(line)

    try:
        yield show
    finally:
        if is_live:
            _redraw("")


def _redraw(line: str) -> None:
    with suppress(OSError, ValueError):
        try:
            width = os.get_terminal_size(sys.stderr.fileno()).columns or _UNKNOWN_WIDTH
        except OSError:
            width = _UNKNOWN_WIDTH
        sys.stderr.write(_CLEAR_LINE + line[: width - 1])
        sys.stderr.flush()


def show_rows(show: Callable[[str], None]) -> Callable[[int, int, RankRow], None]:
    """A function to call with each row of a table of ranks; now and then it shows how many files have been read."""
    begun = shown = time.monotonic()
    size = failed = 0

    def count(done: int, total: int, row: RankRow) -> None:
        nonlocal shown, size, failed
        size += row.bytes or 0
        failed += row.error is not None
        now = time.monotonic()
        if now - shown >= (_ROWS_LIVE_S if can_redraw() else _ROWS_LOGGED_S) and done < total:
            shown = now
            unread = f" · {failed:,} can't be read" if failed else ""
            show(f"{done:,} of {total:,} files · {size / max(now - begun, 1e-3) / _MB:,.0f} MB/s{unread}")

    return count


@contextmanager
def progress_bar(doing: str = "reading") -> Iterator[Callable[[str, int | None, int], None]]:
    """A function to call with path, size and new bytes; a bar shows how far it is, on a terminal and after a second.

    The size is None where it is not known. The bar shows the file at hand, and says when that one has been read and is
    analyzed. A thread draws it, so that it also appears while nothing calls.
    """
    state: _State = ("", None, 0)  # replaced as one
    done = threading.Event()

    def count(path: str, size: int | None, new: int) -> None:
        nonlocal state
        before, _, so_far = state
        state = (path, size, new + (so_far if path == before else 0))

    drawing = threading.Thread(target=_draw, args=(doing, lambda: state, done), daemon=True)
    is_live = can_redraw()
    if is_live:
        try:
            drawing.start()
        except RuntimeError:  # no thread to be had
            is_live = False
    try:
        yield count
    finally:
        done.set()
        if is_live:
            drawing.join()


def _draw(doing: str, state: Callable[[], _State], done: threading.Event) -> None:
    begun = time.monotonic()
    if done.wait(_QUIET_S):
        return
    with suppress(OSError, ValueError), _new_bar() as bar:  # a terminal may go away
        task = bar.add_task("", text="")
        while True:
            path, size, count = state()
            now = "analyzing" if size is not None and count >= size else doing
            of = "" if size is None else f"/{size / _MB:.1f}"
            amount = f"{count / _MB:.1f}{of} MB · " if path else ""
            text = f"{amount}{time.monotonic() - begun:.0f} s"
            name = one_line(PurePath(path).name)
            what = f"{now} {name if len(name) <= _NAME_WIDTH else name[: _NAME_WIDTH - 1] + '…'}"
            bar.update(task, description=what, total=size, completed=count, text=text, refresh=True)
            if done.wait(_REFRESH_S):
                return


def _new_bar() -> Progress:
    """One line, which goes away at the end, and is drawn on request only."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn
    from rich.table import Column

    name = TextColumn("{task.description}", markup=False, table_column=Column(no_wrap=True))
    bar = BarColumn(bar_width=None, table_column=Column(ratio=1, max_width=_BAR_WIDTH))
    text = TextColumn("{task.fields[text]}", table_column=Column(no_wrap=True))
    return Progress(name, bar, text, console=Console(stderr=True), transient=True, auto_refresh=False)
