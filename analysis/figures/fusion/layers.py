"""What a layer does element by element in many small kernels: norms behind a residual add, and chains of any kind."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...facts.tensor_shapes import Tensor
from ...model.names import is_compiled
from .scan import Already, Finding, Occurrence, Scan, intermediate_bytes
from .step import StepOp

SHORTEST: Final = 3  # of chains
_NORMS: Final = ("native_layer_norm", "_fused_rms_norm", "rms_norm", "cudnn_rms_norm")


def norms(scan: Scan) -> Iterator[Finding]:
    """RMS norms written out, and residual adds in front of norms of either kind."""
    for op in scan.free():
        is_norm = op.name in _NORMS or "rms_norm" in (op.name or "")
        ops = [op] if is_norm else _written_out(scan, op) if op.name in ("rsqrt", "sqrt") else []
        if not ops:
            continue
        added = _residual_add(scan, ops[0])
        if is_norm and (added is None or "add" in (op.name or "")):
            yield Already("norm", op.name or "", (op,))
            continue
        title, relied_on = "norm", "the operator is a norm"
        if not is_norm:
            title = "RMSNorm"
            relied_on = "square, mean, + ε, root and scaling follow one another, with shapes that fit"
        if added is not None:
            ops, title = [added, *ops], f"residual add + {title}"
            relied_on += "; the add in front writes what has the norm's input's shape and type"
        saved = intermediate_bytes(ops, kept=[] if added is None else [added])
        yield Occurrence("residual_norm", title, tuple(ops), 1, saved, relied_on)


def _written_out(scan: Scan, root: StepOp) -> list[StepOp]:
    """x · rsqrt(mean(x²) + ε), around the root; with casts and the weight where they are there. Empty for others."""
    before, scale = scan.before(root, 3), scan.at(root.position + 1)
    if len(before) < 3 or scale is None:
        return []
    plus, mean, square = before
    wide, of_rows = _squared(square), plus.output
    if wide is None or of_rows is None or not wide.dims or of_rows.numel * wide.width != wide.numel:
        return []
    if mean.name != "mean" or not mean.tensors or mean.tensors[0].dims != wide.dims:
        return []
    if not (plus.name or "").startswith("add") or of_rows != root.output:
        return []
    if scale.name != ("mul" if root.name == "rsqrt" else "div") or wide.dims not in [t.dims for t in scale.tensors]:
        return []
    if scale.output is None or scale.output.dims != wide.dims:
        return []
    first = scan.at(square.position - 1)
    is_cast = first is not None and first.name == "copy_" and first.output == wide and len(first.tensors) > 1
    return [
        *([first] if first is not None and is_cast else []),
        *(square, mean, plus, root, scale),
        *_weighted(scan, scale, wide),
    ]


def _squared(op: StepOp) -> Tensor | None:
    """What the operator squares; None where it does something else."""
    if op.name in ("pow", "square") and len(op.tensors) == 1:
        return op.tensors[0]
    is_square = op.name == "mul" and len(op.tensors) == 2 and op.tensors[0] == op.tensors[1]
    return op.tensors[0] if is_square else None


def _weighted(scan: Scan, scale: StepOp, wide: Tensor) -> list[StepOp]:
    """What follows the scaling: casts of the rows, preparation of the weight and the multiplication with it."""
    weight = (wide.width,)
    found: list[StepOp] = []
    last = 0
    for op in scan.behind(scale, 5):
        of_rows = op.output is not None and op.output.dims == wide.dims
        if op.name == "mul" and of_rows and any(tensor.dims == weight for tensor in op.tensors):
            found.append(op)
            last = len(found)
            if last > 1:  # the cast went before; one behind would be the next operator's
                break
        elif op.name == "copy_" and of_rows:
            found.append(op)
            last = len(found)
            if any(other.name == "mul" for other in found):
                break
        elif op.name in ("copy_", "add") and op.output is not None and op.output.dims == weight:
            found.append(op)
        else:
            break
    return found[:last]


def _residual_add(scan: Scan, norm: StepOp) -> StepOp | None:
    """The add in front whose output the norm may read: of two tensors alike, and of its input's dimensions and type."""
    op = scan.at(norm.position - 1)
    if op is None or not op.is_sum_of_two_alike or op.tensors[0].numel <= 1:
        return None
    reads = norm.tensors[1:] if norm.name == "copy_" else norm.tensors
    return op if reads and reads[0] == op.output else None


def chains(scan: Scan) -> Iterator[Finding]:
    """Runs of element-wise operators of which each reads what one before it in the run wrote."""
    run: list[StepOp] = []
    for op in [*scan.free(), None]:
        if op is not None and run and op.position == run[-1].position + 1 and _reads(op, run):
            run.append(op)
            continue
        if len(run) >= SHORTEST:
            names = f" ({' → '.join(op.name or '' for op in run)})" if len(run) < 6 else f" of {len(run)}"
            relied_on = (
                "each reads a tensor of the shape and type that one before it wrote; nothing else launches between"
            )
            title = f"element-wise chain{names}"
            yield Occurrence("chain", title, tuple(run), 1, intermediate_bytes(run), relied_on)
        run = [op] if op is not None and op.is_elementwise else []


def _reads(op: StepOp, run: Sequence[StepOp]) -> bool:
    """An element-wise operator with an input that one of the run wrote, by dimensions and type."""
    written = [before.output for before in run if before.output is not None and before.output.numel > 1]
    return op.is_elementwise and any(tensor in written for tensor in op.tensors)


def compiled(scan: Scan) -> Iterator[Finding]:
    """Kernels that torch.compile wrote."""
    yield from (Already("compiled", "torch.compile", (op,)) for op in scan.free() if is_compiled(op.name))
