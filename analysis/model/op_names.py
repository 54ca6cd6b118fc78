"""Which names of GPU ops mean the same op in two recordings."""

from __future__ import annotations

import re
from typing import Final

from .trace import OpKind

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
