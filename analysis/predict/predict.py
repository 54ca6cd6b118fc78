"""A step predicted from what its operators would launch, read and compute: nothing of it was run.

    W      Σ over operators of start + max(bytes ÷ bandwidth, FLOPs ÷ peak)
    eager  max(W, n·τ)                                                            n = GPU ops; each has its launch
    graph  max(W + (n − 1)·ν + replay gap, launch cost)                           step_model.py
    fused  between no fusion and every chain of element-wise and reducing operators in one kernel

``start`` is what a kernel of a kind took beyond its traffic in the eager step of the sample llama_1b on an H200 (driver
580.159.04, CUDA 13.0, torch 2.11, 2026-11-29), the mean over all of its kernels; those that move much have another one.
Other samples check it.

Every time comes with a range: of W as far as the samples were off (docs/validation.md), of the rest as ``gpus.py``
says.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, Literal

import msgspec

from ..model import __version__
from ..model.capture import Calibration, Target
from ..model.counted_step import ATTENTION, COPY, ELEMENTWISE, FUSIBLE, MATRIX, OTHER, REDUCTION, CountedOp, CountedStep
from ..model.units import byte_size, duration, duration_interval, number, plural, rate, share
from ..render import outputs_of
from ..step_model import bound_ns, least_ns, predict_graph_ns, serial_ns
from ..story import Block, Cells, Column, Fact, Heading, Headline, Listing, Row, Table
from .gpus import Figure, Gpu

START_NS: Final = {
    MATRIX: 3650.0,
    ATTENTION: 6900.0,
    REDUCTION: 2080.0,
    ELEMENTWISE: 1390.0,
    COPY: 1600.0,
    OTHER: 1390.0,  # nothing is known of it
}
LARGE: Final = 64 * 1024
LARGE_START_NS: Final = START_NS | {REDUCTION: 5500.0, ELEMENTWISE: 1830.0}
"""Of operators that move so many bytes and more: means of the same sample at batch 16, where norms take other kernels
than at batch 1, and stay as they are up to batch 256."""
SECOND_NS: Final = 1650.0
"""Of the second kernel of a matrix product that is split."""

BANDWIDTH_SHARE: Final = {"aten::_weight_int4pack_mm": 0.5}
"""Of the bandwidth, what kernels reach that don't come near it: torch's 4-bit product took 2.1 × its traffic beyond its
start in the shapes of a 7B, 1.0 × in those of a 1B (the same H200, 2026-11-30)."""

ATTENTION_SHARE: Final = 1 / 3
"""Of the matrix rate, what attention with a mask reached in prefills of 1,024 and 2,048 tokens (there, too)."""

_TILE: Final = 64
_FEW_TILES: Final = 0.45
SHORTEST_SPLIT: Final = 3072


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


End = Literal["value", "low", "high"]


def predict_step(step: CountedStep, gpu: Gpu) -> PredictionDoc:
    """The document of a counted step on a GPU."""
    ops = [_OnGpu.of(op, gpu) for op in step.ops]
    count = sum(op.gpu_ops for op in ops)
    work = _work(ops, gpu)
    tau = gpu.tau_ns
    eager = _range(work, lambda work_ns, end: bound_ns(work_ns, count, getattr(tau, end)))
    limit = "gpu" if count * tau.high < work.low else None
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
        graph_ns=_range(work, lambda work_ns, end: _graph_ns(work_ns, count, gpu, end)),
        fused=_fused(ops, work, eager, gpu),
        limit="launching" if count * tau.low > work.high else limit,
    )


@dataclass(frozen=True)
class _OnGpu:
    """A counted operator on a GPU."""

    counted: CountedOp
    gpu_ops: int  # kernels and copies that it enqueues
    traffic_ns: float  # the least time that its bytes and FLOPs take; a dtype without a peak computes at bf16's
    work_ns: float

    @classmethod
    def of(cls, op: CountedOp, gpu: Gpu) -> _OnGpu:
        peak = gpu.flops_per_s.get(op.dtype or "", gpu.flops_per_s["bf16"])
        reads = least_ns(op.bytes, gpu.bandwidth_bytes_per_s.value * BANDWIDTH_SHARE.get(op.operator, 1.0))
        traffic = max(reads, least_ns(op.flops, peak.value * (ATTENTION_SHARE if op.kind == ATTENTION else 1.0)))
        start = op.launches * (LARGE_START_NS if op.bytes >= LARGE else START_NS)[op.kind]
        start += is_split(op, gpu) * SECOND_NS
        return cls(op, gpu_ops(op, gpu), traffic, start * gpu.kernel_start.value + traffic)


def is_split(op: CountedOp, gpu: Gpu) -> bool:
    """Whether cuBLAS splits the product along its inner size and adds the parts up in a second kernel.

    It did so on an H200 where the result had few tiles of 64 × 64 (56 for 132 multiprocessors, not 64) and the inner
    size was 3,072 or more (not 2,048): in 20 steps of samples, batches and prompts of 1 to 2,048.
    """
    if op.product is None:
        return False
    rows, columns, inner = op.product
    tiles = -(-rows // _TILE) * -(-columns // _TILE)
    return inner >= SHORTEST_SPLIT and tiles <= gpu.multiprocessors * _FEW_TILES


def gpu_ops(op: CountedOp, gpu: Gpu) -> int:
    """Kernels and copies that the operator enqueues."""
    return op.launches + is_split(op, gpu)


def _work(ops: Sequence[_OnGpu], gpu: Gpu) -> RangeDoc:
    """W. The model misses it by so much, and the GPU's rates and kernels may be others than assumed."""
    work, traffic = sum(op.work_ns for op in ops), sum(op.traffic_ns for op in ops)
    start = work - traffic
    bandwidth, kernel = gpu.bandwidth_bytes_per_s, gpu.kernel_start
    fastest = traffic * bandwidth.value / bandwidth.high + start * kernel.low / kernel.value
    slowest = traffic * bandwidth.value / bandwidth.low + start * kernel.high / kernel.value
    return RangeDoc(predicted=work, low=fastest * WORK_LOW, high=slowest * WORK_HIGH)


def _range(work: RangeDoc, ns_of: Callable[[float, End], float]) -> RangeDoc:
    """A time that follows from W, at each end of it and of the GPU's figures."""
    return RangeDoc(predicted=ns_of(work.predicted, "value"), low=ns_of(work.low, "low"), high=ns_of(work.high, "high"))


def _graph_ns(work_ns: float, count: float, gpu: Gpu, end: End) -> float:
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


def _rows(ops: Sequence[_OnGpu]) -> list[OperatorRowDoc]:
    """By operator and kind, the longest first."""
    rows: dict[tuple[str, str], list[_OnGpu]] = {}
    for op in ops:
        rows.setdefault((op.counted.operator, op.counted.kind), []).append(op)
    docs = [
        OperatorRowDoc(
            operator=operator,
            kind=kind,
            calls=len(group),
            gpu_ops=sum(op.gpu_ops for op in group),
            bytes=sum(op.counted.bytes for op in group),
            flops=sum(op.counted.flops for op in group),
            predicted_ns=sum(op.work_ns for op in group),
        )
        for (operator, kind), group in rows.items()
    ]
    return sorted(docs, key=lambda row: -row.predicted_ns)


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
    for is_chain, group in groupby(ops, key=lambda op: op.counted.kind in FUSIBLE):
        chain = list(group)
        if is_chain:
            kind = REDUCTION if any(op.counted.kind == REDUCTION for op in chain) else ELEMENTWISE
            yield 1, START_NS[kind] * gpu.kernel_start.value + max(op.traffic_ns for op in chain)
        else:
            yield sum(op.gpu_ops for op in chain), sum(op.work_ns for op in chain)


_MOST_OPERATORS: Final = 12

_MODES: Final = (
    Column("predicted", right=False),
    Column("step (range)"),
    Column("GPU ops"),
    Column("GPU work (range)"),
    Column("what it assumes", right=False, least=24, wraps=True),
)
_LIMITS: Final = {
    "launching": "PREDICTED: launching is the limit in eager mode",
    "gpu": "PREDICTED: the GPU is the limit in eager mode",
    None: "PREDICTED: launching or the GPU may be the limit in eager mode",
}


def _tell(doc: PredictionDoc, *, verbose: bool) -> Iterator[Block]:
    del verbose  # there is no more to tell
    target, work = doc.target, doc.gpu_work_ns
    settings = [
        None if target.batch_size is None else f"batch {target.batch_size}",
        target.dtype,
        None if target.context_length is None else f"context {number(target.context_length)}",
        *(f"{key}={value}" for key, value in target.settings.items()),
    ]
    name = " · ".join([target.name, *filter(None, settings)])
    yield Heading(name, f"predicted for one {doc.gpu.name} · torch {doc.torch}")
    answer = f"{_interval(doc.eager_ns)} a step for {_interval(work)} of GPU work"
    yield Headline(f"{_LIMITS[doc.limit]}: {answer}; as one CUDA graph {_interval(doc.graph_ns)}")
    yield Listing(Table(_MODES, [Row(cells) for cells in _modes(doc)]))
    columns: Cells = (
        (Column("operator", right=False, least=20, foreign=True), lambda row: row.operator),
        (Column("calls"), lambda row: number(row.calls)),
        (Column("GPU ops"), lambda row: number(row.gpu_ops)),
        (Column("bytes"), lambda row: byte_size(row.bytes)),
        (Column("FLOPs"), lambda row: _flops(row.flops) if row.flops else "0"),
        (Column("predicted\ntime"), lambda row: duration(row.predicted_ns)),
        (Column("of W"), lambda row: share(row.predicted_ns / work.predicted if work.predicted else None)),
    )
    rows = doc.operators[:_MOST_OPERATORS]
    yield Listing(Table.of(columns, rows, more=len(doc.operators) - len(rows)))
    counted = f"{plural(doc.launching_operators, 'operator')} that launch, {plural(doc.gpu_ops, 'GPU op')}"
    moved = f"{byte_size(doc.bytes)} read and written, {_flops(doc.flops)}"
    yield Fact("counted", [f"{counted} · {moved}", "on the meta device: no kernel ran, and no GPU was used"])
    if target.labels:
        yield Fact("target", target.labels, concern=True)
    yield Fact("rests on", list(_grounds(doc.gpu)))


def _modes(doc: PredictionDoc) -> Iterator[list[str]]:
    gpu, fused, work, ops = doc.gpu, doc.fused, _interval(doc.gpu_work_ns), number(doc.gpu_ops)
    yield ["eager", _interval(doc.eager_ns), ops, work, f"max(W, n·τ), τ = {_figure(gpu.tau_ns)}"]
    yield ["graph", _interval(doc.graph_ns), ops, work, f"W + (n − 1)·ν, ν = {_figure(gpu.node_gap_ns)}"]
    ops = f"{number(fused.gpu_ops_low)} to {number(fused.gpu_ops_high)}"
    work = _between(fused.gpu_work_low_ns, fused.gpu_work_high_ns)
    chains = "from every chain of element-wise and reducing operators in one kernel, to no fusion"
    yield ["fused", _between(fused.step_low_ns, fused.step_high_ns), ops, work, chains]
    yield ["fused_graph", _between(fused.graph_low_ns, fused.graph_high_ns), ops, work, "the same as one graph"]


def _grounds(gpu: Gpu) -> Iterator[str]:
    dtype, peak = next(iter(gpu.flops_per_s.items()))
    bandwidth = gpu.bandwidth_bytes_per_s
    yield f"bandwidth {rate(bandwidth.value, 'B')}: {bandwidth.source}"
    yield f"{dtype} {rate(peak.value, 'FLOP')}: {peak.source}"
    yield f"τ {_figure(gpu.tau_ns)}: {gpu.tau_ns.source}; a slower host, longer steps"
    yield f"ν {_figure(gpu.node_gap_ns)}: {gpu.node_gap_ns.source}"
    yield f"kernels beside their traffic: {gpu.kernel_start.source}"
    yield "range of W: as far as samples were off on an H200, wider where the GPU's figures are assumed"


def _interval(time: RangeDoc) -> str:
    return duration_interval(time.predicted, time.low, time.high)


def _between(low: float, high: float) -> str:
    return f"{duration(low)} to {duration(high)}"


def _figure(figure: Figure) -> str:
    return duration_interval(figure.value, figure.low, figure.high)


def _flops(count: float) -> str:
    return rate(count, "FLOP").removesuffix("/s")


render_terminal, render_json, render_markdown = outputs_of(_tell)
