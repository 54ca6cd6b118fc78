"""The textbook model told: a table of predicted step times, and a plot of what each is made of."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..model.units import byte_size, duration, number, rate, share, times
from ..render.outputs import outputs_of
from ..story.blocks import Bar, Bars, Block, Fact, Headline, Listing
from ..story.tables import Column, Row, Table
from .textbook import ModelDoc, PredictedStepDoc

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

_TOLD: Final = 3  # steps in the headline


def _tell(doc: ModelDoc, *, verbose: bool) -> Iterator[Block]:
    del verbose  # there is no more to tell
    names = _names(doc.steps)
    yield Headline(_answer(names, doc.steps))
    yield Listing(Table(_COLUMNS, [_row(each) for each in doc.steps]))
    longest = max(each.serial_ns for each in doc.steps)
    for name, each in zip(names, doc.steps, strict=True):
        bars = [
            Bar("serial", each.serial_ns / longest, f"{duration(each.serial_ns)}, host and GPU wait for each other"),
            Bar("bound", each.bound_ns / longest, f"{duration(each.bound_ns)}, they overlap fully"),
            Bar("graph", each.graph_ns / longest, f"{duration(each.graph_ns)}, one launch"),
        ]
        yield Bars(name, bars)
    nothing = "nothing here was measured" if doc.source is None else f"what was not given is of {doc.source}"
    gap = duration(doc.steps[0].node_gap_ns) if doc.steps[0].node_gap_ns else "0, as none is known"
    yield Fact("basis", [doc.basis, f"graph = W + τ + (N − 1)·ν, ν {gap} · {nothing}"])
    if doc.measured_ns:
        times_ns = " · ".join(f"{mode} {duration(ns)}" for mode, ns in doc.measured_ns.items())
        yield Fact("measured T", [times_ns])


def _name(step: PredictedStepDoc) -> str:
    """What sets a step apart: the bytes that it reads, or that its W is measured."""
    return "measured W" if step.gpu_work_from == "measured" else byte_size(step.weight_bytes)


def _names(steps: Sequence[PredictedStepDoc]) -> list[str]:
    """What sets each step apart from the others: its bytes, and what else they differ in."""
    kernels, taus, rates = (
        [f"{number(each.kernels)} kernels" for each in steps],
        [f"τ {duration(each.tau_ns)}" for each in steps],
        [rate(each.bandwidth_bytes_per_s, "B") for each in steps],
    )
    differing = [texts for texts in (kernels, taus, rates) if len(set(texts)) > 1]
    return [", ".join([_name(each), *(texts[row] for texts in differing)]) for row, each in enumerate(steps)]


def _answer(names: Sequence[str], steps: Sequence[PredictedStepDoc]) -> str:
    """How many times as fast a graph is, and how that moves with what the steps differ in."""
    told = [
        f"{name}: a graph is {times(each.speedup_bound)} to {times(each.speedup_serial)} as fast"
        for name, each in zip(names[:_TOLD], steps, strict=False)
    ]
    more = [f"{len(steps) - _TOLD} more below"] if len(steps) > _TOLD else []
    return f"PREDICTED: {'; '.join([*told, *more])}"


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


render_terminal, render_json, render_markdown = outputs_of(_tell)
