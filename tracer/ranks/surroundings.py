"""What the processes of a rank find around them."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import FrameType
from typing import Any, Final, NoReturn

from .options import Place

_ENDING: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)


def variables(place: Place) -> dict[str, str]:
    """Variables for the processes that measure: one CPU thread each, as torchrun has it, unless somebody said else."""
    return {"OMP_NUM_THREADS": "1"} if place.local_world_size > 1 and "OMP_NUM_THREADS" not in os.environ else {}


@contextmanager
def first_signal_interrupts() -> Iterator[None]:
    """Inside, the first signal to end raises KeyboardInterrupt, and later ones do nothing: a terminal's Ctrl-C comes
    twice, once by way of the launcher, and what was measured is to be kept."""
    before = {number: signal.getsignal(number) for number in _ENDING}
    if before[signal.SIGHUP] == signal.SIG_IGN:  # nohup
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
        _restore(before)
        raise
    else:
        _restore(before)


def _restore(before: Mapping[signal.Signals, Any]) -> None:
    for number, handler in before.items():
        signal.signal(number, handler)
