"""One step counted without a GPU: every operator that launches something, with its bytes and FLOPs."""

from __future__ import annotations

from typing import Final

import msgspec

from .capture import Target

MATRIX: Final = "matrix"
ATTENTION: Final = "attention"
REDUCTION: Final = "reduction"
ELEMENTWISE: Final = "elementwise"
COPY: Final = "copy"
OTHER: Final = "other"
"""``elementwise`` holds gathers, scatters and copies on the GPU, too; ``copy`` is one from or to the host; ``other``
are operators that a compiler calls as they are: sorts, samplers, custom operators."""

FUSIBLE: Final = (ELEMENTWISE, REDUCTION)
"""Kinds that torch.compile may put into one kernel with their neighbours."""


class CountedOp(msgspec.Struct, frozen=True, kw_only=True):
    """One call of an operator, as dispatched. Views, allocations and work of the host alone are left out."""

    operator: str  # 'aten::mm'
    kind: str
    launches: int = 1
    bytes: int  # read and written: distinct bytes of each tensor that it is given or returns
    flops: int = 0
    dtype: str | None = None  # of what it multiplies; null where it does not
    product: tuple[int, int, int] | None = None  # rows, columns and inner size of one matrix product


class CountedStep(msgspec.Struct, frozen=True, kw_only=True):
    """A target, and the operators of its step in order."""

    target: Target
    ops: tuple[CountedOp, ...]
    torch: str  # the version that counted: another one may launch other kernels
