"""What the patterns of the fusion advisor have in common: a step being searched, and what a search finds.

A file does not say which tensor an operator read. That one reads what another wrote is taken from dimensions and types
that agree, in the order of launches; every finding says what it relied upon.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from ...facts.tensor_shapes import Tensor
from ...model.statistics import known_sum
from .step import FusionStep, StepOp


@dataclass(frozen=True)
class Occurrence:
    """Operators of one place of the step that one kernel, or few, could do the work of."""

    kind: str  # of advisor.HOW
    title: str
    ops: tuple[StepOp, ...]  # whose kernels would go into fewer
    launches_after: int
    bytes_saved: int | None  # None where a type is of unknown size
    relied_on: str

    @property
    def launches(self) -> int:
        return sum(op.launches for op in self.ops)

    @property
    def launches_saved(self) -> int:
        return self.launches - self.launches_after

    @property
    def is_product(self) -> bool:
        """Products of matrices side by side: their weights are read as before."""
        return self.kind in ("qkv", "gate_up", "projections")


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

    def run(self, start: int, length: int, step: int = 1) -> list[StepOp]:
        """Operators from ``start`` on that belong to nobody, up to the first that does."""
        found: list[StepOp] = []
        while len(found) < length and (op := self.at(start + step * len(found))) is not None:
            found.append(op)
        return found

    def behind(self, op: StepOp, length: int) -> list[StepOp]:
        """As ``run``, of those that follow an operator."""
        return self.run(op.position + 1, length)

    def before(self, op: StepOp, length: int) -> list[StepOp]:
        """As ``run``, of those before an operator, the nearest first."""
        return self.run(op.position - 1, length, -1)

    def free(self) -> Iterator[StepOp]:
        """Operators that belong to nobody when their turn comes."""
        return (op for op in self.ops if self.at(op.position) is not None)

    def take(self, ops: Iterable[StepOp]) -> None:
        """These belong to somebody now."""
        self._taken.update(op.position for op in ops)


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
    written: dict[int, Tensor] = {}
    read: set[int] = set()
    moved: list[int | None] = []
    for op in ops:
        sources: set[int] = set()
        for tensor in op.reads:
            alike = [at for at, made in written.items() if made == tensor and at not in sources]
            if alike:
                sources.add(max(alike, key=lambda at: (at not in read, at)))
                moved.append(tensor.bytes)
        read |= sources
        if op.output is not None:
            written[op.position] = op.output
    return known_sum([*moved, *(written[position].bytes for position in read - {op.position for op in kept})])
