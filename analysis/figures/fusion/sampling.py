"""Sampling: what turns the last product's logits into a token."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from .ops import Already, Finding, Occurrence, Scan, intermediate_bytes
from .step import StepOp

SAMPLING: Final = "sampling"

_LEAST_VOCABULARY: Final = 256
_CHOOSES: Final = frozenset({"argmax", "multinomial", "max", "sort", "topk", "exponential_", "_sample"})
_SORTS: Final = frozenset({"sort", "topk", "cumsum"})
_HOW: Final = "one sampling kernel (FlashInfer's, vLLM's), or torch.compile of the sampler, in the graph of the step"


def sampling(scan: Scan) -> Iterator[Finding]:
    """Operators behind the widest product of the step, where one of them chooses among its columns."""
    logits = _logits(scan)
    if logits is None or logits.output is None:
        return
    behind: list[StepOp] = []
    for op in scan.run(logits.position + 1, len(scan.ops)):
        if not op.are_kernels:
            break
        behind.append(op)
    names = {op.name for op in behind}
    if not names & _CHOOSES:
        return
    width = logits.output.width
    if sum(op.launches for op in behind) == 1:
        yield Already(SAMPLING, behind[0].name or "", tuple(behind))
        return
    yield Occurrence(
        SAMPLING,
        "sampling of the next token",
        tuple(behind),
        2 if names & _SORTS else 1,
        intermediate_bytes(behind),
        f"these follow the step's widest product ({width:,} columns), up to its end or to a copy, and "
        f"{', '.join(sorted(name for name in names & _CHOOSES if name))} chooses among its columns",
        _HOW,
    )


def _logits(scan: Scan) -> StepOp | None:
    """The last product, if it is the widest and its columns are as many as a vocabulary has; None otherwise."""
    products = [op for op in scan.ops if op.name in ("mm", "addmm") and op.output is not None]
    widest = max((op.output.width for op in products if op.output is not None), default=0)
    last = products[-1] if products else None
    if last is None or last.output is None or widest < _LEAST_VOCABULARY:
        return None
    return last if last.output.width == widest else None
