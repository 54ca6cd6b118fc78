"""One trace, told: the verdict first, then what it rests on. Everything is as profiled."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, Final, Protocol

from ..model import units
from ..model.document import DeviceDoc, SteadyDoc, TraceDoc
from ..model.units import MISSING, duration, number, share
from ..story import Block, Column, Heading, Listing, Row, Table
from . import verdict_blocks
from .coverage import steps_fact
from .figure import Figure
from .registry import FIGURES

ROWS: Final = 8  # of a table without --verbose


def trace_story(trace: TraceDoc, *, verbose: bool, divides: bool = False) -> list[Block]:
    """Everything there is to say about one trace: the verdict, what each figure says, then their tables."""
    step_ns = None if trace.bound is None else trace.bound.step_ns
    facts = (block for figure in FIGURES if figure.facts for block in figure.facts(trace, verbose))
    tables = (block for figure in FIGURES for block in figure_tables(figure, trace, verbose))
    return [
        _heading(trace, divides),
        verdict_blocks.headline(trace.verdict),
        steps_fact(trace.coverage),
        *verdict_blocks.actions(trace.verdict.actions, step_ns),
        *verdict_blocks.warnings(trace.warnings, verbose=verbose),
        *verdict_blocks.withheld(_withheld(trace), verbose=verbose),
        *facts,
        *tables,
    ]


def figure_tables(figure: Figure[Any], trace: TraceDoc, verbose: bool) -> Iterable[Block]:
    """The blocks of a figure among the tables: as it says, else its typed table."""
    if figure.tables is not None:
        return figure.tables(trace, verbose)
    table = figure.typed_table(trace)
    return () if table is None or figure.facts is not None else table.listing(None if verbose else ROWS)


def _withheld(trace: TraceDoc) -> dict[str, str]:
    """What is withheld, but for what the figures say themselves."""
    elsewhere = tuple(f"{figure.path}." for figure in FIGURES if figure.tells_reasons)
    return {path: reason for path, reason in trace.withheld.items() if not path.startswith(elsewhere)}


def traces_overview(traces: Sequence[TraceDoc], notes: Sequence[str] = ()) -> Listing:
    """Several traces side by side."""
    rows = []
    for trace in traces:
        device = next((d for d in trace.devices if d.device == trace.headline_device), None)
        scope: DeviceDoc | SteadyDoc | None = device if device is None or device.steady is None else device.steady
        steps = trace.steps
        period = None if steps is None or steps.period_ns is None else steps.period_ns.median
        rows.append(
            Row(
                [
                    label(trace),
                    trace.verdict.verdict_class,
                    duration(period),
                    MISSING if steps is None or steps.busy_ns is None else duration(steps.busy_ns.median),
                    MISSING if scope is None else share(scope.idle_fraction),
                    MISSING if steps is None else number(steps.launches.median),
                    MISSING if steps is None else number(steps.kernels.median),
                    MISSING if steps is None else number(steps.count),
                    number(trace.coverage.gpu_ops),
                    str(len(trace.warnings)),
                ]
            )
        )
    columns = [
        Column("trace", right=False, least=36, foreign=True),
        Column("verdict", right=False),
        Column("step"),
        Column("GPU work"),
        Column("idle"),
        Column("launches\nper step", rank=1),
        Column("kernels\nper step", optional=True),
        Column("steps", optional=True),
        Column("GPU ops", optional=True),
        Column("warnings"),
    ]
    return Listing(Table(columns, rows), notes)


def label(trace: Recording) -> str:
    """A trace's name with what tells it from its siblings."""
    words = [trace.name, trace.mode, trace.trace_pass and f"{trace.trace_pass} pass"]
    words.append(None if trace.repeat is None else f"repeat {trace.repeat}")
    words.append(None if trace.rank is None else f"rank {trace.rank}")
    return " · ".join(part for part in words if part)


class Recording(Protocol):
    """What a trace is called by; null where a bare trace has none."""

    @property
    def name(self) -> str: ...
    @property
    def mode(self) -> str | None: ...
    @property
    def trace_pass(self) -> str | None: ...
    @property
    def repeat(self) -> int | None: ...
    @property
    def rank(self) -> int | None: ...


def _heading(trace: TraceDoc, divides: bool) -> Heading:
    named = sorted({device.name for device in trace.devices if device.name})
    right = [*named, trace.source.format, units.byte_size(trace.source.bytes)]
    return Heading(label(trace), " · ".join(right), divides)
