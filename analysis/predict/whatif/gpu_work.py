"""How long the GPU ops of a step would take with another memory, other weights, more rows, or a part of the model.

What is known of a step are the bytes of weights and of caches that it reads, its FLOPs, and this GPU's rates. The
time that they take at those rates (step_model/step_bytes.py) is a part of the matmuls' and of attention's time; that
part moves, the rest stays.

More rows make all kernels longer: GPU work grows by ``ROWS`` times what these parts grow by, and from one row to
several the library takes other kernels. What the real thing
gives lies around that, so every answer has a low and a high one beside it (docs/validation.md, "What-if").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ...model.collective_kinds import kind_of_kernel
from ...model.op_names import is_compiled
from ...model.trace import GpuOps, Ints
from ...step_model.knobs import Knobs, of_class
from ...step_model.step_bytes import StepBytes
from .simulator import Times

CLASSES: Final = ("matmul", "attention", "communication", "copy", "other")
"""Order of the classes' numbers. ``other``: element-wise kernels, reductions, norms, what isn't recognised."""

_ATTENTION: Final = re.compile(r"sdpa|flash|fmha|attention|lean_reduction|mha_|_mla_|decode_attn", re.IGNORECASE)
_MATMUL: Final = re.compile(
    r"nvjet|gemm|gemv|cutlass|splitkreduce|cijk_|matmul|int4|int8mm|marlin|cublas|addmm|bmm|_mm_|_mm$|wgmma",
    re.IGNORECASE,
)
_TEMPLATE: Final = "triton_tem_"
"""torch.compile's matmuls and attention; its other kernels are named after operators that they only follow."""

ROWS: Final = 1.25
"""W's growth with the batch ÷ that of these parts (NVIDIA H200, 1B sample, batch 256 to 2,048: 1.19)."""

OTHER_KERNELS: Final = 0.13
"""Of W: what the library's other kernels for more than one row take longer (NVIDIA H200, 1B sample: 0.07 to 0.19)."""

SAVED: Final = (0.7, 1.25)
"""Of what fewer bytes promise, what came (NVIDIA H200): 0.78 int4 7B, 1.02 half width, 1.18 int4 1B."""


class OpTimes(NamedTuple):
    """Times of the ops of a plan: the usual answer between two that are sooner and later."""

    low_ns: Times
    usual_ns: Times
    high_ns: Times


def changed_times(op_ns: Times, op_class: Ints, steps: int, known: StepBytes | None, knobs: Knobs) -> OpTimes:
    """The ops' times with the knobs turned, over so many steps alike. Without ``known`` the classes' times alone."""
    by_class = np.array([of_class(knobs.times, name) for name in CLASSES])
    op_ns = op_ns * by_class[op_class]
    if known is None or not knobs.needs_bytes:
        return OpTimes(op_ns, op_ns, op_ns)
    one_batch = replace(knobs, batch_size=None)
    moved, grown = np.zeros(len(op_ns)), np.zeros(len(op_ns))
    for name, part_ns in (("matmul", known.matmul_ns), ("attention", known.attention_ns)):
        own = np.where(op_class == CLASSES.index(name), op_ns, 0.0)
        took = float(own.sum()) / steps
        before = part_ns()
        if not took or not before:
            continue
        per_ns = own / took * min(took / before, 1.0)  # a part that is more than the whole moves as the whole
        middle = part_ns(one_batch)
        moved += per_ns * (middle - before)
        grown += per_ns * (part_ns(knobs) - middle)
    all_ops = op_ns / max(float(op_ns.sum()), 1.0) * grown.sum()
    other = OTHER_KERNELS * op_ns if known.batch_size == 1 and grown.any() else 0.0
    usual = op_ns + moved + grown + (ROWS - 1) * all_ops + other
    least, most = (SAVED[1], SAVED[0]) if moved.sum() < 0 else (1.0, 1.0)
    low = op_ns + least * moved + grown
    high = op_ns + most * moved + ROWS * (grown + (ROWS - 1) * all_ops) + 2 * other
    return OpTimes(*(np.maximum(each, 0.0) for each in (low, usual, high)))


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
