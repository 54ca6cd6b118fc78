"""Products of matrices that read the same rows: q, k and v; gate and up; and the activation behind gate and up."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from .ops import (
    ACTIVATIONS,
    PRODUCTS,
    PROJECTIONS,
    Abstention,
    Already,
    Finding,
    Occurrence,
    Scan,
    has_numel,
    rows_of,
)
from .step import StepOp

QKV: Final = "qkv"
GATE_UP: Final = "gate_up"
ACTIVATION_MUL: Final = "silu_mul"

_UP_TO_ATTENTION: Final = 40  # operators that launch between the projections and their attention
_BEHIND_GATE: Final = 6
_HOW_QKV: Final = (
    "one nn.Linear whose weight is torch.cat([q.weight, k.weight, v.weight]), its output split; cache and RoPE stay"
)
_HOW_GATE_UP: Final = (
    "one nn.Linear whose weight is torch.cat([gate.weight, up.weight]), its output in two with chunk(2, -1)"
)
_HOW_SILU_MUL: Final = "one kernel for act(gate) * up: torch.compile of it, or a Triton kernel (silu_and_mul)"


def gate_up(scan: Scan) -> Iterator[Finding]:
    """Two products of the same rows with weights of one shape, of which one goes through an activation, multiplied."""
    for op in scan.free():
        rows = rows_of(op)
        if rows is None or op.output is None:
            continue
        behind = scan.run(op.position + 1, _BEHIND_GATE)
        size = op.output.numel
        up = next((other for other in behind if other.name == op.name and other.tensors == op.tensors), None)
        if up is None or not _is_gated([o for o in behind if o is not up], size, op.output.width):
            continue
        if op.output.width == rows.width:
            reason = "the first product's output has the shape of its input, so the second may read either"
            yield Abstention(GATE_UP, reason, (op, up))
            continue
        yield Occurrence(
            GATE_UP,
            "gate + up projection",
            (op, up),
            max(op.launches, up.launches),
            rows.bytes,
            "two products of one shape before an activation and a multiplication; neither can read the other's output, "
            "which has another shape than their input",
            _HOW_GATE_UP,
            is_product=True,
        )


def _is_gated(behind: Sequence[StepOp], size: int, width: int) -> bool:
    """An activation and a multiplication of so many elements, then a product of rows as wide."""
    names = [op.name for op in behind if op.tensors and op.tensors[0].numel == size]
    last = next((op for op in behind if op.name in PRODUCTS), None)
    down = None if last is None else rows_of(last)
    return bool(ACTIVATIONS & set(names)) and "mul" in names and down is not None and down.width == width


def activation_mul(scan: Scan) -> Iterator[Finding]:
    """An activation and the multiplication of its output with another tensor of the same shape."""
    for op in scan.free():
        if op.name not in ACTIVATIONS or not op.are_kernels or op.output is None:
            continue
        ops = [op]
        for other in _next_two(scan, op):
            if other.name != "mul" or other.tensors.count(op.output) < 1 or len(other.tensors) != 2:
                continue
            ops.append(other)
            if other.tensors[0].dims == other.tensors[1].dims and not (op.name == "sigmoid" and len(ops) == 2):
                yield _activation_mul(ops)
            break


def _next_two(scan: Scan, op: StepOp) -> Iterator[StepOp]:
    """The next operator that is free, and the one behind a product that stands between."""
    for position in (op.position + 1, op.position + 2):
        if position < len(scan.ops) and (other := scan.at(position)) is not None:
            yield other
            if other.name not in PRODUCTS:
                return


def _activation_mul(ops: Sequence[StepOp]) -> Occurrence:
    made = ops[0].output
    assert made is not None
    title = f"{(ops[0].name or '').rstrip('_')} × multiplication"
    size = None if made.bytes is None else 2 * made.bytes
    relied = "the multiplication follows the activation and has an input of its output's shape and type"
    return Occurrence(ACTIVATION_MUL, title, tuple(ops), 1, size, relied, _HOW_SILU_MUL)


def qkv(scan: Scan) -> Iterator[Finding]:
    """Three products of the same rows in a row, before an attention that has heads of their sizes."""
    unsure = -1
    for op in scan.free():
        group = _same_rows(scan, op) if op.position > unsure else []
        if len(group) < 2:
            yield from _merged_qkv(scan, op)
            continue
        rows = rows_of(op)
        assert rows is not None
        widths = [other.output.width for other in group if other.output is not None]
        heads = _head_widths(scan, group[-1])
        if len(group) == 3 and heads is not None and widths[0] == heads[0] and widths[1] == widths[2] == heads[1]:
            yield _merge(group, QKV, "QKV projection", _relied_on_heads(heads), _HOW_QKV)
        elif rows.width not in widths[:-1] and op.name in PROJECTIONS:
            relied = "products in a row whose input is alike, and of which none has an output of that shape"
            yield _merge(group, "projections", "projections of one input", relied, _HOW_QKV.partition(";")[0])
        elif len(group) > 2 or heads is not None:
            reason = "products in a row, but one's output has the shape of the next one's input, and no attention"
            unsure = group[-1].position
            yield Abstention(QKV, f"{reason} with heads of their sizes follows", tuple(group))


def _same_rows(scan: Scan, op: StepOp) -> list[StepOp]:
    """The operator and the products right behind it with the same rows as input; nothing else launches between."""
    rows = rows_of(op)
    group: list[StepOp] = []
    for other in scan.run(op.position, 4):
        if rows is None or other.name != op.name or rows_of(other) != rows or other.output is None:
            break
        group.append(other)
    return group


def _merge(group: Sequence[StepOp], kind: str, title: str, relied_on: str, how: str) -> Occurrence:
    rows = rows_of(group[0])
    assert rows is not None
    size = None if rows.bytes is None else rows.bytes * (len(group) - 1)
    after = max(op.launches for op in group)
    return Occurrence(kind, title, tuple(group), after, size, relied_on, how, is_product=True)


def _relied_on_heads(heads: tuple[int, int]) -> str:
    return (
        "three products in a row whose input is alike; their widths are those of the query "
        f"({heads[0]:,}) and of key and value ({heads[1]:,}) of the attention that follows"
    )


def _head_widths(scan: Scan, projection: StepOp) -> tuple[int, int] | None:
    """heads × head size of the query, and of key and value, of the next attention; None where none follows.

    Keys may have been repeated for groups of heads since; what is written into the cache has not.
    """
    written: int | None = None
    rows = rows_of(projection)
    position = projection.position + 1
    for other in scan.ops[position : position + _UP_TO_ATTENTION]:
        if written is None and other.writes_into and other.name != "copy_" and other.tensors:
            written = _width(other.tensors[-1].dims)
        if other.is_attention and len(other.tensors) > 2 and len(other.tensors[0].dims) == 4:
            key = _width(other.tensors[1].dims)
            return _width(other.tensors[0].dims), key if written is None else written
        if other.name in ("bmm", "baddbmm") and (left := rows_of(other)) is not None and rows is not None:
            width = left.numel // max(rows.numel // max(rows.width, 1), 1)
            return width, width if written is None else written
    return None


def _width(dims: tuple[int, ...]) -> int:
    """heads × head size of [batch, heads, positions, head size]."""
    return dims[1] * dims[3] if len(dims) == 4 else 0


def _merged_qkv(scan: Scan, op: StepOp) -> Iterator[Already]:
    """A product as wide as query, key and value together, alone before its attention."""
    if op.output is None or op.name not in PROJECTIONS:
        return
    heads = _head_widths(scan, op)
    if heads is not None and op.output.width == heads[0] + 2 * heads[1]:
        yield Already(QKV, f"one projection of {op.output.width:,}", (op,))


def merged_gate_up(scan: Scan) -> Iterator[Finding]:
    """A product twice as wide as the activation behind it."""
    for op in scan.free():
        if op.name not in PROJECTIONS or op.output is None:
            continue
        behind = scan.ops[op.position + 1 : op.position + 2]
        if behind and behind[0].name in ACTIVATIONS and has_numel(behind[0], op.output.numel // 2):
            yield Already(GATE_UP, f"one projection of {op.output.width:,}", (op,))
