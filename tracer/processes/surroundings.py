"""What the processes of a rank find around them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

from .rank_options import Place

HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals to end."""
Handlers = Mapping[signal.Signals, Any]
"""What a process does on each of them."""


def variables(place: Place) -> dict[str, str]:
    """Variables for the processes that measure: one CPU thread each, as torchrun has it, unless somebody said else."""
    return {"OMP_NUM_THREADS": "1"} if place.local_world_size > 1 and "OMP_NUM_THREADS" not in os.environ else {}


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
