"""Steps for the fusion advisor: a list of operators, each of which launches one kernel of 2 µs."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

from launchscope.analysis.facts.context import Context
from launchscope.analysis.figures.fusion.advisor import findings
from launchscope.analysis.figures.fusion.scan import Abstention, Already, Occurrence
from launchscope.analysis.figures.fusion.step import FusionStep, fusion_step
from launchscope.analysis.model.trace import Trace
from launchscope.fixtures.builder import TraceBuilder, trace

BF16 = "c10::BFloat16"
Shapes = Sequence[Any]


class Op(NamedTuple):
    """One operator: its inputs' shapes, their types (all bf16 unless given), and the operator around it."""

    name: str
    shapes: Shapes
    types: Sequence[str] | None = None
    inside: str | None = None


def builder_of(ops: Sequence[Op], steps: int = 3) -> TraceBuilder:
    """Steps of these operators, 20 µs each: the operator, in it a launch of 5 µs, a kernel of 2 µs behind that."""
    builder = trace()
    for number in range(steps):
        begun = 20 * len(ops) * number
        builder.step(number, begun, 20 * len(ops) - 1)
        for place, op in enumerate(ops):
            at = begun + 20 * place
            if op.inside is not None:
                builder.op(op.inside, at + 1, 17)
            builder.op(f"aten::{op.name}", at + 2, 15, shapes=op.shapes, types=op.types)
            builder.launch(at + 4, 5).kernel(at + 12, 2, name=f"kernel_of_{op.name}")
    return builder


def trace_of(ops: Sequence[Op], steps: int = 3) -> Trace:
    return builder_of(ops, steps).build()


def step_of(ops: Sequence[Op]) -> FusionStep:
    built = trace_of(ops)
    found = fusion_step(Context(built))
    assert found is not None
    return found


def occurrences(ops: Sequence[Op]) -> list[Occurrence]:
    return [each for each in findings(step_of(ops)) if isinstance(each, Occurrence)]


def summary(ops: Sequence[Op]) -> list[tuple[str, int, int, int | None]]:
    """Kind, launches now, launches after and bytes saved of everything that could be fused, in order of launches."""
    found = sorted(occurrences(ops), key=lambda o: o.ops[0].position)
    return [(o.kind, o.launches, o.launches_after, o.bytes_saved) for o in found]


def already(ops: Sequence[Op]) -> list[tuple[str, str]]:
    return [(each.kind, each.what) for each in findings(step_of(ops)) if isinstance(each, Already)]


def abstained(ops: Sequence[Op]) -> list[str]:
    return [each.kind for each in findings(step_of(ops)) if isinstance(each, Abstention)]
