"""What a layer does in many small kernels: norms behind a residual add, mixtures of experts, sampling, and chains.

A mixture chooses the experts that a token goes to and computes their products one by one; sampling chooses the token.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import takewhile
from typing import Final

from ...facts.tensor_shapes import Tensor
from ...model.names import is_compiled
from .scan import Abstention, Already, Finding, Occurrence, Scan, intermediate_bytes
from .step import StepOp

SHORTEST: Final = 3  # of chains
_NORMS: Final = ("native_layer_norm", "_fused_rms_norm", "rms_norm", "cudnn_rms_norm")

_MOST_EXPERTS: Final = 1024  # beyond it a topk is one over a vocabulary
_BEFORE_TOPK: Final = 5
_BEHIND_TOPK: Final = 8
_LONGEST: Final = 4000  # operators of one layer's experts
_FUSED_EXPERTS: Final = 5
"""Launches of a fused mixture: rows sorted by expert, gate and up, activation, down, and the weighted sum."""

_ROUTING: Final = ("_softmax", "softmax", "sum", "gather", "scatter", "scatter_", "bincount", "cumsum", "one_hot")
_GATHERS: Final = ("index", "index_select", "gather")

_LEAST_VOCABULARY: Final = 256
_CHOOSES: Final = frozenset({"argmax", "multinomial", "max", "sort", "topk", "exponential_", "_sample"})
_SORTS: Final = frozenset({"sort", "topk", "cumsum"})


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


def mixtures(scan: Scan) -> Iterator[Finding]:
    """A topk over few values that a product made, and what follows it up to the layer's next norm."""
    for op in scan.free():
        if "fused_moe" in (op.name or "") or op.name in ("_grouped_mm", "topk_softmax"):
            yield Already("moe_experts", op.name or "", (op,))
            continue
        if op.name != "topk" or not op.tensors or not 2 <= op.tensors[0].width <= _MOST_EXPERTS:
            continue
        routing = _routing(scan, op)
        experts = _experts(scan, routing[-1])
        if not any(other.is_product for other in experts):
            yield Abstention("moe_routing", "a topk over few values, but no products of experts behind it", (op,))
            continue
        count = op.tensors[0].width
        if len(routing) > 1:
            relied_on = (
                f"a topk over {count:,} values with operators on as many or fewer around it, and products behind"
            )
            saved = intermediate_bytes(routing)
            yield Occurrence("moe_routing", "routing to experts", tuple(routing), 1, saved, relied_on)
        yield _mixture(experts, count)


def _routing(scan: Scan, topk: StepOp) -> list[StepOp]:
    """The topk and what works on the router's few values around it."""
    size = topk.tensors[0].numel

    def is_small(op: StepOp) -> bool:
        few = bool(op.listed) and all(tensor.numel <= size for tensor in op.listed)
        return few and (op.is_elementwise or op.name in _ROUTING)

    def is_of_all(op: StepOp) -> bool:
        return is_small(op) and any(tensor.numel == size for tensor in op.tensors)

    before = list(takewhile(is_of_all, scan.before(topk, _BEFORE_TOPK)))
    return [*before[::-1], topk, *takewhile(is_small, scan.behind(topk, _BEHIND_TOPK))]


def _experts(scan: Scan, last: StepOp) -> list[StepOp]:
    """What the layer does behind its router, up to what belongs to somebody: the residual add with the next norm."""
    found: list[StepOp] = []
    for op in scan.behind(last, _LONGEST):
        if op.name == "topk" or op.is_attention or (found and _ends_layer(scan, op)):
            break
        found.append(op)
    return found


def _ends_layer(scan: Scan, op: StepOp) -> bool:
    """An add of two tensors alike before somebody's operator, or before what a norm begins with: the residual add."""
    if not op.is_sum_of_two_alike:
        return False
    behind = scan.at(op.position + 1)
    return behind is None or behind.name in ("pow", "square", "native_layer_norm") or op.output in behind.reads[:1]


def _mixture(ops: Sequence[StepOp], experts: int) -> Finding:
    launches = sum(op.launches for op in ops)
    if launches <= _FUSED_EXPERTS:
        return Already("moe_experts", f"{launches} launches for {experts:,} experts", tuple(ops))
    flows, gathered = intermediate_bytes(ops), _gathered_bytes(ops)
    return Occurrence(
        "moe_experts",
        "experts in many launches",
        tuple(ops),
        _FUSED_EXPERTS,
        None if flows is None or gathered is None else flows + gathered,
        f"{sum(op.is_product for op in ops)} products between the router's topk over {experts:,} values and the "
        f"layer's end; that {_FUSED_EXPERTS} launches are enough is how fused mixtures are written",
    )


def _gathered_bytes(ops: Sequence[StepOp]) -> int | None:
    """Weights of the chosen experts, copied out and read again by a batched product; None for an unknown type."""
    total = 0
    for place, op in enumerate(ops):
        if op.name not in _GATHERS or not op.tensors or len(op.tensors[0].dims) != 3:
            continue
        sizes = sorted(op.tensors[0].dims[1:])
        behind = [tensor for other in ops[place + 1 :] if other.name == "bmm" for tensor in other.tensors]
        read = next((tensor for tensor in behind if sorted(tensor.dims[1:]) == sizes), None)
        if read is not None and read.bytes is None:
            return None
        total += 0 if read is None or read.bytes is None else 2 * read.bytes
    return total


def sampling(scan: Scan) -> Iterator[Finding]:
    """Operators behind the last product, where that is the widest and one of them chooses among its columns."""
    widths = [(op, op.output.width) for op in scan.ops if op.name in ("mm", "addmm") and op.output is not None]
    if not widths or widths[-1][1] < max(_LEAST_VOCABULARY, *(width for _, width in widths)):
        return
    logits, width = widths[-1]
    behind = tuple(takewhile(lambda op: op.are_kernels, scan.behind(logits, len(scan.ops))))
    names = {op.name for op in behind if op.name}
    if not names & _CHOOSES:
        return
    if sum(op.launches for op in behind) == 1:
        yield Already("sampling", behind[0].name or "", behind)
        return
    yield Occurrence(
        "sampling",
        "sampling of the next token",
        behind,
        2 if names & _SORTS else 1,
        intermediate_bytes(behind),
        f"these follow the step's widest product ({width:,} columns), up to its end or to a copy, and "
        f"{', '.join(sorted(names & _CHOOSES))} chooses among its columns",
    )


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
