"""Chains of operators that work element by element, whatever they are for."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ...model.names import is_compiled
from .ops import Already, Finding, Occurrence, Scan, intermediate_bytes, is_elementwise
from .step import StepOp

CHAIN: Final = "chain"
COMPILED: Final = "compiled"
SHORTEST: Final = 3
_HOW: Final = "torch.compile of the function that these are in"


def chains(scan: Scan) -> Iterator[Finding]:
    """Runs of element-wise operators of which each reads what one before it in the run wrote."""
    run: list[StepOp] = []
    for op in [*scan.free(), None]:
        if op is not None and run and op.position == run[-1].position + 1 and _reads(op, run):
            run.append(op)
            continue
        if len(run) >= SHORTEST:
            yield _chain(run)
        run = [op] if op is not None and is_elementwise(op) else []


def _reads(op: StepOp, run: Sequence[StepOp]) -> bool:
    """An element-wise operator with an input that one of the run wrote, by dimensions and type."""
    written = [before.output for before in run if before.output is not None and before.output.numel > 1]
    return is_elementwise(op) and any(tensor in written for tensor in op.tensors)


def _chain(ops: Sequence[StepOp]) -> Occurrence:
    names = " → ".join(op.name or "" for op in ops)
    return Occurrence(
        CHAIN,
        f"element-wise chain ({names})" if len(ops) < 6 else f"element-wise chain of {len(ops)}",
        tuple(ops),
        1,
        intermediate_bytes(ops),
        "each reads a tensor of the shape and type that one before it wrote; nothing else launches between",
        _HOW,
    )


def compiled(scan: Scan) -> Iterator[Finding]:
    """Kernels that torch.compile wrote."""
    for op in scan.free():
        if is_compiled(op.name):
            yield Already(COMPILED, "torch.compile", (op,))
