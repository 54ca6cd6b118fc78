"""The closed-form model of one decode step: what bounds it, what a graph would take, what a knob changes.

    bound   max(W, N·τ)                                   host and GPU overlap fully
    serial  W + N·τ                                       they never do
    floor   max(bytes ÷ bandwidth, FLOPs ÷ peak)          no kernel can be faster on this GPU
    graph   max(W + (n − 1)·ν + replay gap, launch cost)  the step as one CUDA graph, replayed back to back

W is GPU work, N launches, n GPU ops, τ host time per launch, ν GPU time from one graph node to the next
(docs/metrics.md, "The closed-form model"). Everything is a plain number in ns; what is unknown is None and makes
the result None. Of the floor, matmuls read the weights and attention reads the caches. The
knobs are what a prediction can change of a step that was measured.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from numbers import Integral, Real
from typing import Any, Final

from .model.capture import Calibration, Floor
from .model.document import CalibrationDoc, FloorDoc, ModeDoc, ProfileDoc, TargetDoc, TraceDoc
from .model.errors import LaunchscopeError
from .model.units import byte_size, duration

WEIGHT_BYTES: Final[Mapping[str, float]] = {
    "fp32": 4.0,
    "float32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "bfloat16": 2.0,
    "fp16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
}
"""Bytes of one weight by dtype. Scales and zero points, a few per cent more, are left out."""

FORMATS: Final = tuple(sorted(set(WEIGHT_BYTES) - {"float32", "bfloat16", "float16", "tf32"}))
"""What weights can be asked for as; a size says it in bytes."""

ALL_REDUCE_NS: Final = 7_600.0
"""Of 4 KiB between two H200s over NVLink (NCCL 2.28.9, in a graph): 5.5 µs of transfer, and 2.1 µs more before it
than before other kernels. A matmul in parts waits for it twice a layer; more GPUs take longer."""

OTHER_STREAM_NS: Final = 7_000.0
"""How much later the high end takes an all-reduce: as seen where torch.compile put each on a stream of its own."""

MOST: Final = 1e18
MOST_TIMES: Final = 1e6
MOST_SEQUENCES: Final = 10**9
MOST_PARTS: Final = 4_096
"""Largest time in ns and size in bytes, factor, batch and degree that a knob takes."""


@dataclass(frozen=True)
class Knobs:
    """What to change; None keeps it. A value that no machine could have raises LaunchscopeError.

    The closed form knows no single op: ``graph``, ``times``, ``tensor_parallel`` and ``fuse`` are the simulator's.
    The simulator knows which ops a fusion takes away: ``kernels`` is the closed form's.
    """

    tau_ns: float | None = None  # host time per launch
    host: float | None = None  # the host takes this many times as long
    delay_ns: float | None = None  # further host time before each launch
    graph: bool = False  # the step is launched as one CUDA graph
    times: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → its ops take so many times as long
    bandwidth: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → memory so many times as fast
    flops: float | None = None  # the peak rate is so many times as high
    weights: str | float | None = None  # one of FORMATS, or bytes of all weights
    batch_size: int | None = None
    kernels: float | None = None  # GPU ops of the step: fusion makes them fewer
    tensor_parallel: int | None = None  # degree
    all_reduce_ns: float = ALL_REDUCE_NS
    fuse: tuple[str, ...] = ()  # kinds of the fusion advisor's candidates, or 'all'

    def __post_init__(self) -> None:
        if self.tau_ns is not None and self.host is not None:
            raise LaunchscopeError("tau and host both set the host's time: give one")
        if self.tau_ns is not None and self.graph:
            raise LaunchscopeError("tau is of launches one by one, and graph leaves one launch in all: give one")
        sizes = {"tau": self.tau_ns, "delay": self.delay_ns, "kernels": self.kernels, "all_reduce": self.all_reduce_ns}
        for name, value in sizes.items():
            _require(name, value, MOST, least=0.0)
        factors = {"host": [self.host], "flops": [self.flops], "gpu": self.times.values()}
        for name, values in (factors | {"bandwidth": self.bandwidth.values()}).items():
            for value in values:
                _require(name, value, MOST_TIMES)
        _require("weights", None if isinstance(self.weights, str) else self.weights, MOST)
        _require("batch", self.batch_size, MOST_SEQUENCES, least=1, kind=Integral)
        _require("tensor_parallel", self.tensor_parallel, MOST_PARTS, least=1, kind=Integral)

    def tau_from(self, measured_ns: float) -> float:
        """τ with the host's knobs turned."""
        tau = measured_ns * (1.0 if self.host is None else self.host) if self.tau_ns is None else self.tau_ns
        return tau + (self.delay_ns or 0.0)

    def bandwidth_factor(self, op_class: str) -> float:
        """How many times as fast memory is for ops of this class."""
        return of_class(self.bandwidth, op_class)

    @property
    def needs_bytes(self) -> bool:
        """A knob is turned that takes what a step reads and computes."""
        changed = (self.flops, self.weights, self.batch_size, self.tensor_parallel)
        return bool(self.bandwidth) or any(each is not None for each in changed)

    def words(self) -> Iterator[str]:
        """Each knob that is turned."""
        if self.tau_ns is not None:
            yield f"τ = {duration(self.tau_ns)}"
        if self.host is not None:
            yield f"host time × {self.host:g}"
        if self.delay_ns is not None:
            yield f"{duration(self.delay_ns)} more per launch"
        yield from (f"time of {_ops(name)} × {factor:g}" for name, factor in self.times.items())
        yield from (f"bandwidth of {_ops(name)} × {factor:g}" for name, factor in self.bandwidth.items())
        if self.flops is not None:
            yield f"FLOP rate × {self.flops:g}"
        if self.weights is not None:
            yield f"weights of {self.weights if isinstance(self.weights, str) else byte_size(self.weights)}"
        if self.batch_size is not None:
            yield f"batch {self.batch_size}"
        if self.tensor_parallel is not None:
            yield f"one of {self.tensor_parallel} parts, all-reduces of {duration(self.all_reduce_ns)}"
        if self.fuse:
            yield f"fused: {', '.join(self.fuse)}"
        if self.graph:
            yield "one CUDA graph"


def of_class(factors: Mapping[str, float], op_class: str) -> float:
    """The factor of a class: that of all ops times its own."""
    return factors.get("all", 1.0) * factors.get(op_class, 1.0)


def _require(name: str, value: Any, most: float, *, least: float | None = None, kind: type = Real) -> None:
    """LaunchscopeError unless it is null or a number up to ``most``, from ``least`` on or else above 0."""
    if value is None:
        return
    is_number = isinstance(value, kind) and not isinstance(value, bool)
    if not is_number or not (value > 0 if least is None else value >= least) or value > most:
        takes = "whole number" if kind is Integral else "number"
        start = "above 0 and" if least is None else f"from {least:g}"
        raise LaunchscopeError(f"{name} is {value!r}: it takes a {takes} {start} up to {most:g}")


def _ops(name: str) -> str:
    return "all GPU ops" if name == "all" else name


NS_PER_S: Final = 1e9
MEASURED: Final = Knobs()
"""No knob turned."""

MOSTLY: Final = 0.5  # share of the kernels in graphs from which launches of their own say nothing

_NEEDED: Final = {
    "gpu_work_ns": "GPU work",
    "gpu_ops": "number of GPU ops",
    "launches": "number of launches",
    "tau_step_ns": "host time per launch",
}
"""What a mode must have measured for a prediction to start from it."""

Costs = Calibration | CalibrationDoc
"""What graphs cost on a machine: as the capture keeps it, or as the report tells it."""


def least_ns(count: float, per_second: float) -> float:
    """The least time that so many bytes or FLOPs take at a rate."""
    return count / per_second * NS_PER_S


def bound_ns(work_ns: float, launches: float, tau_ns: float) -> float:
    """max(W, N·τ): the step time of a host and a GPU that overlap fully."""
    return max(work_ns, launches * tau_ns)


def serial_ns(work_ns: float, launches: float, tau_ns: float) -> float:
    """W + N·τ: the step time of a host and a GPU that wait for each other."""
    return work_ns + launches * tau_ns


def floor_ns(floor: Floor, calibration: Calibration) -> float | None:
    """The least time the step's reads and FLOPs take at the rates measured on this GPU; None if neither is known."""
    parts = []
    if floor.bytes is not None and calibration.bandwidth_bytes_per_s:
        parts.append(least_ns(floor.bytes, calibration.bandwidth_bytes_per_s))
    peak = calibration.flops_per_s.get(floor.dtype or "")
    if floor.flops is not None and peak:
        parts.append(least_ns(floor.flops, peak))
    return max(parts, default=None)


def graph_launch_cost_ns(gpu_ops: float, calibration: Costs) -> float | None:
    """Unprofiled host cost of launching a graph of so many nodes: intercept + slope × nodes."""
    if calibration.graph_launch_ns is None or calibration.graph_launch_per_node_ns is None:
        return None
    return calibration.graph_launch_ns + calibration.graph_launch_per_node_ns * gpu_ops


def replay_ns(work_ns: float, gpu_ops: float, node_gap_ns: float) -> float:
    """W + (n − 1)·ν: GPU time of one replay, from its first node to the end of its last."""
    return work_ns + max(gpu_ops - 1, 0) * node_gap_ns


def predict_graph_ns(work_ns: float, gpu_ops: float, calibration: Costs) -> float | None:
    """Step time as one CUDA graph, from the work of the ungraphed step; None if the calibration lacks a part.

    Back to back, the launch of a replay hides behind the one before, so only the longer of the two counts.
    """
    cost = graph_launch_cost_ns(gpu_ops, calibration)
    if cost is None or calibration.node_gap_ns is None or calibration.replay_gap_ns is None:
        return None
    return max(replay_ns(work_ns, gpu_ops, calibration.node_gap_ns) + calibration.replay_gap_ns, cost)


@dataclass(frozen=True)
class StepBytes:
    """What a step reads and computes, and this GPU's rates."""

    weights: float  # bytes
    caches: float  # bytes
    flops: float
    bandwidth: float  # bytes per second
    peak: float | None  # FLOPs per second
    batch_size: int
    weight_width: float | None  # bytes per weight; null where the weights' part of the bytes is not known

    def weights_with(self, knobs: Knobs) -> float:
        """Bytes of all weights. A type of weights is known by their width as measured."""
        if not isinstance(knobs.weights, str):
            return self.weights if knobs.weights is None else knobs.weights
        assert self.weight_width, "the caller asked whether the width is known"
        return self.weights * WEIGHT_BYTES[knobs.weights] / self.weight_width

    def matmul_ns(self, knobs: Knobs = MEASURED) -> float:
        """The part of the matmuls' time that reading weights and computing takes."""
        return max(self._weights_ns(knobs), self._flops_ns(knobs))

    def attention_ns(self, knobs: Knobs = MEASURED) -> float:
        """The part of attention's time that reading caches takes."""
        caches = self.caches * self._rows(knobs) / (knobs.tensor_parallel or 1)
        return least_ns(caches, self.bandwidth * knobs.bandwidth_factor("attention"))

    def floor_ns(self, knobs: Knobs = MEASURED) -> float:
        """The least time of the whole step."""
        return max(self._weights_ns(knobs) + self.attention_ns(knobs), self._flops_ns(knobs))

    def _weights_ns(self, knobs: Knobs) -> float:
        weights = self.weights_with(knobs) / (knobs.tensor_parallel or 1)
        return least_ns(weights, self.bandwidth * knobs.bandwidth_factor("matmul"))

    def _flops_ns(self, knobs: Knobs) -> float:
        if not self.peak:
            return 0.0
        flops = self.flops * self._rows(knobs) / (knobs.tensor_parallel or 1)
        return least_ns(flops, self.peak * (knobs.flops or 1.0))

    def _rows(self, knobs: Knobs) -> float:
        return 1.0 if knobs.batch_size is None else knobs.batch_size / self.batch_size


def step_bytes(
    target: TargetDoc | None, floor: FloorDoc | None, calibration: CalibrationDoc | None
) -> StepBytes | None:
    """What a capture knows of its step; None where bytes or bandwidth are not known.

    The weights are no more than the floor counted: of an embedding a step reads some rows alone. Where the model's
    size or type is not known, all bytes are weights.
    """
    if floor is None or not floor.bytes or calibration is None or not calibration.bandwidth_bytes_per_s:
        return None
    width = WEIGHT_BYTES.get((target.dtype or "").removeprefix("torch.").lower()) if target is not None else None
    weights = floor.bytes
    if target is None or width is None or not target.parameters:
        width = None
    else:
        weights = min(round(target.parameters * width), floor.bytes)
    return StepBytes(
        weights=weights,
        caches=floor.bytes - weights,
        flops=floor.flops or 0.0,
        bandwidth=calibration.bandwidth_bytes_per_s,
        peak=calibration.flops_per_s.get(floor.dtype or ""),
        batch_size=1 if target is None or not target.batch_size else target.batch_size,
        weight_width=width,
    )


@dataclass(frozen=True)
class StepModel:
    """One step as measured: the point that the knobs move away from."""

    gpu_work_ns: float
    gpu_ops: float
    launches: float
    tau_ns: float
    costs: Costs  # of graphs on its machine
    reads: StepBytes | None = None  # null where its bytes or the bandwidth are not known


@dataclass(frozen=True)
class Prediction:
    """What the model says for one setting of the knobs."""

    gpu_work_ns: float
    launches: float
    tau_ns: float
    floor_ns: float | None
    eager_ns: float  # with fewer kernels: the fused step
    serial_ns: float
    graph_ns: float | None

    @property
    def launch_ns(self) -> float:
        """N·τ."""
        return self.launches * self.tau_ns


def predict(step: StepModel, knobs: Knobs = MEASURED) -> Prediction:
    """Step times for one setting of the knobs; with none set, those of the step as measured.

    Work is the floor plus what the kernels take over it. The floor follows bytes, FLOPs and bandwidth; the rest
    shrinks and grows with the number of kernels. Without a floor only τ and the launches follow the knobs.
    """
    assert not any((knobs.graph, knobs.times, knobs.tensor_parallel, knobs.fuse)), "these take the simulator"
    kernel_ratio = 1.0 if knobs.kernels is None or not step.gpu_ops else knobs.kernels / step.gpu_ops
    fixed, over = _work_parts(step, knobs)
    work = fixed + over * kernel_ratio
    launches = step.launches * kernel_ratio
    tau = knobs.tau_from(step.tau_ns)
    return Prediction(
        gpu_work_ns=work,
        launches=launches,
        tau_ns=tau,
        floor_ns=None if step.reads is None else step.reads.floor_ns(knobs),
        eager_ns=bound_ns(work, launches, tau),
        serial_ns=serial_ns(work, launches, tau),
        graph_ns=predict_graph_ns(work, step.gpu_ops * kernel_ratio, step.costs),
    )


def turning_tau_ns(step: StepModel, knobs: Knobs = MEASURED) -> float | None:
    """The τ at which N·τ = W: below it the GPU is the limit, above it launching is; None without launches."""
    found = predict(step, knobs)
    return found.gpu_work_ns / found.launches if found.launches else None


def turning_kernels(step: StepModel, knobs: Knobs = MEASURED) -> float | None:
    """The number of GPU ops at which N·τ = W: with fewer the GPU is the limit, with more launching is.

    None where no number of them makes launching the limit: a launch takes less time than its kernel has over the floor.
    """
    fixed, over = _work_parts(step, knobs)
    per_step = step.launches * knobs.tau_from(step.tau_ns) - over
    return step.gpu_ops * fixed / per_step if per_step > 0 else None


def _work_parts(step: StepModel, knobs: Knobs) -> tuple[float, float]:
    """The work that stays however many kernels there are, and the work that grows with them, at their number now."""
    if step.reads is None:
        return step.gpu_work_ns, 0.0
    return step.reads.floor_ns(knobs), max(step.gpu_work_ns - step.reads.floor_ns(), 0.0)


def step_of_mode(mode: ModeDoc, profile: ProfileDoc, target: TargetDoc | None) -> StepModel | str:
    """A mode without the profiler; or why no prediction can start from it, in words."""
    for name, what in _NEEDED.items():
        if getattr(mode, name) is None:
            return f"its {what} is not known: {mode.withheld.get(name, 'it was not measured')}"
    work, ops, launches, tau = (getattr(mode, field) for field in _NEEDED)
    if min(work, ops, launches, tau) <= 0:
        return "it launches nothing that takes time"
    if launches < (1 - MOSTLY) * ops:
        return "the step replays graphs already, so nothing is launched kernel by kernel that a graph could replace"
    return StepModel(
        gpu_work_ns=work,
        gpu_ops=ops,
        launches=launches,
        tau_ns=tau,
        costs=profile.calibration or Calibration(),
        reads=step_bytes(target, profile.floor, profile.calibration),
    )


def step_of_trace(trace: TraceDoc) -> StepModel | str:
    """A trace as it was recorded, the profiler's cost included; or why no prediction can start from it, in words."""
    bound = trace.bound
    if bound is None or bound.tau_ns is None:
        return trace.withheld.get("bound", "the host time of its launches is not known")
    ops = trace.coverage.gpu_ops if trace.steps is None else trace.steps.gpu_ops.median or 0.0
    if (trace.graphs.coverage_by_count or 0.0) >= MOSTLY or bound.launches < (1 - MOSTLY) * ops:
        return "the step replays graphs already, and its kernels wait for no launch"
    if not ops or not bound.launches or bound.gpu_work_ns <= 0 or bound.tau_ns <= 0:
        return "no step in it launches work that takes time"
    return StepModel(bound.gpu_work_ns, float(ops), bound.launches, bound.tau_ns, Calibration())
