"""A step predicted from what its operators would launch, read and compute: nothing of it was run.

    W      Σ over operators of start + max(bytes ÷ bandwidth, FLOPs ÷ peak)      kernel_times.py
    eager  max(W, n·τ)                                                            n = GPU ops; each has its launch
    graph  max(W + (n − 1)·ν + replay gap, launch cost)                           step_model/bound.py
    fused  between no fusion and every chain of element-wise and reducing operators in one kernel

Every time comes with a range: of W as far as the samples were off (docs/validation.md), of the rest as ``gpus.py``
says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import groupby
from typing import Final, Literal

import msgspec

from ..model import __version__
from ..model.capture import Calibration, Target
from ..model.counted_step import ELEMENTWISE, FUSIBLE, REDUCTION, CountedOp, CountedStep
from ..step_model.bound import bound_ns, predict_graph_ns, serial_ns
from .gpus import Figure, Gpu
from .kernel_times import START_NS, gpu_ops, traffic_ns, work_ns

WORK_LOW: Final = 0.85
WORK_HIGH: Final = 1.20
"""× W: predicted W was 8 % too low to 10 % too high on an H200, over 20 steps (docs/validation.md)."""


class RangeDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted time in ns, and between which it should be."""

    predicted: float
    low: float
    high: float


class OperatorRowDoc(msgspec.Struct, frozen=True, kw_only=True):
    """All calls of one operator."""

    operator: str
    kind: str
    calls: int
    gpu_ops: int
    bytes: int  # read and written
    flops: int
    predicted_ns: float


class FusedDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What torch.compile can make of it, at the best (every chain one kernel) and at the least (no fusion)."""

    gpu_ops_low: int
    gpu_ops_high: int
    gpu_work_low_ns: float
    gpu_work_high_ns: float
    step_low_ns: float
    step_high_ns: float
    graph_low_ns: float
    graph_high_ns: float


class PredictionDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A predicted step. Times in ns; nothing here was measured on the target."""

    schema: str = "launchscope.predict/1"
    launchscope: str
    basis: str = "predicted: the step was counted on the meta device, no kernel ran"
    target: Target
    torch: str
    gpu: Gpu
    operators: list[OperatorRowDoc]
    launching_operators: int  # calls that launch something
    gpu_ops: int
    bytes: int
    flops: int
    gpu_work_ns: RangeDoc
    eager_ns: RangeDoc
    serial_ns: float  # W + n·τ: eager, where the step waits for the GPU
    graph_ns: RangeDoc
    fused: FusedDoc
    limit: str | None  # 'launching' or 'gpu', of the eager step; null where the ranges of n·τ and W overlap


def predict_step(step: CountedStep, gpu: Gpu) -> PredictionDoc:
    """The document of a counted step on a GPU."""
    ops = [_OnGpu(op, gpu) for op in step.ops]
    count = sum(op.gpu_ops for op in ops)
    work = _work(sum(op.work_ns for op in ops), ops, gpu)
    tau = gpu.tau_ns
    eager = _range(lambda w, t: bound_ns(w, count, t), work, tau)
    return PredictionDoc(
        launchscope=__version__,
        target=step.target,
        torch=step.torch,
        gpu=gpu,
        operators=_rows(ops),
        launching_operators=len(ops),
        gpu_ops=count,
        bytes=sum(op.counted.bytes for op in ops),
        flops=sum(op.counted.flops for op in ops),
        gpu_work_ns=work,
        eager_ns=eager,
        serial_ns=serial_ns(work.predicted, count, tau.value),
        graph_ns=RangeDoc(
            predicted=_graph_ns(work.predicted, count, gpu, "value"),
            low=_graph_ns(work.low, count, gpu, "low"),
            high=_graph_ns(work.high, count, gpu, "high"),
        ),
        fused=_fused(ops, work, eager, gpu),
        limit=_limit(work, count, tau),
    )


class _OnGpu:
    """A counted operator on a GPU."""

    def __init__(self, counted: CountedOp, gpu: Gpu) -> None:
        self.counted = counted
        self.gpu_ops = gpu_ops(counted, gpu)
        self.work_ns = work_ns(counted, gpu)
        self.traffic_ns = traffic_ns(counted, gpu)


def _work(work_ns: float, ops: Sequence[_OnGpu], gpu: Gpu) -> RangeDoc:
    """W. The model misses it by so much, and the GPU's rates and kernels may be others than assumed."""
    traffic = sum(op.traffic_ns for op in ops)
    start = work_ns - traffic
    bandwidth, kernel = gpu.bandwidth_bytes_per_s, gpu.kernel_start
    fastest = traffic * bandwidth.value / bandwidth.high + start * kernel.low / kernel.value
    slowest = traffic * bandwidth.value / bandwidth.low + start * kernel.high / kernel.value
    return RangeDoc(predicted=work_ns, low=fastest * WORK_LOW, high=slowest * WORK_HIGH)


def _range(of: Callable[[float, float], float], work: RangeDoc, figure: Figure) -> RangeDoc:
    """A time that grows with W and with a figure."""
    return RangeDoc(
        predicted=of(work.predicted, figure.value), low=of(work.low, figure.low), high=of(work.high, figure.high)
    )


def _graph_ns(work_ns: float, count: float, gpu: Gpu, end: Literal["value", "low", "high"]) -> float:
    """With each cost of a graph at this end of what it may be."""
    costs = Calibration(
        graph_launch_ns=getattr(gpu.graph_launch_ns, end),
        graph_launch_per_node_ns=getattr(gpu.graph_launch_per_node_ns, end),
        replay_gap_ns=getattr(gpu.replay_gap_ns, end),
        node_gap_ns=getattr(gpu.node_gap_ns, end),
    )
    predicted = predict_graph_ns(work_ns, count, costs)
    assert predicted is not None
    return predicted


def _limit(work: RangeDoc, count: float, tau: Figure) -> str | None:
    if count * tau.low > work.high:
        return "launching"
    return "gpu" if count * tau.high < work.low else None


def _rows(ops: Sequence[_OnGpu]) -> list[OperatorRowDoc]:
    """By operator and kind, the longest first."""
    rows: dict[tuple[str, str], list[_OnGpu]] = {}
    for op in ops:
        rows.setdefault((op.counted.operator, op.counted.kind), []).append(op)
    told = [
        OperatorRowDoc(
            operator=operator,
            kind=kind,
            calls=len(those),
            gpu_ops=sum(op.gpu_ops for op in those),
            bytes=sum(op.counted.bytes for op in those),
            flops=sum(op.counted.flops for op in those),
            predicted_ns=sum(op.work_ns for op in those),
        )
        for (operator, kind), those in rows.items()
    ]
    return sorted(told, key=lambda row: -row.predicted_ns)


def _fused(ops: Sequence[_OnGpu], work: RangeDoc, eager: RangeDoc, gpu: Gpu) -> FusedDoc:
    kernels = list(_fully_fused(ops, gpu))
    fewest, most = sum(count for count, _ in kernels), sum(op.gpu_ops for op in ops)
    least = sum(ns for _, ns in kernels) * work.low / work.predicted
    return FusedDoc(
        gpu_ops_low=fewest,
        gpu_ops_high=most,
        gpu_work_low_ns=least,
        gpu_work_high_ns=work.high,
        step_low_ns=bound_ns(least, fewest, gpu.tau_ns.low),
        step_high_ns=eager.high,
        graph_low_ns=_graph_ns(least, fewest, gpu, "low"),
        graph_high_ns=_graph_ns(work.high, most, gpu, "high"),
    )


def _fully_fused(ops: Sequence[_OnGpu], gpu: Gpu) -> Iterator[tuple[int, float]]:
    """GPU ops and their time, each chain in one kernel that moves what its largest operator moves, at the least."""
    for is_chain, those in groupby(ops, key=lambda op: op.counted.kind in FUSIBLE):
        chain = list(those)
        if is_chain:
            kind = REDUCTION if any(op.counted.kind == REDUCTION for op in chain) else ELEMENTWISE
            yield 1, START_NS[kind] * gpu.kernel_start.value + max(op.traffic_ns for op in chain)
        else:
            yield sum(op.gpu_ops for op in chain), sum(op.work_ns for op in chain)
