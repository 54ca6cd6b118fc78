"""What names in a trace say: which GPU ops are the same in two recordings, which communicate with other GPUs and how,
and which Python frame of a stack is the user's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import chain
from typing import Final

import numpy as np

from .trace import NONE, Ints, OpKind

COMPILED: Final = "triton_"
"""What torch.compile's names of its own kernels begin with."""

_NUMBER: Final = re.compile(r"_\d+$")
_MEMORY_KINDS: Final = re.compile(r"\s*\(.*")


def is_compiled(name: str | None) -> bool:
    """A kernel that torch.compile wrote, or its launch."""
    return name is not None and name.startswith(COMPILED)


def unnumbered(name: str) -> str:
    """A name of torch.compile's without its number in the file that it wrote: the next compilation counts anew."""
    return _NUMBER.sub("", name) if is_compiled(name) else name


def same_op(name: str, category: str) -> str:
    """What the op is matched by. Copies and sets lose their memory kinds, which graphs report in other words."""
    return unnumbered(name) if category == OpKind.KERNEL.word else _MEMORY_KINDS.sub("", name)


UNKNOWN: Final = "communication"
"""The kind of a kernel that communicates, of which the name does not tell how: RCCL's ``ncclDevKernel_Generic``."""

ALL_TO_ALL: Final = "all_to_all"
SEND_RECV: Final = "send_recv"

WAIT_FOR_ALL: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Kinds in which no rank can end before every rank has arrived: the last to arrive waits for nobody."""

_KINDS: Final = (
    ("all_reduce", r"all_?reduce|cross_device_reduce|quick_?reduce"),
    ("all_gather", r"all_?gather"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_to_all", r"all_?to_?all|(?:deep_ep|dpsk::ep)\w*::.*(?:dispatch|combine)"),
    ("barrier", r"(?:nccl|rccl|nvshmem|symm\w*mem|symmetric_memory).*barrier|^barrier$"),
    ("broadcast", r"(?:nccl|rccl|nvshmem).*(?:broadcast|bcast)|^_?broadcast"),
    ("gather", r"^gather$"),
    ("scatter", r"^scatter$"),
    ("reduce", r"nccl\w*kernel_reduce_|ncclreduce|^reduce$"),
    ("send_recv", r"(?:nccl|rccl)\w*sendrecv|^(?:send|recv)(?:\b|\s)"),
    (UNKNOWN, r"nccl|rccl|nvshmem"),
)
_NUMBERS: Final = {kind: number for number, (kind, _) in enumerate(_KINDS)}
_PATTERNS: Final = tuple((kind, re.compile(pattern, re.IGNORECASE)) for kind, pattern in _KINDS)


def kind_of_kernel(name: str) -> str | None:
    """What a kernel of this name does with other GPUs; None for one that stays on its own.

    torch.compile names its kernels after operators that they only follow: none of them communicates.
    """
    return None if is_compiled(name) else _kind(name)


def kind_of_collective(name: str) -> str:
    """The kind of a collective by torch.distributed's name: ``allreduce``, ``_allgather_base``, ``send 0->1``."""
    return _kind(name) or UNKNOWN


def number_of_kind(kind: str) -> int:
    """The same of every rank."""
    return _NUMBERS[kind]


def waits_for_all(kind: str) -> bool:
    """Whether transfer and waiting can be told apart, given the ranks' durations."""
    return kind in WAIT_FOR_ALL


def _kind(name: str) -> str | None:
    return next((kind for kind, pattern in _PATTERNS if pattern.search(name)), None)


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
