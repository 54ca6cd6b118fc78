"""The closed-form model of one decode step: what bounds it, what a graph would take, what a knob changes.

    bound   max(W, N·τ)                                   host and GPU overlap fully
    serial  W + N·τ                                       they never do
    floor   max(bytes ÷ bandwidth, FLOPs ÷ peak)          no kernel can be faster on this GPU
    graph   max(W + (n − 1)·ν + replay gap, launch cost)  the step as one CUDA graph, replayed back to back

W is GPU work, N launches, n GPU ops, τ host time per launch, ν GPU time from one graph node to the next
(docs/metrics.md, "The closed-form model"). Everything is a plain number in ns; what is unknown is None and makes
the result None.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model.capture import Calibration, Floor

NS_PER_S: Final = 1e9


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
        parts.append(floor.bytes / calibration.bandwidth_bytes_per_s * NS_PER_S)
    peak = calibration.flops_per_s.get(floor.dtype or "")
    if floor.flops is not None and peak:
        parts.append(floor.flops / peak * NS_PER_S)
    return max(parts, default=None)


def graph_launch_cost_ns(gpu_ops: float, calibration: Calibration) -> float | None:
    """Unprofiled host cost of launching a graph of so many nodes: intercept + slope × nodes."""
    if calibration.graph_launch_ns is None or calibration.graph_launch_per_node_ns is None:
        return None
    return calibration.graph_launch_ns + calibration.graph_launch_per_node_ns * gpu_ops


def predict_graph_ns(work_ns: float, gpu_ops: float, calibration: Calibration) -> float | None:
    """Step time as one CUDA graph, from the work of the ungraphed step; None if the calibration lacks a part.

    Back to back, the launch of a replay hides behind the one before, so only the longer of the two counts.
    """
    cost = graph_launch_cost_ns(gpu_ops, calibration)
    if cost is None or calibration.node_gap_ns is None or calibration.replay_gap_ns is None:
        return None
    on_gpu = work_ns + max(gpu_ops - 1, 0) * calibration.node_gap_ns + calibration.replay_gap_ns
    return max(on_gpu, cost)


@dataclass(frozen=True)
class StepModel:
    """One step as measured: the point that the knobs move away from."""

    gpu_work_ns: float
    gpu_ops: float
    launches: float
    tau_ns: float
    calibration: Calibration
    floor: Floor | None = None  # counted over the whole batch
    weight_bytes: int | None = None  # the part of floor.bytes that does not grow with the batch
    batch_size: int = 1


@dataclass(frozen=True)
class Knobs:
    """What to change; None keeps what was measured."""

    tau_ns: float | None = None
    bandwidth_bytes_per_s: float | None = None
    kernels: float | None = None  # GPU ops of the step: fusion makes them fewer
    batch_size: int | None = None
    weight_bytes: float | None = None  # quantised weights


@dataclass(frozen=True)
class Prediction:
    """What the model says for one setting of the knobs."""

    gpu_work_ns: float
    launches: float
    floor_ns: float | None
    eager_ns: float  # with fewer kernels: the fused step
    serial_ns: float
    graph_ns: float | None


def predict(step: StepModel, knobs: Knobs | None = None) -> Prediction:
    """Step times for one setting of the knobs; with none set, those of the step as measured.

    Work is the floor plus what the kernels take over it. The floor follows bytes, FLOPs and bandwidth; the rest
    shrinks and grows with the number of kernels. Without a floor only τ and the launches follow the knobs.
    """
    knobs = knobs or Knobs()
    kernel_ratio = 1.0 if knobs.kernels is None or not step.gpu_ops else knobs.kernels / step.gpu_ops
    fixed, over = _work_parts(step, knobs)
    work = fixed + over * kernel_ratio
    launches = step.launches * kernel_ratio
    tau = step.tau_ns if knobs.tau_ns is None else knobs.tau_ns
    return Prediction(
        gpu_work_ns=work,
        launches=launches,
        floor_ns=_floor_of(step, knobs),
        eager_ns=bound_ns(work, launches, tau),
        serial_ns=serial_ns(work, launches, tau),
        graph_ns=predict_graph_ns(work, step.gpu_ops * kernel_ratio, step.calibration),
    )


def turning_tau_ns(step: StepModel, knobs: Knobs | None = None) -> float | None:
    """The τ at which N·τ = W: below it the GPU is the limit, above it launching is; None without launches."""
    told = predict(step, knobs)
    return told.gpu_work_ns / told.launches if told.launches else None


def turning_kernels(step: StepModel, knobs: Knobs | None = None) -> float | None:
    """The number of GPU ops at which N·τ = W: with fewer the GPU is the limit, with more launching is.

    None where no number of them makes launching the limit: a launch takes less time than its kernel has over the floor.
    """
    knobs = knobs or Knobs()
    fixed, over = _work_parts(step, knobs)
    per_step = step.launches * (step.tau_ns if knobs.tau_ns is None else knobs.tau_ns) - over
    return step.gpu_ops * fixed / per_step if per_step > 0 else None


def _work_parts(step: StepModel, knobs: Knobs) -> tuple[float, float]:
    """The work that stays however many kernels there are, and the work that grows with them, at their number now."""
    before, after = _floor_of(step, Knobs()), _floor_of(step, knobs)
    if before is None or after is None:
        return step.gpu_work_ns, 0.0
    return after, max(step.gpu_work_ns - before, 0.0)


def _floor_of(step: StepModel, knobs: Knobs) -> float | None:
    """The floor with the knobs' bytes, FLOPs and bandwidth."""
    bandwidth = knobs.bandwidth_bytes_per_s or step.calibration.bandwidth_bytes_per_s
    if step.floor is None or step.floor.bytes is None or not bandwidth:
        return None
    batch_ratio = 1.0 if knobs.batch_size is None else knobs.batch_size / step.batch_size
    fixed = step.weight_bytes if step.weight_bytes is not None else step.floor.bytes
    weights = fixed if knobs.weight_bytes is None else knobs.weight_bytes
    reads = (weights + (step.floor.bytes - fixed) * batch_ratio) / bandwidth * NS_PER_S
    peak = step.calibration.flops_per_s.get(step.floor.dtype or "")
    computes = step.floor.flops * batch_ratio / peak * NS_PER_S if step.floor.flops is not None and peak else 0.0
    return max(reads, computes)
