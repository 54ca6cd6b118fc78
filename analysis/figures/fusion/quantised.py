"""Weights turned into the product's type before it, and rows quantised for it and its output turned back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...facts.tensor_shapes import BYTES_OF, PACKED_PRODUCTS, Tensor
from .ops import (
    Abstention,
    Already,
    Finding,
    Occurrence,
    Scan,
    is_elementwise,
    is_sum_of_two_alike,
    outputs_twice,
)
from .step import StepOp

DEQUANTISE: Final = "dequantise"
QUANTISE: Final = "quantise"

_QUANTISED: Final = ("_scaled_mm", "_int_mm")
_BEFORE: Final = 14
_BEHIND: Final = 4
_JOINS: Final = ("cat", "stack")
_REDUCES: Final = ("amax", "amin", "max", "min", "aminmax")
_HOW_WEIGHTS: Final = (
    "a product that reads the quantised weight itself: torch._weight_int8pack_mm, torch.ops.aten._weight_int4pack_mm, "
    "torchao's, Marlin's"
)
_HOW_ROWS: Final = "quantise in the norm's or the activation's kernel before it, and scale in the product's epilogue"


def weights(scan: Scan) -> Iterator[Finding]:
    """Operators on as many elements as a product's weight has, right before it."""
    for op in scan.free():
        if op.name in PACKED_PRODUCTS:
            yield Already(DEQUANTISE, op.name, (op,), takes=False)  # others may merge it with its neighbours
            continue
        if op.name not in ("mm", "addmm", "bmm") or op.output is None or len(op.tensors) < 2:
            continue
        weight = op.tensors[-1]
        before = _of_weight(scan, op, weight)
        if not before or weight.numel <= op.tensors[-2].numel:
            continue
        if not _from_fewer_bytes(before):
            if all(other.name == "copy_" for other in before):  # another layout, or a gathered weight
                continue
            reason = "operators of the weight's size stand before the product, but none reads a smaller type"
            yield Abstention(DEQUANTISE, reason, tuple(before))
            continue
        behind = [other for other in scan.run(op.position + 1, 1) if _scales(other, op)]
        yield Occurrence(
            DEQUANTISE,
            "weights dequantised before their product",
            (*before, op, *behind),
            op.launches,
            outputs_twice(before),
            f"these work on {weight.numel:,} elements, as the weight of the product behind them has, and begin with a "
            "smaller type",
            _HOW_WEIGHTS,
        )


def _of_weight(scan: Scan, product: StepOp, weight: Tensor) -> list[StepOp]:
    """Operators before the product that write as many elements as its weight has, or half of them at first."""
    found: list[StepOp] = []
    for op in reversed(scan.run_back(product.position - 1, _BEFORE)):
        made = op.output
        fits = made is not None and made.numel in (weight.numel, weight.numel // 2)
        if not fits or not (is_elementwise(op) or op.name in _JOINS):
            break
        found.insert(0, op)
    return found


def _from_fewer_bytes(ops: Sequence[StepOp]) -> bool:
    """The first of them reads a type with fewer bytes than the last one writes."""
    last = ops[-1].output
    sizes = [BYTES_OF[t.type] for op in ops for t in op.listed if t.type is not None and t.numel > 1]
    return last is not None and last.type is not None and min(sizes, default=8) < BYTES_OF[last.type]


def _scales(op: StepOp, product: StepOp) -> bool:
    """A multiplication of the product's output with a scale of each column."""
    made = product.output
    if op.name not in ("mul", "mul_") or made is None or op.output is None or len(op.tensors) != 2:
        return False
    sizes = sorted(tensor.numel for tensor in op.tensors)
    return op.output.numel == made.numel and sizes in ([made.width, made.numel], [made.numel, made.width])


def rows(scan: Scan) -> Iterator[Finding]:
    """Rows quantised right before a product of quantised numbers, and its output scaled behind."""
    for op in scan.free():
        if op.name not in _QUANTISED or len(op.tensors) < 2:
            continue
        size = op.tensors[0].numel
        before = _quantised(scan, op, size)
        behind: list[StepOp] = []
        columns = op.tensors[1].width
        written = op.tensors[0].dims[0] * columns if op.tensors[0].dims else 0
        for other in scan.run(op.position + 1, _BEHIND):
            fits = is_elementwise(other) and other.output is not None and other.output.numel == written
            if not fits or is_sum_of_two_alike(other):
                break
            behind.append(other)
        if not before and not behind:
            yield Already(QUANTISE, op.name or "", (op,))
            continue
        ops = (*before, *behind)
        after = bool(before) + bool(behind and not before)
        yield Occurrence(
            QUANTISE,
            "rows quantised for a product",
            ops,
            after,
            outputs_twice(ops[:-1]),
            f"these work on as many elements as the product {op.name} reads ({size:,}) or writes ({written:,})",
            _HOW_ROWS,
        )


def _quantised(scan: Scan, product: StepOp, size: int) -> list[StepOp]:
    """From the search for the largest to the cast; empty without a cast to the product's type."""
    found: list[StepOp] = []
    for op in reversed(scan.run_back(product.position - 1, _BEFORE)):
        is_rows = any(tensor.numel == size for tensor in op.tensors) or (found and _is_per_row(op, product))
        if not is_rows or not (is_elementwise(op) or op.name in _REDUCES) or is_sum_of_two_alike(op):
            break
        found.insert(0, op)
    casts = [op for op in found if op.output is not None and op.output.type == product.tensors[0].type]
    return found if casts else []


def _is_per_row(op: StepOp, product: StepOp) -> bool:
    """Works on one value for each row, or on one for all."""
    most = product.tensors[0].dims[0] if product.tensors[0].dims else 1
    return bool(op.tensors) and max(tensor.numel for tensor in op.tensors) <= most
