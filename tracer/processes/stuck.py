"""Where a process was that did not end in time: at work of its own, or waiting for other ranks or for the GPU."""

from __future__ import annotations

import re
from pathlib import Path
from traceback import FrameSummary
from typing import Final, NamedTuple

from ..target.reasons import users_line

_FRAME: Final = re.compile(r'^  File "([^"]+)", line (\d+) in (.+)$', re.MULTILINE)  # as faulthandler writes it
_WAITS: Final = ("/torch/", "/tracer/processes/rank_child.py")
"""In a collective, in a synchronise, or in any operator that can't be launched while the GPU's queue is full."""
_WORKS: Final = ("/torch/_dynamo/", "/torch/_inductor/", "/torch/_functorch/", "/torch/fx/")


class Stuck(NamedTuple):
    """``waits``: in a call that comes back when others have done their part."""

    waits: bool
    line: str | None  # of the user's: 'model.py:42 in decode: x.item()'


def stuck(stacks: str, folder: Path | None) -> Stuck | None:
    """From the stacks of all threads, the innermost frame first; null where the one that measures isn't among them."""
    threads = [_frames(thread) for thread in stacks.split("\n\n")]
    own = next((frames for frames in threads if any(_is_ours(frame.filename) for frame in frames)), None)
    if own is None:
        return None
    innermost = own[0].filename
    waits = any(part in innermost for part in _WAITS) and not any(part in innermost for part in _WORKS)
    return Stuck(waits, users_line(own[::-1], folder))


def _is_ours(filename: str) -> bool:
    return Path(filename).name == "worker.py" and Path(filename).parent.name == "processes"


def _frames(thread: str) -> list[FrameSummary]:
    return [FrameSummary(file, int(line), function) for file, line, function in _FRAME.findall(thread)]
