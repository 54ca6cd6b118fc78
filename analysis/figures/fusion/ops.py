"""What the patterns of the fusion advisor have in common: a step being searched, and what a search finds.

A file does not say which tensor an operator read. That one reads what another wrote is taken from dimensions and types
that agree, in the order of launches; every finding says what it relied upon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from ...facts.tensor_shapes import ELEMENTWISE, PACKED_PRODUCTS, Tensor
from ...model.statistics import known_sum
from .step import FusionStep, StepOp

PRODUCTS: Final = frozenset({"mm", "addmm", "bmm", "baddbmm", *PACKED_PRODUCTS})
PROJECTIONS: Final = PRODUCTS - {"bmm", "baddbmm"}
"""Products of rows with one weight."""

ACTIVATIONS: Final = frozenset({"silu", "silu_", "gelu", "gelu_", "relu", "relu_", "sigmoid", "tanh"})


@dataclass(frozen=True)
class Occurrence:
    """Operators of one place of the step that one kernel, or few, could do the work of."""

    kind: str
    title: str
    ops: tuple[StepOp, ...]  # whose kernels would go into fewer
    launches_after: int
    bytes_saved: int | None  # None where a type is of unknown size
    relied_on: str
    how: str
    is_product: bool = False  # products of matrices side by side: their weights are read as before

    @property
    def launches(self) -> int:
        return sum(op.launches for op in self.ops)


@dataclass(frozen=True)
class Abstention:
    """Operators that look like a pattern, but for something that the file doesn't tell."""

    kind: str
    reason: str
    ops: tuple[StepOp, ...]


@dataclass(frozen=True)
class Already:
    """Operators that are fused."""

    kind: str
    what: str  # the operator, or how it is known
    ops: tuple[StepOp, ...]
    takes: bool = True  # False: they may belong to another finding, too


Finding = Occurrence | Abstention | Already
Pattern = Callable[["Scan"], Iterator[Finding]]


@dataclass
class Scan:
    """A step of which patterns take their operators: each belongs to one finding at most."""

    step: FusionStep
    _taken: set[int] = field(default_factory=set)

    @property
    def ops(self) -> Sequence[StepOp]:
        """All operators that launched something."""
        return self.step.ops

    def at(self, position: int) -> StepOp | None:
        """The operator there if it belongs to nobody yet."""
        is_there = 0 <= position < len(self.ops) and position not in self._taken
        return self.ops[position] if is_there else None

    def run(self, start: int, length: int) -> list[StepOp]:
        """Operators from ``start`` on that belong to nobody, up to the first that does."""
        found: list[StepOp] = []
        while len(found) < length and (op := self.at(start + len(found))) is not None:
            found.append(op)
        return found

    def run_back(self, last: int, length: int) -> list[StepOp]:
        """As ``run``, of operators that end with that at ``last``."""
        found: list[StepOp] = []
        while len(found) < length and (op := self.at(last - len(found))) is not None:
            found.append(op)
        return found[::-1]

    def free(self) -> Iterator[StepOp]:
        """Operators that belong to nobody when their turn comes."""
        for op in self.ops:
            if self.at(op.position) is not None:
                yield op

    def take(self, ops: Iterable[StepOp]) -> None:
        """These belong to somebody now."""
        self._taken.update(op.position for op in ops)


def is_elementwise(op: StepOp) -> bool:
    """Works element by element, in kernels."""
    return op.name in ELEMENTWISE and op.are_kernels


def is_in_attention(op: StepOp) -> bool:
    """Is an operator that does attention as a whole, or runs inside of one."""
    return op.is_attention or any("attention" in name for name in op.around)


def has_numel(op: StepOp, numel: int) -> bool:
    """An input has so many elements."""
    return any(tensor.numel == numel for tensor in op.listed)


def is_sum_of_two_alike(op: StepOp) -> bool:
    """An add of two tensors of the same dimensions and type: the residual stream's, most likely."""
    return op.name in ("add", "add_") and len(op.tensors) > 1 and op.tensors[0] == op.tensors[1]


def rows_of(op: StepOp) -> Tensor | None:
    """The rows that a product of matrices multiplies, [rows, k]; None for another operator."""
    at = 1 if op.name in ("addmm", "baddbmm") else 0
    return op.tensors[at] if op.name in PRODUCTS and len(op.tensors) > at else None


def outputs_twice(ops: Iterable[StepOp]) -> int | None:
    """Bytes of what these write, written and read again; None where an output or its size is not known."""
    size = known_sum(None if op.output is None else op.output.bytes for op in ops)
    return None if size is None else 2 * size


def intermediate_bytes(ops: Sequence[StepOp], kept: Iterable[StepOp] = ()) -> int | None:
    """Bytes that these write only for one another, and read again; of what is ``kept`` the reads alone.

    An input is what an operator before wrote if dimensions and type are the same: the last one that nobody has read,
    else the last. Weights and whatever else comes from outside are read as before, and not counted. None where a type
    is of unknown size.
    """
    needed = {op.position for op in kept}
    written: dict[int, Tensor] = {}
    read: set[int] = set()
    saved = 0
    for op in ops:
        sources: set[int] = set()
        for tensor in op.reads:
            alike = [at for at, made in written.items() if made == tensor and at not in sources]
            if alike:
                sources.add(max(alike, key=lambda at: (at not in read, at)))
                if tensor.bytes is None:
                    return None
                saved += tensor.bytes
        read |= sources
        if op.output is not None:
            written[op.position] = op.output
    for position in read - needed:
        size = written[position].bytes
        if size is None:
            return None
        saved += size
    return saved
