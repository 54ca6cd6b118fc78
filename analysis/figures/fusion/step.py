"""One step as a list of the operators that launched something, in launch order, each with its inputs and kernels."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby
from typing import Final

import numpy as np

from ...facts.alignment import step_ops
from ...facts.context import Context
from ...facts.stacks import stacks_at
from ...facts.step_repetition import LEAST_REPEATS, find_repetition
from ...facts.tensor_shapes import Input, Tensor, inputs_of, output_of
from ...model.columns import follow
from ...model.trace import NONE, HostKind, Ints, Trace
from ...model.user_lines import users_line

_ATEN: Final = "aten::"
_TO_SOFTMAX: Final = 8  # operators from QKᵀ to the softmax, and from there to ·V
_NOT_A_MODEL: Final = re.compile(r"(^|/)torch/|(^|/)launchscope/tracer/|^<")
_LIBRARY: Final = re.compile(r"(^|/)(transformers|site-packages|dist-packages)/")


@dataclass(frozen=True)
class StepOp:
    """An operator and what it launched. Without an operator in the file, the name is null and it has no inputs."""

    position: int  # in the step
    name: str | None  # innermost operator, without ``aten::``
    around: tuple[str, ...]  # operators around it, outermost first, without ``aten::``
    inputs: tuple[Input, ...]
    gpu_ops: tuple[int, ...]  # rows of the trace's gpu_ops, in launch order
    launches: int
    ns: float  # of its GPU ops
    host_ns: float | None  # the host's before its launches; None where no recording tells
    line: str | None  # of the model's code, where Python stacks were recorded
    are_kernels: bool = True  # all of its GPU ops: none is a copy or a set

    @property
    def tensors(self) -> list[Tensor]:
        """Inputs that are tensors by themselves."""
        return [given for given in self.inputs if isinstance(given, Tensor)]

    @property
    def listed(self) -> list[Tensor]:
        """Inputs that are tensors, those of lists included."""
        parts = [[given] if isinstance(given, Tensor) else given or () for given in self.inputs]
        return [tensor for part in parts for tensor in part]

    @property
    def is_attention(self) -> bool:
        """Does attention as a whole: the operator itself, not what it does before."""
        name = self.name or ""
        return "attention" in name or "flash_attn" in name

    @property
    def writes_into(self) -> bool:
        """Its first input is what it writes, and is not read: a copy, or a write of some rows of a larger tensor."""
        name = self.name or ""
        return name == "copy_" or (name.endswith("_") and name.startswith(("index", "_index", "scatter")))

    @property
    def reads(self) -> list[Tensor]:
        """Inputs that are tensors, without the one that is only written."""
        return self.listed[self.writes_into :]

    @cached_property
    def output(self) -> Tensor | None:
        """What it writes; None where its inputs don't tell."""
        return None if self.name is None else output_of(self.name, self.inputs)


@dataclass(frozen=True)
class FusionStep:
    """The operators of one step, and which layer each belongs to where they repeat."""

    ops: tuple[StepOp, ...]
    layer_of: tuple[int | None, ...]  # of each operator
    layers: int | None


@dataclass(frozen=True)
class OpTimes:
    """Of each GPU op of a step, in launch order, per step."""

    source: str  # the recording
    ns: Sequence[float]
    host_ns: Sequence[float] | None  # the host's before its launch; 0 for all of a launch but the first


def fusion_step(context: Context, times: OpTimes | None = None) -> FusionStep | None:
    """The first kept step that is as long as most; None without a kept step or without shapes in the file.

    ``times`` are given where another recording is to give them.
    """
    trace = context.trace
    if not trace.shapes:
        return None
    rows = step_ops(context)
    launched = rows[trace.gpu_ops.launch_row[rows] != NONE]
    if not len(launched):
        return None
    ns_of = dict(zip(rows.tolist(), trace.gpu_ops.dur_ns[rows].tolist() if times is None else times.ns, strict=True))
    host = None if times is None else times.host_ns
    host_of = None if host is None else dict(zip(rows.tolist(), host, strict=True))
    ops = _with_list_types(_operators(trace, launched, ns_of, host_of))
    if not any(op.inputs for op in ops):
        return None
    layer_of, layers = _layers(ops)
    return FusionStep(tuple(ops), tuple(layer_of), layers)


def _operators(
    trace: Trace, rows: Ints, ns_of: Mapping[int, float], host_of: Mapping[int, float] | None
) -> Iterator[StepOp]:
    """GPU ops, grouped by the call of an operator that launched them one after the other."""
    launches, host = trace.launches, trace.host_ops
    launch_row = trace.gpu_ops.launch_row[rows]
    operator_row = launches.operator_row[launch_row]
    shapes_row = follow(host.shapes, operator_row)
    stacks = stacks_at(trace, launches.start_ns[launch_row], launches.process[launch_row], launches.thread[launch_row])
    is_operator = np.zeros(len(trace.names), np.bool_)
    is_operator[host.name[host.kind == HostKind.OPERATOR]] = True
    is_kernel = trace.gpu_ops.is_kernel
    known: dict[int, tuple[Input, ...]] = {NONE: ()}
    keys = list(zip(operator_row.tolist(), launch_row.tolist(), strict=True))
    groups = groupby(range(len(rows)), key=lambda at: keys[at][0] if keys[at][0] != NONE else -2 - keys[at][1])
    for position, (_, places) in enumerate(groups):
        its = list(places)
        first = its[0]
        row, shapes = int(operator_row[first]), int(shapes_row[first])
        stack = [trace.name(name) for name in stacks[first]]
        operators = [trace.name(name).removeprefix(_ATEN) for name in stacks[first] if is_operator[name]]
        if shapes not in known:
            known[shapes] = inputs_of(trace.shapes[shapes])
        gpu_ops = tuple(int(rows[place]) for place in its)
        yield StepOp(
            position=position,
            name=None if row == NONE else trace.name(int(host.name[row])).removeprefix(_ATEN),
            around=tuple(operators[:-1]),
            inputs=known[shapes],
            gpu_ops=gpu_ops,
            launches=len({keys[place][1] for place in its}),
            ns=sum(ns_of[op] for op in gpu_ops),
            host_ns=None if host_of is None else sum(host_of[op] for op in gpu_ops),
            line=_line_of_model(stack),
            are_kernels=bool(is_kernel[list(gpu_ops)].all()),
        )


def _line_of_model(stack: Sequence[str]) -> str | None:
    """The innermost Python frame that is neither torch's nor ours: a library's model counts as the user's."""
    frames = [frame for frame in stack if not _NOT_A_MODEL.search(frame)]
    return users_line([frame for frame in frames if _LIBRARY.search(frame)] or frames)


def _with_list_types(ops: Iterator[StepOp]) -> list[StepOp]:
    """Tensors of lists have no type in the file: they get that of what was written just before."""
    found: list[StepOp] = []
    kind: str | None = None
    for op in ops:
        inputs = tuple(
            tuple(part._replace(type=kind) for part in given)
            if isinstance(given, tuple) and not isinstance(given, Tensor)
            else given
            for given in op.inputs
        )
        found.append(op if inputs == op.inputs else replace(op, inputs=inputs))
        kind = found[-1].output.type if found[-1].output is not None else kind
    return found


def _is_attention(ops: Sequence[StepOp], op: StepOp) -> bool:
    """An attention of one operator, or the softmax of one in parts, between two batched products."""
    if "softmax" not in (op.name or ""):
        return op.is_attention and len(op.tensors) > 2
    around = (ops[max(op.position - _TO_SOFTMAX, 0) : op.position], ops[op.position + 1 : op.position + _TO_SOFTMAX])
    return all(any(other.name == "bmm" for other in side) for side in around)


def _layers(ops: Sequence[StepOp]) -> tuple[list[int | None], int | None]:
    """The layer of each operator; null where nothing repeats. Each attention is a layer; without, what repeats is."""
    numbers: dict[tuple[str | None, tuple[Input, ...]], int] = {}
    tokens = np.array([numbers.setdefault((op.name, op.inputs), len(numbers)) for op in ops], np.int64)
    starts, end = _layers_by_attention(ops, tokens) or _layers_by_repetition(tokens)
    if not starts:
        return [None] * len(ops), None
    number = np.searchsorted(starts, np.arange(len(ops)), side="right") - 1
    return [int(each) if each >= 0 and at < end else None for at, each in enumerate(number.tolist())], len(starts)


def _layers_by_attention(ops: Sequence[StepOp], tokens: Ints) -> tuple[list[int], int] | None:
    """Where each layer starts, and where the last one ends; None with fewer than two attentions.

    A layer begins with the first operator that stands before the second attention as before the first: behind it are
    the first layer's own, and before it what comes before all layers.
    """
    attentions = [op.position for op in ops if _is_attention(ops, op)]
    if len(attentions) < 2:
        return None
    first, second = attentions[:2]
    before = 0
    while before < min(first, second - first - 1) and tokens[first - before - 1] == tokens[second - before - 1]:
        before += 1
    if not before:
        return None
    behind = second - before - first
    return [at - before for at in attentions], min(attentions[-1] + behind, len(ops))


def _layers_by_repetition(tokens: Ints) -> tuple[list[int], int]:
    found = find_repetition(tokens) if len(tokens) >= LEAST_REPEATS else None
    if found is None:
        return [], 0
    layers = found.length // found.period
    starts = [found.start + layer * found.period for layer in range(layers)]
    return starts, starts[-1] + found.period
