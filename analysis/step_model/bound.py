"""The closed-form model of one decode step: what bounds it, what a graph would take, what a knob changes.

    bound   max(W, N·τ)                                   host and GPU overlap fully
    serial  W + N·τ                                       they never do
    floor   max(bytes ÷ bandwidth, FLOPs ÷ peak)          no kernel can be faster on this GPU
    graph   max(W + (n − 1)·ν + replay gap, launch cost)  the step as one CUDA graph, replayed back to back

W is GPU work, N launches, n GPU ops, τ host time per launch, ν GPU time from one graph node to the next
(docs/metrics.md, "The closed-form model"). Everything is a plain number in ns; what is unknown is None and makes
the result None. Of the floor, matmuls read the weights and attention reads the caches.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model.capture import Calibration, Floor
from ..model.document import CalibrationDoc, FloorDoc, ModeDoc, ProfileDoc, TargetDoc, TraceDoc
from .knobs import WEIGHT_BYTES, Knobs

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
    for field, what in _NEEDED.items():
        if getattr(mode, field) is None:
            return f"its {what} is not known: {mode.withheld.get(field, 'it was not measured')}"
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
