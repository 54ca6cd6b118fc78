"""A prediction without a GPU told: step times with their ranges, the operators behind them, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..model.units import byte_size, duration, duration_interval, number, plural, rate, share
from ..render import outputs_of
from ..story import Block, Cells, Column, Fact, Heading, Headline, Listing, Row, Table
from .gpus import Figure, Gpu
from .predict import PredictionDoc, RangeDoc

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
