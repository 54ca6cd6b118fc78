"""What a GPU op does, by its name: what a faster memory, fewer bits or more rows would do to it depends on that."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final

import numpy as np

from ..model.names import is_compiled, kind_of_kernel
from ..model.trace import GpuOps, Ints

CLASSES: Final = ("matmul", "attention", "communication", "copy", "other")
"""Order of the classes' numbers. ``other``: element-wise kernels, reductions, norms, what isn't recognised."""

_ATTENTION: Final = re.compile(r"sdpa|flash|fmha|attention|lean_reduction|mha_|_mla_|decode_attn", re.IGNORECASE)
_MATMUL: Final = re.compile(
    r"nvjet|gemm|gemv|cutlass|splitkreduce|cijk_|matmul|int4|int8mm|marlin|cublas|addmm|bmm|_mm_|_mm$|wgmma",
    re.IGNORECASE,
)
_TEMPLATE: Final = "triton_tem_"
"""torch.compile's matmuls and attention; its other kernels are named after operators that they only follow."""


def op_classes(ops: GpuOps, names: Sequence[str]) -> Ints:
    """[ops] each op's place in CLASSES."""
    used, of_op = np.unique(ops.name, return_inverse=True)
    found = np.array([CLASSES.index(class_of(names[int(name)])) for name in used], np.int64)[of_op.ravel()]
    return np.where(ops.is_kernel, found, CLASSES.index("copy"))


def class_of(kernel: str) -> str:
    """The class of a kernel."""
    if is_compiled(kernel) and not kernel.startswith(_TEMPLATE):
        return "other"
    if kind_of_kernel(kernel) is not None:
        return "communication"
    for name, pattern in (("attention", _ATTENTION), ("matmul", _MATMUL)):
        if pattern.search(kernel):
            return name
    return "other"
