"""Mixtures of experts: which experts a token goes to, and the experts' products one by one."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from .ops import (
    PRODUCTS,
    Abstention,
    Already,
    Finding,
    Occurrence,
    Scan,
    intermediate_bytes,
    is_elementwise,
    is_sum_of_two_alike,
)
from .step import StepOp

MOE_ROUTING: Final = "moe_routing"
MOE_EXPERTS: Final = "moe_experts"

_MOST_EXPERTS: Final = 1024  # beyond it a topk is one over a vocabulary
_BEFORE_TOPK: Final = 5
_BEHIND_TOPK: Final = 8
_LONGEST: Final = 4000  # operators of one layer's experts
_FUSED_EXPERTS: Final = 5
"""Launches of a fused mixture: rows sorted by expert, gate and up, activation, down, and the weighted sum."""

_ROUTING: Final = ("_softmax", "softmax", "sum", "gather", "scatter", "scatter_", "bincount", "cumsum", "one_hot")
_GATHERS: Final = ("index", "index_select", "gather")
_HOW_ROUTING: Final = "one kernel for softmax, topk and scaling (vLLM's topk_softmax), or torch.compile of the router"
_HOW_EXPERTS: Final = "grouped products: torch._grouped_mm, or a fused mixture (vLLM's and SGLang's fused_moe)"


def mixtures(scan: Scan) -> Iterator[Finding]:
    """A topk over few values that a product made, and what follows it up to the layer's next norm."""
    for op in scan.free():
        if "fused_moe" in (op.name or "") or op.name in ("_grouped_mm", "topk_softmax"):
            yield Already(MOE_EXPERTS, op.name or "", (op,))
            continue
        if op.name != "topk" or not op.tensors or not 2 <= op.tensors[0].width <= _MOST_EXPERTS:
            continue
        routing = _routing(scan, op)
        experts = _experts(scan, routing[-1])
        if not any(other.name in PRODUCTS for other in experts):
            yield Abstention(MOE_ROUTING, "a topk over few values, but no products of experts behind it", (op,))
            continue
        count = op.tensors[0].width
        if len(routing) > 1:
            yield _routed(routing, count)
        yield from _computed(experts, count)


def _routing(scan: Scan, topk: StepOp) -> list[StepOp]:
    """The topk and what works on the router's few values around it."""
    size = topk.tensors[0].numel

    def is_small(op: StepOp) -> bool:
        few = bool(op.listed) and all(tensor.numel <= size for tensor in op.listed)
        return few and (is_elementwise(op) or op.name in _ROUTING)

    before: list[StepOp] = []
    for op in reversed(scan.run_back(topk.position - 1, _BEFORE_TOPK)):
        if not is_small(op) or not any(tensor.numel == size for tensor in op.tensors):
            break
        before.insert(0, op)
    behind: list[StepOp] = []
    for op in scan.run(topk.position + 1, _BEHIND_TOPK):
        if not is_small(op):
            break
        behind.append(op)
    return [*before, topk, *behind]


def _experts(scan: Scan, last: StepOp) -> list[StepOp]:
    """What the layer does behind its router, up to what belongs to somebody: the residual add with the next norm."""
    found: list[StepOp] = []
    for op in scan.run(last.position + 1, _LONGEST):
        if op.name == "topk" or op.is_attention or (found and _ends(scan, op)):
            break
        found.append(op)
    return found


def _ends(scan: Scan, op: StepOp) -> bool:
    """An add of two tensors alike before somebody's operator, or before what a norm begins with: the residual add."""
    if not is_sum_of_two_alike(op):
        return False
    behind = scan.at(op.position + 1)
    return behind is None or behind.name in ("pow", "square", "native_layer_norm") or op.output in behind.reads[:1]


def _routed(ops: Sequence[StepOp], experts: int) -> Occurrence:
    return Occurrence(
        MOE_ROUTING,
        "routing to experts",
        tuple(ops),
        1,
        intermediate_bytes(ops),
        f"a topk over {experts:,} values with operators on as many or fewer around it, and products behind",
        _HOW_ROUTING,
    )


def _computed(ops: Sequence[StepOp], experts: int) -> Iterator[Finding]:
    launches = sum(op.launches for op in ops)
    products = sum(op.name in PRODUCTS for op in ops)
    if launches <= _FUSED_EXPERTS:
        yield Already(MOE_EXPERTS, f"{launches} launches for {experts:,} experts", tuple(ops))
        return
    flows, gathered = intermediate_bytes(ops), _gathered_bytes(ops)
    yield Occurrence(
        MOE_EXPERTS,
        "experts in many launches",
        tuple(ops),
        _FUSED_EXPERTS,
        None if flows is None or gathered is None else flows + gathered,
        f"{products} products between the router's topk over {experts:,} values and the layer's end; "
        f"that {_FUSED_EXPERTS} launches are enough is how fused mixtures are written",
        _HOW_EXPERTS,
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
