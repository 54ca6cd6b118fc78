"""One step as a list of the operators that launched something, in launch order, each with its inputs and kernels.

Of a capture no time is taken from the `stacks` pass, which has the shapes: its ops are matched, one by one, with those
of the `cuda` pass of the same mode, which stretches neither them nor the host before their launches.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import groupby
from typing import Final

import numpy as np

from ...facts.alignment import in_launch_order, match_names, step_ops
from ...facts.context import Context
from ...facts.launches import stacks_at
from ...facts.step_repetition import LEAST_REPEATS, find_repetition
from ...facts.tensor_shapes import ELEMENTWISE, PACKED_PRODUCTS, Input, Tensor, inputs_of, output_of
from ...model.columns import follow
from ...model.names import users_line
from ...model.trace import NONE, HostKind, Ints, Reals, Trace

_ATEN: Final = "aten::"
_PRODUCTS: Final = frozenset({"mm", "addmm", "bmm", "baddbmm", *PACKED_PRODUCTS})
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
    line: str | None  # of the model's code, a library's too, where Python stacks were recorded
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
    def is_elementwise(self) -> bool:
        """Works element by element, in kernels."""
        return self.name in ELEMENTWISE and self.are_kernels

    @property
    def is_product(self) -> bool:
        """A product of matrices."""
        return self.name in _PRODUCTS

    @property
    def rows(self) -> Tensor | None:
        """The rows that a product of matrices multiplies, [rows, k]; None of another operator."""
        at = 1 if self.name in ("addmm", "baddbmm") else 0
        return self.tensors[at] if self.is_product and len(self.tensors) > at else None

    @property
    def is_sum_of_two_alike(self) -> bool:
        """An add of two tensors of the same dimensions and type: the residual stream's, most likely."""
        return self.name in ("add", "add_") and len(self.tensors) > 1 and self.tensors[0] == self.tensors[1]

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
    launched = np.flatnonzero(trace.gpu_ops.launch_row[rows] != NONE)
    if not len(launched):
        return None
    ns = trace.gpu_ops.dur_ns[rows] if times is None else np.array(times.ns)
    host_ns = None if times is None or times.host_ns is None else np.array(times.host_ns)[launched].tolist()
    ops = list(_operators(trace, rows[launched], ns[launched].tolist(), host_ns))
    if not any(op.inputs for op in ops):
        return None
    layer_of, layers = _layers(ops)
    return FusionStep(tuple(ops), tuple(layer_of), layers)


def _operators(trace: Trace, rows: Ints, ns: Sequence[float], host_ns: Sequence[float] | None) -> Iterator[StepOp]:
    """GPU ops, grouped by the call of an operator that launched them one after the other.

    Tensors of lists have no type in the file: they get that of what was written just before.
    """
    launches, host = trace.launches, trace.host_ops
    launch_row = trace.gpu_ops.launch_row[rows]
    operator_row = launches.operator_row[launch_row]
    shapes_row = follow(host.shapes, operator_row)
    stacks = stacks_at(trace, launches.start_ns[launch_row], launches.process[launch_row], launches.thread[launch_row])
    is_operator = np.zeros(len(trace.names), np.bool_)
    is_operator[host.name[host.kind == HostKind.OPERATOR]] = True
    is_kernel = trace.gpu_ops.is_kernel[rows]
    known: dict[int, tuple[Input, ...]] = {NONE: ()}
    written: str | None = None
    keys = list(zip(operator_row.tolist(), launch_row.tolist(), strict=True))
    groups = groupby(range(len(rows)), key=lambda at: keys[at][0] if keys[at][0] != NONE else -2 - keys[at][1])
    for position, (_, places) in enumerate(groups):
        group = list(places)
        first = group[0]
        row, shapes = int(operator_row[first]), int(shapes_row[first])
        frames = [frame for name in stacks[first] if not _NOT_A_MODEL.search(frame := trace.name(name))]
        operators = [trace.name(name).removeprefix(_ATEN) for name in stacks[first] if is_operator[name]]
        if shapes not in known:
            known[shapes] = inputs_of(trace.shapes[shapes])
        op = StepOp(
            position=position,
            name=None if row == NONE else trace.name(int(host.name[row])).removeprefix(_ATEN),
            around=tuple(operators[:-1]),
            inputs=tuple(_of_type(given, written) for given in known[shapes]),
            gpu_ops=tuple(rows[group].tolist()),
            launches=len({keys[place][1] for place in group}),
            ns=sum(ns[place] for place in group),
            host_ns=None if host_ns is None else sum(host_ns[place] for place in group),
            line=users_line([frame for frame in frames if _LIBRARY.search(frame)] or frames),
            are_kernels=bool(is_kernel[group].all()),
        )
        written = written if op.output is None else op.output.type
        yield op


def _of_type(given: Input, kind: str | None) -> Input:
    """An input whose tensors have this type where it is a list."""
    if given is None or isinstance(given, Tensor):
        return given
    return tuple(part._replace(type=kind) for part in given)


def _is_attention(ops: Sequence[StepOp], op: StepOp) -> bool:
    """An attention of one operator, or the softmax of one in parts, between two batched products."""
    if "softmax" not in (op.name or ""):
        return op.is_attention and len(op.tensors) > 2
    around = (ops[max(op.position - _TO_SOFTMAX, 0) : op.position], ops[op.position + 1 : op.position + _TO_SOFTMAX])
    return all(any(other.name == "bmm" for other in side) for side in around)


def _layers(ops: Sequence[StepOp]) -> tuple[list[int | None], int | None]:
    """The layer of each operator; null where nothing repeats. Each attention is a layer; without, what repeats is.

    A layer begins with the first operator that stands before the second attention as before the first: behind it are
    the first layer's own, and before it what comes before all layers.
    """
    numbers: dict[tuple[str | None, tuple[Input, ...]], int] = {}
    tokens = np.array([numbers.setdefault((op.name, op.inputs), len(numbers)) for op in ops], np.int64)
    attentions = [op.position for op in ops if _is_attention(ops, op)]
    starts: list[int] = []
    end = before = 0
    if len(attentions) > 1:
        first, second = attentions[:2]
        while before < min(first, second - first - 1) and tokens[first - before - 1] == tokens[second - before - 1]:
            before += 1
        starts = [at - before for at in attentions] if before else []
        end = min(attentions[-1] + second - before - first, len(ops))
    if not starts and len(tokens) >= LEAST_REPEATS and (found := find_repetition(tokens)) is not None:
        starts = [found.start + layer * found.period for layer in range(found.length // found.period)]
        end = starts[-1] + found.period
    if not starts:
        return [None] * len(ops), None
    number = np.searchsorted(starts, np.arange(len(ops)), side="right") - 1
    return [int(each) if each >= 0 and at < end else None for at, each in enumerate(number.tolist())], len(starts)


def op_times(context: Context, names: Sequence[str], host_submit_ns: float | None) -> OpTimes | None:
    """Medians over the kept steps that run ops of these names in this order; None where none does.

    The host's time is from the start of one launch call to that of the next, the first one's from the step's own
    start, scaled to ``host_submit_ns`` in all, which no profiler stretched. None without it.
    """
    trace, op_step = context.trace, context.steps.op_step
    steps = (in_launch_order(trace, np.flatnonzero(op_step == step)) for step in context.steps.kept_rows.tolist())
    found = [rows for rows in steps if match_names(trace, rows) == list(names)]
    if not found:
        return None
    ns = np.median([trace.gpu_ops.dur_ns[rows] for rows in found], axis=0)
    host = np.median([_host_ns(context, rows) for rows in found], axis=0)
    scaled = None if host_submit_ns is None or host.sum() <= 0 else (host * host_submit_ns / host.sum()).tolist()
    return OpTimes(context.name, ns.tolist(), scaled)


def names_of_step(context: Context) -> list[str]:
    """What the GPU ops of a typical step are matched by, in launch order."""
    return match_names(context.trace, step_ops(context))


def _host_ns(context: Context, rows: Ints) -> Reals:
    """From the launch call before to that of each op."""
    trace, steps = context.trace, context.steps
    launch_row = trace.gpu_ops.launch_row[rows]
    begun = int(steps.start_ns[steps.op_step[rows[0]]]) if len(rows) else 0
    starts = np.where(launch_row == NONE, begun, follow(trace.launches.start_ns, launch_row))
    return np.maximum(np.diff(np.maximum.accumulate(starts), prepend=begun), 0).astype(np.float64)
