"""Launches: the time in, until and after the call, which API made them, and for which operator."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ..facts.context import Context
from ..model.document import LaunchesDoc, Summary, TraceDoc
from ..model.units import MISSING, number, ratio
from ..story import Column, Listing, Row, Table
from .figure import Figure, known
from .steps import summary_columns, summary_row

ROWS: Final = 5  # of a table without --verbose
OPERATORS: Final = 8  # that launch, without --verbose: a decoder layer has about as many
STACK_DEPTH: Final = 3  # innermost frames told; the JSON report has them all


def _compute(context: Context) -> LaunchesDoc:
    found = context.launches
    times = {name: _known(getattr(found, name)) for name in ("overhead_ns", "latency_ns", "queue_ns")}
    return msgspec.structs.replace(found, **times)


def _known(summary: Summary) -> Summary:
    no_launches = "no launches in the file"
    return msgspec.structs.replace(
        summary,
        median=known(summary.median, no_launches),
        p10=known(summary.p10, no_launches),
        p90=known(summary.p90, no_launches),
    )


def _tables(trace: TraceDoc, verbose: bool) -> Iterator[Listing]:
    """Time in, until and after the launch call; which API and which operator made the launches."""
    found = trace.launches
    if not found.by_api:
        return
    names = {"overhead_ns": "in the launch call", "latency_ns": "call start → GPU start"}
    names["queue_ns"] = "call end → GPU start"
    rows = [summary_row(text, getattr(found, field), time=True) for field, text in names.items()]
    yield Listing(Table(summary_columns("launches"), rows))
    ranked = sorted(found.by_api.items(), key=lambda item: -item[1])
    shown = ranked if verbose else ranked[:ROWS]
    total = sum(found.by_api.values())
    apis = [Row([api, number(count), ratio(count, total)]) for api, count in shown]
    columns = [Column("launch API", right=False, least=20, foreign=True), Column("launches"), Column("share")]
    yield Listing(Table(columns, apis, more=len(ranked) - len(shown)))
    yield from _launching_operators(trace, verbose=verbose)


def _launching_operators(trace: TraceDoc, *, verbose: bool) -> Iterator[Listing]:
    """Launches by operator; with ``verbose`` by what encloses the operator too."""
    made: dict[tuple[str | None, str], list[int]] = {}
    for row in trace.launches.by_operator:
        inside = stack_line(row.stack, row.operator) if verbose else MISSING
        counts = made.setdefault((row.operator, inside), [0, 0])
        counts[0] += row.launches
        counts[1] += row.kernels
    if all(operator is None for operator, _ in made):
        return
    ranked = sorted(made.items(), key=lambda item: -item[1][0])
    shown = ranked if verbose else ranked[:OPERATORS]
    rows = [
        Row([operator or "(none)", number(n), ratio(n, trace.coverage.launches), number(kernels), inside])
        for (operator, inside), (n, kernels) in shown
    ]
    columns = [
        Column("launching operator", right=False, least=20, foreign=True),
        Column("launches"),
        Column("share"),
        Column("kernels"),
        Column("inside", right=False, rank=1, least=16, foreign=True),
    ]
    yield Listing(Table(columns, rows, more=len(ranked) - len(shown)).without_empty_columns(MISSING))


def stack_line(frames: Sequence[str], operator: str | None) -> str:
    """What encloses an operator, outermost first; the operator itself ends most stacks and is told already."""
    around = frames[:-1] if frames and frames[-1] == operator else frames
    near = around[-STACK_DEPTH:]
    return " › ".join(["…", *near] if len(near) < len(around) else near) or MISSING


LAUNCHES: Final = Figure(
    "launches", "launch calls: their time, their API, their operator", LaunchesDoc, _compute, tables=_tables
)
