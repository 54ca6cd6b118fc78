"""Attention: in parts, and what is done for it in every layer: RoPE, cache writes, masks converted, keys repeated."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from ...facts.tensor_shapes import Tensor
from .scan import Abstention, Already, Finding, Occurrence, Scan, intermediate_bytes, outputs_twice
from .step import StepOp

_SDPA: Final = "scaled_dot_product_attention"
_PARTS: Final = 14  # operators from QKᵀ to ·V
_BEFORE: Final = 8  # operators that launch between the keys' repetition and the attention
_SOFTMAX: Final = ("_softmax", "softmax", "_safe_softmax", "_masked_softmax")
_BETWEEN: Final = ("baddbmm", "any", "all", "native_dropout", "triu", "tril", "fill_", "zeros_like", *_SOFTMAX)
_WRITES: Final = ("index_copy_", "index_put_", "_index_put_impl_", "scatter_", "copy_", "slice_scatter")
_BETWEEN_ROPE_AND_WRITE: Final = 4  # operators on positions that launch between


def in_parts(scan: Scan) -> Iterator[Finding]:
    """QKᵀ, scale, mask, softmax and ·V as operators of their own."""
    for op in scan.free():
        ops = _up_to_values(scan, op, op.output) if op.name in ("bmm", "baddbmm") and op.output is not None else []
        if ops:
            softmax = next(other for other in ops if other.name in _SOFTMAX and other.tensors)
            relied_on = (
                f"a softmax over {softmax.tensors[0].width:,} between two batched products: the first one's output is "
                "what it reads, its own what the second one does, by shape"
            )
            ops = [*_repeats(scan, op, op.tensors[-1]), *ops]
            saved = intermediate_bytes(ops)
            yield Occurrence("attention", "attention (QKᵀ, softmax, ·V)", tuple(ops), 1, saved, relied_on)


def _up_to_values(scan: Scan, first: StepOp, scores: Tensor) -> list[StepOp]:
    """From the product with the keys to that with the values; empty where no softmax stands between them."""
    found, has_softmax = [first], False
    for op in scan.behind(first, _PARTS):
        found.append(op)
        reads_scores = bool(op.tensors) and op.tensors[0].numel == scores.numel
        if op.name == "bmm":
            return found if has_softmax and reads_scores else []
        if not (op.is_elementwise or op.name in _BETWEEN):
            return []
        has_softmax = has_softmax or (op.name in _SOFTMAX and reads_scores)
    return []


def _repeats(scan: Scan, attention: StepOp, keys: Tensor) -> list[StepOp]:
    """Copies that repeat keys or values for groups of heads, in what the attention then reads."""
    near = takewhile(lambda op: op.name not in ("mm", "addmm", "index_copy_"), scan.before(attention, _BEFORE))
    return [op for op in near if op.name == "copy_" and op.output is not None and _is_repeat(op.output, keys)][::-1]


def _is_repeat(made: Tensor, keys: Tensor) -> bool:
    """[batch, heads, times, positions, size] in memory of what is read as so many heads times as many."""
    if len(made.dims) != 5 or made.dims[2] < 2 or len(keys.dims) < 3:
        return False
    *batch_and_heads, first, second = keys.dims
    heads = math.prod(batch_and_heads) == math.prod(made.dims[:3])
    return heads and sorted((first, second)) == sorted(made.dims[3:])


def around_fused(scan: Scan) -> Iterator[Finding]:
    """What stands around an attention that is one operator."""
    masks: list[tuple[StepOp, ...]] = []
    for op in scan.free():
        if not op.is_attention or len(op.tensors) < 3:
            continue
        yield Already("attention", next((n for n in op.around if n.startswith("_scaled")), op.name or ""), (op,))
        before = scan.before(op, _BEFORE)[::-1]
        mask = tuple(other for other in before if _SDPA in other.around and not other.is_attention)
        reads_truth = any(tensor.type == "bool" for other in mask for tensor in other.tensors)
        if reads_truth and mask[-1].output is not None and mask[-1].output in op.tensors[3:]:
            masks.append(mask)
        if repeats := _repeats(scan, op, op.tensors[1]):
            yield Occurrence(
                "repeat_kv",
                "keys and values repeated for their heads",
                tuple(repeats),
                0,
                outputs_twice(repeats),
                "copies into [batch, heads, times, positions, size] right before the attention, which reads "
                "heads × times heads",
            )
    yield from _masks(masks)


def _masks(masks: Sequence[tuple[StepOp, ...]]) -> Iterator[Finding]:
    """All layers but the first do again what the first did."""
    if len(masks) == 1:
        yield Abstention("attention_mask", "the mask is converted once only", masks[0])
        return
    for layer, ops in enumerate(masks):
        made = ops[-1].output
        size = None if made is None or made.bytes is None else made.bytes + sum(t.bytes or 0 for t in ops[-1].tensors)
        yield Occurrence(
            "attention_mask",
            "the mask, converted in every layer",
            ops,
            sum(op.launches for op in ops) if layer == 0 else 0,
            0 if layer == 0 else size,
            "these run inside of scaled_dot_product_attention before its kernel, and write what has the mask's shape; "
            "that the mask is one for all layers is taken from its shape",
        )


def rope_and_cache(scan: Scan) -> Iterator[Finding]:
    """RoPE of q and k by halves, and the writes of k and v into the cache behind it."""
    for op in scan.free():
        if any(word in (op.name or "") for word in ("rotary", "rope")):
            yield Already("rope_kv", op.name or "", (op,))
            continue
        ops = _turned(scan, op.position)
        if not ops:
            continue
        second = _turned(scan, ops[-1].position + 1)
        ops += second
        writes = _cache_writes(scan, ops[-1])
        ops += writes
        relied_on = (
            f"halves of {'q and k' if second else 'one tensor'} are multiplied, added and joined, with one of them "
            "negated or taken off; shapes fit"
        )
        relied_on += f"; {len(writes)} writes behind have a source of k's shape" if writes else ""
        title = "RoPE + KV-cache write" if writes else "RoPE"
        saved = intermediate_bytes(ops[:-1] if len(writes) == 2 else ops)  # v comes from its projection
        yield Occurrence("rope_kv", title, tuple(ops), 1, saved, relied_on)


def _turned(scan: Scan, position: int) -> list[StepOp]:
    """RoPE of one tensor, with the casts before and behind it; empty where something else stands there."""
    first = scan.at(position)
    cast = first if first is not None and first.name == "copy_" else None
    start = position + (cast is not None)
    ops = _in_five(scan, start) or _in_seven(scan, start)
    made = ops[-1].output if ops else None
    if cast is not None:
        if made is None or cast.output is None or not _is_alike(made, cast.output):
            return []
        ops = [cast, *ops]
    behind = scan.at(ops[-1].position + 1) if ops else None
    if behind is None or made is None or behind.name != "copy_":
        return ops
    return [*ops, behind] if any(_is_alike(read, made) for read in behind.reads) else ops


def _is_alike(one: Tensor, other: Tensor) -> bool:
    """As many elements of the same type."""
    return (one.numel, one.type) == (other.numel, other.type)


def _in_five(scan: Scan, position: int) -> list[StepOp]:
    """x · cos + rotate_half(x) · sin in five operators, the add last; empty where something else stands there."""
    ops = scan.run(position, 5)
    if sorted(op.name or "" for op in ops) != ["add", "cat", "mul", "mul", "neg"] or ops[-1].name != "add":
        return []
    whole = ops[-1].output
    by_name = {op.name: op for op in ops}
    half, joined = by_name["neg"].output, by_name["cat"].output
    if whole is None or half is None or joined is None or not whole.dims or not half.dims:
        return []
    fits = 2 * half.width == whole.width and joined.dims == whole.dims
    return ops if fits and all(op.output == whole for op in ops if op.name == "mul") else []


def _in_seven(scan: Scan, position: int) -> list[StepOp]:
    """[a · cos − b · sin, b · cos + a · sin] of halves or pairs, in seven operators, the join last; empty otherwise."""
    ops = scan.run(position, 7)
    if sorted(op.name or "" for op in ops) != ["add", "cat", "mul", "mul", "mul", "mul", "sub"]:
        return []
    halves, joined = [op.output for op in ops[:-1]], ops[-1]
    if joined.name != "cat" or len(set(halves)) > 1 or len(joined.listed) != 2:
        return []
    half = halves[0]
    return ops if half is not None and all(part.numel == half.numel for part in joined.listed) else []


def _cache_writes(scan: Scan, turned: StepOp) -> list[StepOp]:
    """Writes of what has k's shape into something larger, before the attention."""
    key = turned.output
    assert key is not None
    found: list[StepOp] = []
    others = 0
    for op in scan.behind(turned, _BETWEEN_ROPE_AND_WRITE + 2):
        in_attention = op.is_attention or any("attention" in name for name in op.around)
        if in_attention or len(found) == 2 or others > _BETWEEN_ROPE_AND_WRITE:
            break
        is_write = op.name in _WRITES and op.are_kernels and op.tensors and op.tensors[0].numel >= key.numel
        if is_write and any(_is_alike(tensor, key) for tensor in op.tensors[1:]):
            found.append(op)
        else:
            others += 1
    return found
