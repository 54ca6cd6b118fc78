"""How coordinators end: what signals do to them, and what they leave for the agent that started them."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import msgspec

from ...analysis.model import errors
from ...analysis.model.errors import RankFailed
from .api import Interrupted

INTERRUPTED: Final = "interrupted"
DONE: Final = "done"
HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals to end."""
Handlers = Mapping[signal.Signals, Any]
"""What a process does on each of them."""


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a coordinator ended, left in a file for the agent."""

    rank: int
    host: str
    how: str  # DONE, INTERRUPTED, or the name of an error
    message: str = ""
    path: str | None = None  # of the capture


def capture_of_ended(ended: Mapping[int, Ended], failures: Mapping[int, Any], interrupted: bool) -> Path | None:
    """What the coordinators left, as if rank 0's had run in this process."""
    own = ended.get(0)
    path = _path(own)
    if interrupted:
        raise Interrupted(path)
    if own is not None and own.how not in (DONE, INTERRUPTED):
        raise _error(own)
    killed = next((rank for rank in failures if rank not in ended), None)
    if killed is not None:
        how = f"what coordinates it was ended by {_how_ended(failures[killed])}"
        raise RankFailed(f"rank {killed} on {socket.gethostname()}: {how}{what_is_kept(own)}")
    if own is None or own.how == INTERRUPTED:  # by the agent, for another one; or rank 0 is elsewhere
        failed = next((each for each in ended.values() if each.how not in (DONE, INTERRUPTED)), None)
        if failed is not None:
            raise _error(failed)
    if any(each.how == INTERRUPTED for each in ended.values()):
        raise Interrupted(path)
    return path


def _error(ended: Ended) -> Exception:
    kind: type[Exception] = getattr(errors, ended.how, RuntimeError)
    return kind(ended.message)


def _path(ended: Ended | None) -> Path | None:
    return None if ended is None or ended.path is None else Path(ended.path)


def what_is_kept(ended: Ended | None) -> str:
    """The end of a message: where what was measured is."""
    path = _path(ended)
    return "; nothing is kept" if path is None else f"; what was measured until then is in {path}"


def _how_ended(failure: Any) -> str:
    code = int(failure.exitcode)
    return f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"


def read_endings(folder: Path) -> list[Ended]:
    """Of the coordinators that left a file."""
    return [msgspec.json.decode(file.read_bytes(), type=Ended) for file in sorted(folder.glob("ended-*.json"))]


@contextmanager
def first_signal_interrupts() -> Iterator[None]:
    """Inside, the first signal to end raises KeyboardInterrupt, and later ones do nothing: a terminal's Ctrl-C comes
    twice, once by way of the launcher, and what was measured is to be kept."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    if hangups_ignored():
        del before[signal.SIGHUP]

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise  # and what follows is let be, too
    except BaseException:
        set_handlers(before)
        raise
    else:
        set_handlers(before)


def hangups_ignored() -> bool:
    """As nohup has it."""
    return signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def set_handlers(handlers: Handlers) -> None:
    """Do on each signal what was done before."""
    for number, handler in handlers.items():
        if handler is not None:  # not one of Python's
            signal.signal(number, handler)
