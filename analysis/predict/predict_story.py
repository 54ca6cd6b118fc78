"""A prediction without a GPU told: step times with their ranges, the operators behind them, what it rests on."""

from __future__ import annotations

from collections.abc import Iterator

from ..model.units import byte_size, duration, duration_interval, number, plural, rate, share
from ..render.outputs import outputs_of
from ..story.blocks import Block, Fact, Heading, Headline, Listing
from ..story.tables import Column, Row, Table
from .gpus import Figure, Gpu
from .predict import OperatorRowDoc, PredictionDoc, RangeDoc

_MOST_OPERATORS = 12

_MODES = (
    Column("predicted", right=False),
    Column("step (range)"),
    Column("GPU ops"),
    Column("GPU work (range)"),
    Column("what it assumes", right=False, least=24, wraps=True),
)
_OPERATORS = (
    Column("operator", right=False, least=20, foreign=True),
    Column("calls"),
    Column("GPU ops"),
    Column("bytes"),
    Column("FLOPs"),
    Column("predicted\ntime"),
    Column("of W"),
)


def _tell(doc: PredictionDoc, *, verbose: bool) -> Iterator[Block]:
    del verbose  # there is no more to tell
    target = doc.target
    said = [
        None if target.batch_size is None else f"batch {target.batch_size}",
        target.dtype,
        None if target.context_length is None else f"context {number(target.context_length)}",
        *(f"{key}={value}" for key, value in target.settings.items()),
    ]
    name = " · ".join([target.name, *filter(None, said)])
    yield Heading(name, f"predicted for one {doc.gpu.name} · torch {doc.torch}")
    yield Headline(_answer(doc))
    yield Listing(Table(_MODES, list(_modes(doc))))
    rows = doc.operators[:_MOST_OPERATORS]
    table = Table(_OPERATORS, [_row(row, doc) for row in rows], more=len(doc.operators) - len(rows))
    yield Listing(table)
    counted = f"{plural(doc.launching_operators, 'operator')} that launch, {plural(doc.gpu_ops, 'GPU op')}"
    moved = f"{byte_size(doc.bytes)} read and written, {_flops(doc.flops)}"
    yield Fact("counted", [f"{counted} · {moved}", "on the meta device: no kernel ran, and no GPU was used"])
    if target.labels:
        yield Fact("target", target.labels, concern=True)
    yield Fact("rests on", list(_grounds(doc.gpu)))


def _answer(doc: PredictionDoc) -> str:
    limit = {
        "launching": "PREDICTED: launching is the limit in eager mode",
        "gpu": "PREDICTED: the GPU is the limit in eager mode",
        None: "PREDICTED: launching or the GPU may be the limit in eager mode",
    }[doc.limit]
    graph = f"as one CUDA graph {_told(doc.graph_ns)}"
    return f"{limit}: {_told(doc.eager_ns)} a step for {_told(doc.gpu_work_ns)} of GPU work; {graph}"


def _modes(doc: PredictionDoc) -> Iterator[Row]:
    tau, gap, fused = doc.gpu.tau_ns, doc.gpu.node_gap_ns, doc.fused
    work, ops = _told(doc.gpu_work_ns), number(doc.gpu_ops)
    yield Row(["eager", _told(doc.eager_ns), ops, work, f"max(W, n·τ), τ = {_figure(tau)}"])
    yield Row(["graph", _told(doc.graph_ns), ops, work, f"W + (n − 1)·ν, ν = {_figure(gap)}"])
    few, most = number(fused.gpu_ops_low), number(fused.gpu_ops_high)
    fused_work = _between(fused.gpu_work_low_ns, fused.gpu_work_high_ns)
    chains = "from every chain of element-wise and reducing operators in one kernel, to no fusion"
    yield Row(["fused", _between(fused.step_low_ns, fused.step_high_ns), f"{few} to {most}", fused_work, chains])
    graph = _between(fused.graph_low_ns, fused.graph_high_ns)
    yield Row(["fused_graph", graph, f"{few} to {most}", fused_work, "the same as one graph"])


def _row(row: OperatorRowDoc, doc: PredictionDoc) -> Row:
    return Row(
        [
            row.operator,
            number(row.calls),
            number(row.gpu_ops),
            byte_size(row.bytes),
            _flops(row.flops) if row.flops else "0",
            duration(row.predicted_ns),
            share(row.predicted_ns / doc.gpu_work_ns.predicted if doc.gpu_work_ns.predicted else None),
        ]
    )


def _grounds(gpu: Gpu) -> Iterator[str]:
    dtype, peak = next(iter(gpu.flops_per_s.items()))
    bandwidth = gpu.bandwidth_bytes_per_s
    yield f"bandwidth {rate(bandwidth.value, 'B')}: {bandwidth.source}"
    yield f"{dtype} {rate(peak.value, 'FLOP')}: {peak.source}"
    yield f"τ {_figure(gpu.tau_ns)}: {gpu.tau_ns.source}; a slower host, longer steps"
    yield f"ν {_figure(gpu.node_gap_ns)}: {gpu.node_gap_ns.source}"
    yield f"kernels beside their traffic: {gpu.kernel_start.source}"
    yield "range of W: as far as samples were off on an H200, wider where the GPU's figures are assumed"


def _told(time: RangeDoc) -> str:
    return duration_interval(time.predicted, time.low, time.high)


def _between(low: float, high: float) -> str:
    return f"{duration(low)} to {duration(high)}"


def _figure(figure: Figure) -> str:
    return duration_interval(figure.value, figure.low, figure.high)


def _flops(count: float) -> str:
    return rate(count, "FLOP").removesuffix("/s")


render_terminal, render_json, render_markdown = outputs_of(_tell)
