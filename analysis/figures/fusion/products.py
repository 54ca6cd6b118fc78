"""Products of matrices: those that read the same rows, the activation behind gate and up, and quantised numbers.

Weights may be turned into the product's type before it, rows quantised for it, and its output scaled behind.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from ...facts.tensor_shapes import BYTES_OF, PACKED_PRODUCTS, Tensor
from .scan import Abstention, Already, Finding, Occurrence, Scan, outputs_twice
from .step import StepOp

_PROJECTIONS: Final = frozenset({"mm", "addmm", *PACKED_PRODUCTS})
"""Products of rows with one weight."""

_ACTIVATIONS: Final = frozenset({"silu", "silu_", "gelu", "gelu_", "relu", "relu_", "sigmoid", "tanh"})

_UP_TO_ATTENTION: Final = 40  # operators that launch between the projections and their attention
_BEHIND_GATE: Final = 6
_QUANTISED: Final = ("_scaled_mm", "_int_mm")
_BEFORE_QUANTISED: Final = 14
_BEHIND_QUANTISED: Final = 4
_JOINS: Final = ("cat", "stack")
_REDUCES: Final = ("amax", "amin", "max", "min", "aminmax")


def gate_up(scan: Scan) -> Iterator[Finding]:
    """Two products of the same rows with weights of one shape, of which one goes through an activation, multiplied."""
    for op in scan.free():
        rows = op.rows
        if rows is None or op.output is None:
            continue
        behind = scan.behind(op, _BEHIND_GATE)
        up = next((other for other in behind if other.name == op.name and other.tensors == op.tensors), None)
        if up is None or not _is_gated([other for other in behind if other is not up], op.output):
            continue
        if op.output.width == rows.width:
            reason = "the first product's output has the shape of its input, so the second may read either"
            yield Abstention("gate_up", reason, (op, up))
            continue
        relied_on = (
            "two products of one shape before an activation and a multiplication; neither can read the other's output, "
            "which has another shape than their input"
        )
        after = max(op.launches, up.launches)
        yield Occurrence("gate_up", "gate + up projection", (op, up), after, rows.bytes, relied_on)


def _is_gated(behind: Sequence[StepOp], made: Tensor) -> bool:
    """An activation and a multiplication of so many elements, then a product of rows as wide."""
    names = {op.name for op in behind if op.tensors and op.tensors[0].numel == made.numel}
    last = next((op for op in behind if op.is_product), None)
    down = None if last is None else last.rows
    return bool(_ACTIVATIONS & names) and "mul" in names and down is not None and down.width == made.width


def activation_mul(scan: Scan) -> Iterator[Finding]:
    """An activation and the multiplication of its output with another tensor of the same shape."""
    for op in scan.free():
        made = op.output
        if op.name not in _ACTIVATIONS or not op.are_kernels or made is None:
            continue
        behind = scan.at(op.position + 1)
        between = behind is not None and behind.is_product  # of the other factor
        near = [other for other in (behind, scan.at(op.position + 2) if behind is None or between else None) if other]
        mul = next((o for o in near if o.name == "mul" and made in o.tensors and len(o.tensors) == 2), None)
        if mul is not None and mul.tensors[0].dims == mul.tensors[1].dims and op.name != "sigmoid":
            title = f"{op.name.rstrip('_')} × multiplication"
            relied_on = "the multiplication follows the activation and has an input of its output's shape and type"
            yield Occurrence("silu_mul", title, (op, mul), 1, outputs_twice([op]), relied_on)


def qkv(scan: Scan) -> Iterator[Finding]:
    """Three products of the same rows in a row, before an attention that has heads of their sizes."""
    unsure = -1
    for op in scan.free():
        rows, made = op.rows, op.output
        group = [] if rows is None or op.position <= unsure else _same_rows(scan, op, rows)
        is_projection = op.name in _PROJECTIONS
        if len(group) < 2 or rows is None:
            heads = _head_widths(scan, op) if is_projection else None
            if made is not None and heads is not None and made.width == heads[0] + 2 * heads[1]:
                yield Already("qkv", f"one projection of {made.width:,}", (op,))
            continue
        widths = [other.output.width for other in group if other.output is not None]
        heads = _head_widths(scan, group[-1])
        kind, title = "projections", "projections of one input"
        relied_on = "products in a row whose input is alike, and of which none has an output of that shape"
        if heads is not None and widths == [heads[0], heads[1], heads[1]]:
            kind, title = "qkv", "QKV projection"
            relied_on = (
                "three products in a row whose input is alike; their widths are those of the query "
                f"({heads[0]:,}) and of key and value ({heads[1]:,}) of the attention that follows"
            )
        elif rows.width in widths[:-1] or not is_projection:
            if len(group) > 2 or heads is not None:
                reason = "products in a row, but one's output has the shape of the next one's input, and no attention"
                unsure = group[-1].position
                yield Abstention("qkv", f"{reason} with heads of their sizes follows", tuple(group))
            continue
        size = None if rows.bytes is None else rows.bytes * (len(group) - 1)
        yield Occurrence(kind, title, tuple(group), max(op.launches for op in group), size, relied_on)


def _same_rows(scan: Scan, op: StepOp, rows: Tensor) -> list[StepOp]:
    """The operator and the products right behind it with the same rows as input; nothing else launches between."""

    def is_alike(other: StepOp) -> bool:
        return other.name == op.name and other.rows == rows and other.output is not None

    return list(takewhile(is_alike, scan.run(op.position, 4)))


def _head_widths(scan: Scan, projection: StepOp) -> tuple[int, int] | None:
    """heads × head size of the query, and of key and value, of the next attention; None where none follows.

    Keys may have been repeated for groups of heads since; what is written into the cache has not.
    """
    written: int | None = None
    rows = projection.rows
    position = projection.position + 1
    for other in scan.ops[position : position + _UP_TO_ATTENTION]:
        if written is None and other.writes_into and other.name != "copy_" and other.tensors:
            written = _width(other.tensors[-1].dims)
        if other.is_attention and len(other.tensors) > 2 and len(other.tensors[0].dims) == 4:
            key = _width(other.tensors[1].dims)
            return _width(other.tensors[0].dims), key if written is None else written
        if other.name in ("bmm", "baddbmm") and (left := other.rows) is not None and rows is not None:
            width = left.numel // max(rows.numel // max(rows.width, 1), 1)
            return width, width if written is None else written
    return None


def _width(dims: tuple[int, ...]) -> int:
    """heads × head size of [batch, heads, positions, head size]."""
    return dims[1] * dims[3] if len(dims) == 4 else 0


def merged_gate_up(scan: Scan) -> Iterator[Finding]:
    """A product twice as wide as the activation behind it."""
    for op in scan.free():
        behind = scan.ops[op.position + 1 : op.position + 2]
        if op.name not in _PROJECTIONS or op.output is None or not behind or behind[0].name not in _ACTIVATIONS:
            continue
        if any(tensor.numel == op.output.numel // 2 for tensor in behind[0].listed):
            yield Already("gate_up", f"one projection of {op.output.width:,}", (op,))


def dequantised_weights(scan: Scan) -> Iterator[Finding]:
    """Operators on as many elements as a product's weight has, right before it."""
    for op in scan.free():
        if op.name in PACKED_PRODUCTS:
            yield Already("dequantise", op.name, (op,), takes=False)  # others may merge it with its neighbours
            continue
        if op.name not in ("mm", "addmm", "bmm") or op.output is None or len(op.tensors) < 2:
            continue
        weight = op.tensors[-1]
        before = _of_weight(scan, op, weight)
        if not before or weight.numel <= op.tensors[-2].numel:
            continue
        if not _reads_smaller_type(before):
            if any(other.name != "copy_" for other in before):  # else another layout, or a gathered weight
                reason = "operators of the weight's size stand before the product, but none reads a smaller type"
                yield Abstention("dequantise", reason, tuple(before))
            continue
        behind = [other for other in scan.behind(op, 1) if _scales(other, op.output)]
        relied_on = (
            f"these work on {weight.numel:,} elements, as the weight of the product behind them has, and begin with a "
            "smaller type"
        )
        title, ops = "weights dequantised before their product", (*before, op, *behind)
        yield Occurrence("dequantise", title, ops, op.launches, outputs_twice(before), relied_on)


def _of_weight(scan: Scan, product: StepOp, weight: Tensor) -> list[StepOp]:
    """Operators before the product that write as many elements as its weight has, or half of them at first."""

    def fits(op: StepOp) -> bool:
        is_its = op.output is not None and op.output.numel in (weight.numel, weight.numel // 2)
        return is_its and (op.is_elementwise or op.name in _JOINS)

    return list(takewhile(fits, scan.before(product, _BEFORE_QUANTISED)))[::-1]


def _reads_smaller_type(ops: Sequence[StepOp]) -> bool:
    """One of them reads a type with fewer bytes than the last one writes."""
    last = ops[-1].output
    sizes = [BYTES_OF[t.type] for op in ops for t in op.listed if t.type is not None and t.numel > 1]
    return last is not None and last.type is not None and min(sizes, default=8) < BYTES_OF[last.type]


def _scales(op: StepOp, made: Tensor) -> bool:
    """A multiplication of a product's output with a scale of each column."""
    if op.name not in ("mul", "mul_") or op.output is None or len(op.tensors) != 2:
        return False
    return op.output.numel == made.numel and {t.numel for t in op.tensors} == {made.width, made.numel}


def quantised_rows(scan: Scan) -> Iterator[Finding]:
    """Rows quantised right before a product of quantised numbers, and its output scaled behind."""
    for op in scan.free():
        if op.name not in _QUANTISED or len(op.tensors) < 2:
            continue
        rows, weight = op.tensors[:2]
        written = rows.dims[0] * weight.width if rows.dims else 0
        before = _quantising(scan, op, rows)
        behind: list[StepOp] = []
        for other in scan.behind(op, _BEHIND_QUANTISED):
            fits = other.is_elementwise and other.output is not None and other.output.numel == written
            if not fits or other.is_sum_of_two_alike:
                break
            behind.append(other)
        if not before and not behind:
            yield Already("quantise", op.name, (op,))
            continue
        ops = (*before, *behind)
        relied_on = (
            f"these work on as many elements as the product {op.name} reads ({rows.numel:,}) or writes ({written:,})"
        )
        yield Occurrence("quantise", "rows quantised for a product", ops, 1, outputs_twice(ops[:-1]), relied_on)


def _quantising(scan: Scan, product: StepOp, rows: Tensor) -> list[StepOp]:
    """From the search for the largest to the cast; empty without a cast to the product's type."""
    most = rows.dims[0] if rows.dims else 1  # values, one for each row
    found: list[StepOp] = []
    for op in scan.before(product, _BEFORE_QUANTISED):
        is_per_row = bool(found) and bool(op.tensors) and max(tensor.numel for tensor in op.tensors) <= most
        is_of_rows = any(tensor.numel == rows.numel for tensor in op.tensors) or is_per_row
        if not is_of_rows or not (op.is_elementwise or op.name in _REDUCES) or op.is_sum_of_two_alike:
            break
        found.insert(0, op)
    return found if any(op.output is not None and op.output.type == rows.type for op in found) else []
