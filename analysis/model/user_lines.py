"""The user's own line in a stack of Python frames."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from .trace import NONE, Ints

_LINE: Final = re.compile(r"\(\d+\): ")  # of a Python frame: 'model.py(42): forward'
_NOT_THE_USERS: Final = re.compile(r"(^|/)(torch|transformers|site-packages|dist-packages|lib/python[\d.]+)/|^<")


def users_line(stack: Sequence[str]) -> str | None:
    """The innermost Python frame of the user's own files, else the innermost one; None without any."""
    frames = [frame for frame in stack if _LINE.search(frame)]
    own = [frame for frame in frames if not _NOT_THE_USERS.search(frame)]
    return next(reversed(own or frames), None)


def users_lines(stacks: Sequence[Sequence[int]], names: Sequence[str]) -> Ints:
    """[stacks] the name of each stack's ``users_line``, NONE without any. A stack is indices into ``names``.

    Each name is looked at once, however many stacks hold it: a file of 250 MB has 75,000 stacks of a few hundred names.
    """
    frames = np.fromiter(chain.from_iterable(stacks), np.int64)
    rank = np.full(len(names), NONE, np.int64)
    for name in np.unique(frames).tolist():
        if _LINE.search(names[name]):
            rank[name] = 0 if _NOT_THE_USERS.search(names[name]) else 1
    lengths = np.fromiter(map(len, stacks), np.int64, len(stacks))
    lines = np.full(len(stacks), NONE, np.int64)
    has_frames = lengths > 0
    starts = (np.cumsum(lengths) - lengths)[has_frames]
    if len(starts):
        place = np.where(rank[frames] == NONE, NONE, rank[frames] * len(frames) + np.arange(len(frames)))
        best = np.maximum.reduceat(place, starts)
        lines[has_frames] = np.where(best == NONE, NONE, frames[best % len(frames)])
    return lines
