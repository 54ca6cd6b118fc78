"""What else a layer does in many small kernels: norms behind a residual add, and RoPE with the cache's write."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...facts.tensor_shapes import Tensor
from .ops import Already, Finding, Occurrence, Scan, intermediate_bytes, is_in_attention, is_sum_of_two_alike
from .step import StepOp

RESIDUAL_NORM: Final = "residual_norm"
ROPE_KV: Final = "rope_kv"

_NORM_OPS: Final = ("native_layer_norm", "_fused_rms_norm", "rms_norm", "cudnn_rms_norm")
_WRITES: Final = ("index_copy_", "index_put_", "_index_put_impl_", "scatter_", "copy_", "slice_scatter")
_BETWEEN_ROPE_AND_WRITE: Final = 4  # operators on positions that launch between
_HOW_NORM: Final = (
    "torch.nn.functional.rms_norm, or torch.compile of the norm; with the add in front: a Triton kernel "
    "(fused_add_rms_norm, as vLLM, SGLang and Liger have it)"
)
_HOW_ROPE: Final = (
    "one Triton kernel that turns q and k and writes k and v into the cache, or torch.compile of that part"
)


def norms(scan: Scan) -> Iterator[Finding]:
    """RMS norms written out, and residual adds in front of norms of either kind."""
    for op in scan.free():
        if op.name in ("rsqrt", "sqrt"):
            yield from _written_out(scan, op)
        elif op.name in _NORM_OPS or "rms_norm" in (op.name or ""):
            added = _residual_add(scan, op)
            if added is None or "add" in (op.name or ""):
                yield Already("norm", op.name or "", (op,))
            else:
                yield _norm([added, op], added)


def _written_out(scan: Scan, root: StepOp) -> Iterator[Finding]:
    """x · rsqrt(mean(x²) + ε), around the root; with casts, the weight, and the add in front where they are there."""
    before = [scan.at(root.position - back) for back in (3, 2, 1)]
    if None in before:
        return
    square, mean, plus = (op for op in before if op is not None)
    wide = _squared(square)
    if wide is None or mean.name != "mean" or not (plus.name or "").startswith("add"):
        return
    if (
        not mean.tensors
        or mean.tensors[0].dims != wide.dims
        or plus.output != root.output
        or not _is_per_row(plus.output, wide)
    ):
        return
    scale = scan.at(root.position + 1)
    if scale is None or scale.name != ("mul" if root.name == "rsqrt" else "div") or scale.output is None:
        return
    if scale.output.dims != wide.dims or wide.dims not in [tensor.dims for tensor in scale.tensors]:
        return
    ops = [square, mean, plus, root, scale, *_weighted(scan, scale, wide)]
    first = scan.at(square.position - 1)
    if first is not None and first.name == "copy_" and first.output == wide and len(first.tensors) > 1:
        ops.insert(0, first)
    added = _residual_add(scan, ops[0])
    yield _norm(ops if added is None else [added, *ops], added)


def _squared(op: StepOp) -> Tensor | None:
    """What the operator squares; None where it does something else."""
    if op.name in ("pow", "square") and len(op.tensors) == 1:
        return op.tensors[0]
    is_square = op.name == "mul" and len(op.tensors) == 2 and op.tensors[0] == op.tensors[1]
    return op.tensors[0] if is_square else None


def _is_per_row(value: Tensor | None, wide: Tensor) -> bool:
    """One value for each row of a wide tensor."""
    return value is not None and bool(wide.dims) and value.numel * wide.width == wide.numel


def _weighted(scan: Scan, scale: StepOp, wide: Tensor) -> list[StepOp]:
    """What follows the scaling: casts of the rows, preparation of the weight and the multiplication with it."""
    weight = wide.width
    found: list[StepOp] = []
    last = 0
    for op in scan.run(scale.position + 1, 5):
        of_rows = op.output is not None and op.output.dims == wide.dims
        if op.name == "mul" and of_rows and has_weight(op, weight):
            found.append(op)
            last = len(found)
            if last > 1:  # the cast went before; one behind would be the next operator's
                break
        elif op.name == "copy_" and of_rows:
            found.append(op)
            last = len(found)
            if any(other.name == "mul" for other in found):
                break
        elif op.name in ("copy_", "add") and op.output is not None and op.output.dims == (weight,):
            found.append(op)
        else:
            break
    return found[:last]


def has_weight(op: StepOp, width: int) -> bool:
    """One of the inputs is a vector of this width."""
    return any(tensor.dims == (width,) for tensor in op.tensors)


def _residual_add(scan: Scan, norm: StepOp) -> StepOp | None:
    """The add in front whose output the norm may read: of two tensors alike, and of its input's dimensions and type."""
    op = scan.at(norm.position - 1)
    if op is None or not is_sum_of_two_alike(op) or op.tensors[0].numel <= 1:
        return None
    reads = norm.tensors[1:] if norm.name == "copy_" else norm.tensors
    return op if reads and reads[0] == op.output else None


def _norm(ops: Sequence[StepOp], added: StepOp | None) -> Occurrence:
    title = "RMSNorm" if len(ops) > 2 else "norm"
    written_out = "square, mean, + ε, root and scaling follow one another, with shapes that fit"
    relied = written_out if len(ops) > 2 else "the operator is a norm"
    if added is not None:
        relied += "; the add in front writes what has the norm's input's shape and type"
    return Occurrence(
        RESIDUAL_NORM,
        f"residual add + {title}" if added is not None else title,
        tuple(ops),
        1,
        intermediate_bytes(ops, kept=[] if added is None else [added]),
        relied,
        _HOW_NORM,
    )


def rope_and_cache(scan: Scan) -> Iterator[Finding]:
    """RoPE of q and k by halves, and the writes of k and v into the cache behind it."""
    for op in scan.free():
        if any(word in (op.name or "") for word in ("rotary", "rope")):
            yield Already(ROPE_KV, op.name or "", (op,))
            continue
        ops = _turned(scan, op.position)
        if not ops:
            continue
        second = _turned(scan, ops[-1].position + 1)
        ops += second
        writes = _writes(scan, ops[-1])
        ops += writes
        turned = "q and k" if second else "one tensor"
        relied = (
            f"halves of {turned} are multiplied, added and joined, with one of them negated or taken off; shapes fit"
        )
        if writes:
            relied += f"; {len(writes)} writes behind have a source of k's shape"
        yield Occurrence(
            ROPE_KV,
            "RoPE + KV-cache write" if writes else "RoPE",
            tuple(ops),
            1,
            intermediate_bytes(ops[:-1] if len(writes) == 2 else ops),  # v comes from its projection
            relied,
            _HOW_ROPE,
        )


def _turned(scan: Scan, position: int) -> list[StepOp]:
    """RoPE of one tensor, with the casts before and behind it; empty where something else stands there."""
    first = scan.at(position)
    if first is not None and first.name == "copy_":
        ops = _five(scan, position + 1) or _seven(scan, position + 1)
        made, cast = ops[-1].output if ops else None, first.output
        is_its = made is not None and cast is not None and (made.numel, made.type) == (cast.numel, cast.type)
        return [first, *_cast(scan, ops)] if is_its else []
    return _cast(scan, _five(scan, position) or _seven(scan, position))


def _cast(scan: Scan, ops: list[StepOp]) -> list[StepOp]:
    """With the cast of the last one's output, where there is one."""
    behind = scan.at(ops[-1].position + 1) if ops else None
    made = ops[-1].output if ops else None
    if behind is None or made is None or behind.name != "copy_":
        return ops
    is_its = any((read.numel, read.type) == (made.numel, made.type) for read in behind.reads)
    return [*ops, behind] if is_its else ops


def _five(scan: Scan, position: int) -> list[StepOp]:
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


def _seven(scan: Scan, position: int) -> list[StepOp]:
    """[a · cos − b · sin, b · cos + a · sin] of halves or pairs, in seven operators, the join last; empty otherwise."""
    ops = scan.run(position, 7)
    if sorted(op.name or "" for op in ops) != ["add", "cat", "mul", "mul", "mul", "mul", "sub"]:
        return []
    halves, joined = [op.output for op in ops[:-1]], ops[-1]
    if joined.name != "cat" or None in halves or len(set(halves)) > 1 or len(joined.listed) != 2:
        return []
    half = halves[0]
    return ops if half is not None and all(part.numel == half.numel for part in joined.listed) else []


def _writes(scan: Scan, turned: StepOp) -> list[StepOp]:
    """Writes of what has k's shape into something larger, before the attention."""
    key = turned.output
    found: list[StepOp] = []
    assert key is not None
    others = 0
    for op in scan.run(turned.position + 1, _BETWEEN_ROPE_AND_WRITE + 2):
        if is_in_attention(op) or len(found) == 2 or others > _BETWEEN_ROPE_AND_WRITE:
            break
        into = op.tensors[0] if op.tensors else None
        is_write = op.name in _WRITES and into is not None and into.numel >= key.numel and op.are_kernels
        if is_write and any(tensor.numel == key.numel and tensor.type == key.type for tensor in op.tensors[1:]):
            found.append(op)
        else:
            others += 1
    return found
