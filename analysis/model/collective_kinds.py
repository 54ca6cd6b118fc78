"""Which kernels communicate with other GPUs, and how: by their names, or as torch.distributed names the collective.

One list for all that asks: NCCL's and RCCL's kernels (old, new and symmetric ones), NVSHMEM's and torch's symmetric
memory, and the custom all-reduces of vLLM, SGLang, FlashInfer, TensorRT-LLM and AITER, DeepEP's all-to-alls.
"""

from __future__ import annotations

import re
from typing import Final

from .op_names import is_compiled

UNKNOWN: Final = "communication"
"""The kind of a kernel that communicates, of which the name does not tell how: RCCL's ``ncclDevKernel_Generic``."""

WAIT_FOR_ALL: Final = ("all_reduce", "all_gather", "reduce_scatter", "all_to_all", "barrier")
"""Kinds in which no rank can end before every rank has arrived: the last to arrive waits for nobody."""

_KINDS: Final = (
    ("all_reduce", r"all_?reduce|cross_device_reduce|quick_?reduce"),
    ("all_gather", r"all_?gather"),
    ("reduce_scatter", r"reduce_?scatter"),
    ("all_to_all", r"all_?to_?all|deep_ep::.*(?:dispatch|combine)"),
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
