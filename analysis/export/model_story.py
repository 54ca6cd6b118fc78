"""The textbook model told: a table of predicted step times, and a plot of what each is made of."""

from __future__ import annotations

from collections.abc import Iterator

from ..textbook import ModelDoc, PredictedStepDoc
from ..units import byte_size, duration, number, rate, share, times
from .blocks import Bar, Bars, Block, Fact, Headline, Listing
from .story_outputs import story_outputs
from .tables import Column, Row, Table

_COLUMNS = (
    Column("weights"),
    Column("kernels"),
    Column("τ"),
    Column("bandwidth", optional=True),
    Column("GPU work\nW"),
    Column("launching\nN·τ"),
    Column("serial\nW + N·τ"),
    Column("bound\nmax(W, N·τ)"),
    Column("graph"),
    Column("serial ÷\ngraph"),
    Column("bound ÷\ngraph"),
    Column("launch tax\nof serial"),
)


def _tell(doc: ModelDoc) -> Iterator[Block]:
    yield Headline(_answer(doc.steps))
    yield Listing(Table(_COLUMNS, [_row(each) for each in doc.steps]))
    longest = max(each.serial_ns for each in doc.steps)
    for each in doc.steps:
        bars = [
            Bar("serial", each.serial_ns / longest, f"{duration(each.serial_ns)}, host and GPU wait for each other"),
            Bar("bound", each.bound_ns / longest, f"{duration(each.bound_ns)}, they overlap fully"),
            Bar("graph", each.graph_ns / longest, f"{duration(each.graph_ns)}, one launch"),
        ]
        yield Bars(_name(each), bars)
    nothing = "nothing here was measured" if doc.source is None else f"what was not given is of {doc.source}"
    yield Fact("basis", [doc.basis, f"graph = W + τ + (N − 1)·ν, ν {duration(doc.steps[0].node_gap_ns)} · {nothing}"])
    if doc.measured_ns:
        times_ns = " · ".join(f"{mode} {duration(ns)}" for mode, ns in doc.measured_ns.items())
        yield Fact("measured T", [times_ns])


def _name(step: PredictedStepDoc) -> str:
    """What sets a step apart: the bytes that it reads, or that its W is measured."""
    return "measured W" if step.gpu_work_from == "measured" else byte_size(step.weight_bytes)


def _answer(steps: list[PredictedStepDoc]) -> str:
    """The gain of a graph, and how it moves with the weights."""
    told = "; ".join(
        f"{_name(each)}: a graph is {times(each.speedup_bound)} to {times(each.speedup_serial)} faster"
        for each in steps[:3]
    )
    return f"PREDICTED: {told}"


def _row(step: PredictedStepDoc) -> Row:
    return Row(
        [
            _name(step),
            number(step.kernels),
            duration(step.tau_ns),
            rate(step.bandwidth_bytes_per_s, "B"),
            duration(step.gpu_work_ns),
            duration(step.launch_ns),
            duration(step.serial_ns),
            duration(step.bound_ns),
            duration(step.graph_ns),
            times(step.speedup_serial),
            times(step.speedup_bound),
            share(step.launch_tax_share),
        ]
    )


render_terminal, render_json, render_markdown = story_outputs(_tell)
