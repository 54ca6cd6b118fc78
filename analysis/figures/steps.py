"""A step: its period, its GPU work and its counts."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ..facts.context import Context
from ..faults.checks import voided
from ..model.document import StepsDoc, Summary, TraceDoc
from ..model.trace import Void
from ..model.units import MISSING, duration, number, plural
from ..story import Column, Listing, Row, Table
from .figure import Figure, Withheld, known


def no_steps(context: Context) -> str | None:
    """Why the trace has no kept step; null where it has one."""
    if context.steps.found > context.steps.dropped:
        return None
    return f"all {context.steps.found:,} steps found were dropped" if context.steps.found else "no steps found"


def _compute(context: Context) -> StepsDoc | Withheld:
    found = context.step_figures
    if found is None:
        return Withheld(no_steps(context) or "no steps found")
    void = voided(context, Void.WORK)
    return msgspec.structs.replace(
        found,
        period_ns=known(found.period_ns, "no kept step is followed by another"),
        busy_ns=known(None if void else found.busy_ns, void),
    )


def summary_columns(title: str) -> list[Column]:
    """The columns of a table of distributions."""
    return [Column(title, right=False), Column("median"), Column("p10"), Column("p90"), Column("total"), Column("of")]


def summary_row(name: str, summary: Summary | None, *, time: bool = False) -> Row:
    """One distribution, of times or of counts."""
    if summary is None:
        return Row([name, *[MISSING] * 5])
    write = duration if time else number
    figures = [write(value) for value in (summary.median, summary.p10, summary.p90, summary.total)]
    return Row([name, *figures, number(summary.count)])


def _tables(trace: TraceDoc, verbose: bool) -> Iterator[Listing]:
    del verbose
    steps = trace.steps
    if steps is None:
        return
    counts = ("kernels", "launches", "graph_launches", "blocking_calls", "memcpys")
    rows = [summary_row("step time (first op to first op)", steps.period_ns, time=True)]
    rows.append(summary_row("GPU work", steps.busy_ns, time=True))
    words = {name: name.replace("_", " ").replace("memcpys", "copies") for name in counts}
    summaries = {words[name]: getattr(steps, name) for name in counts}
    rows += [summary_row(name, summary) for name, summary in summaries.items() if summary.total]
    yield Listing(Table(summary_columns(f"per step, {plural(steps.count, 'step')}"), rows))


STEPS: Final = Figure("steps", "time, GPU work and counts of a step", StepsDoc, _compute, tables=_tables)
