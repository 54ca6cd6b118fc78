"""Attention in parts, and what is done for a fused attention in every layer: masks converted, keys repeated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from typing import Final

from ...facts.tensor_shapes import Tensor
from .ops import (
    Abstention,
    Already,
    Finding,
    Occurrence,
    Scan,
    intermediate_bytes,
    is_elementwise,
    outputs_twice,
)
from .step import StepOp

ATTENTION: Final = "attention"
ATTENTION_MASK: Final = "attention_mask"
REPEAT_KV: Final = "repeat_kv"

_SDPA: Final = "scaled_dot_product_attention"
_PARTS: Final = 14  # operators from QKᵀ to ·V
_BEFORE: Final = 8  # operators that launch between the keys' repetition and the attention
_SOFTMAX: Final = ("_softmax", "softmax", "_safe_softmax", "_masked_softmax")
_BETWEEN: Final = ("baddbmm", "any", "all", "native_dropout", "triu", "tril", "fill_", "zeros_like", *_SOFTMAX)
_HOW: Final = (
    "torch.nn.functional.scaled_dot_product_attention(q, k, v, attn_mask=…, enable_gqa=…); in transformers "
    'attn_implementation="sdpa"'
)
_HOW_MASK: Final = "make the mask once per step, in the type of q and with -inf in it, and pass that to every layer"
_HOW_REPEAT: Final = "enable_gqa=True of scaled_dot_product_attention, or an attention that knows groups of heads"


def in_parts(scan: Scan) -> Iterator[Finding]:
    """QKᵀ, scale, mask, softmax and ·V as operators of their own."""
    for op in scan.free():
        if op.name not in ("bmm", "baddbmm") or op.output is None:
            continue
        ops = _up_to_values(scan, op)
        if not ops:
            continue
        keys = op.tensors[-1]
        repeats = _repeats(scan, op.position, keys)
        whole = [*repeats, *ops]
        softmax = next(other for other in ops if other.name in _SOFTMAX and other.tensors)
        positions = softmax.tensors[0].width
        relied = (
            f"a softmax over {positions:,} between two batched products: the first one's output is what it reads, its "
            "own what the second one does, by shape"
        )
        yield Occurrence(
            ATTENTION,
            "attention (QKᵀ, softmax, ·V)",
            tuple(whole),
            1,
            intermediate_bytes(whole),
            relied,
            _HOW,
        )


def _up_to_values(scan: Scan, first: StepOp) -> list[StepOp]:
    """From the product with the keys to that with the values; empty where no softmax stands between them."""
    scores = first.output
    assert scores is not None
    found = [first]
    has_softmax = False
    for op in scan.run(first.position + 1, _PARTS):
        found.append(op)
        if op.name == "bmm":
            weights = op.tensors[0] if op.tensors else None
            is_whole = has_softmax and weights is not None and weights.numel == scores.numel
            return found if is_whole else []
        is_softmax = op.name in _SOFTMAX and bool(op.tensors) and op.tensors[0].numel == scores.numel
        has_softmax = has_softmax or is_softmax
        if not (is_softmax or is_elementwise(op) or op.name in _BETWEEN):
            return []
    return []


def _repeats(scan: Scan, position: int, keys: Tensor) -> list[StepOp]:
    """Copies that repeat keys or values for groups of heads, in what the attention then reads."""
    found: list[StepOp] = []
    for back in range(1, _BEFORE + 1):
        op = scan.at(position - back)
        if op is None or op.name in ("mm", "addmm", "index_copy_"):
            break
        if op.name == "copy_" and op.output is not None and _is_repeat(op.output, keys):
            found.append(op)
    return found[::-1]


def _is_repeat(made: Tensor, keys: Tensor) -> bool:
    """[batch, heads, times, positions, size] in memory of what is read as so many heads times as many."""
    if len(made.dims) != 5 or made.dims[2] < 2 or len(keys.dims) < 3:
        return False
    *batch_and_heads, first, second = keys.dims
    heads = math.prod(batch_and_heads) == math.prod(made.dims[:3])
    return heads and sorted((first, second)) == sorted(made.dims[3:])


def for_fused(scan: Scan) -> Iterator[Finding]:
    """What stands around an attention that is one operator."""
    masks: list[list[StepOp]] = []
    for op in scan.free():
        if not op.is_attention or len(op.tensors) < 3:
            continue
        name = next((n for n in op.around if n.startswith("_scaled")), op.name or "")
        yield Already(ATTENTION, name, (op,))
        keys = op.tensors[1]
        before = scan.run_back(op.position - 1, _BEFORE)
        mask = [other for other in before if _SDPA in other.around and not other.is_attention]
        if mask and _is_for_mask(mask, op.tensors):
            masks.append(mask)
        repeats = _repeats(scan, op.position, keys)
        if repeats:
            yield _repeated(repeats)
    yield from _masks(masks)


def _is_for_mask(ops: Sequence[StepOp], of_attention: Sequence[Tensor]) -> bool:
    """They end in a tensor of the mask's dimensions, from one of truth values."""
    made = ops[-1].output
    reads_truth = any(tensor.type == "bool" for op in ops for tensor in op.tensors)
    return made is not None and reads_truth and any(tensor == made for tensor in of_attention[3:])


def _masks(masks: Sequence[Sequence[StepOp]]) -> Iterator[Finding]:
    """All layers but the first do again what the first did."""
    if len(masks) == 1:
        yield Abstention(ATTENTION_MASK, "the mask is converted once only", tuple(masks[0]))
        return
    for layer, ops in enumerate(masks):
        made = ops[-1].output
        size = None if made is None or made.bytes is None else made.bytes + sum(t.bytes or 0 for t in ops[-1].tensors)
        yield Occurrence(
            ATTENTION_MASK,
            "the mask, converted in every layer",
            tuple(ops),
            sum(op.launches for op in ops) if layer == 0 else 0,
            0 if layer == 0 else size,
            "these run inside of scaled_dot_product_attention before its kernel, and write what has the mask's shape; "
            "that the mask is one for all layers is taken from its shape",
            _HOW_MASK,
        )


def _repeated(ops: Sequence[StepOp]) -> Occurrence:
    relied = (
        "copies into [batch, heads, times, positions, size] right before the attention, which reads heads × times heads"
    )
    size = outputs_twice(ops)
    return Occurrence(REPEAT_KV, "keys and values repeated for their heads", tuple(ops), 0, size, relied, _HOW_REPEAT)
