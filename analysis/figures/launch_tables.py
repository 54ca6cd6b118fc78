"""Tables of one trace about the host's side: launches, who made them, blocking calls, graph replays."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from ..model.document import Summary, TraceDoc
from ..model.units import MISSING, duration, number, ratio
from ..story.blocks import Listing
from ..story.tables import Column, Row, Table

ROWS: Final = 5  # of a table without --verbose
OPERATORS: Final = 8  # that launch, without --verbose: a decoder layer has about as many
STACK_DEPTH: Final = 3  # innermost frames told; the JSON report has them all


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


def launches(trace: TraceDoc, *, verbose: bool) -> Iterator[Listing]:
    """Time in, until and after the launch call; which API and which operator made the launches."""
    found = trace.launches
    if not found.by_api:
        return
    names = {"overhead_ns": "in the launch call", "latency_ns": "call start → GPU start"}
    names["queue_ns"] = "call end → GPU start"
    rows = [summary_row(text, getattr(found, field), time=True) for field, text in names.items()]
    yield Listing(Table(summary_columns("launches"), rows))
    ranked = sorted(found.by_api.items(), key=lambda item: -item[1])
    told = ranked if verbose else ranked[:ROWS]
    total = sum(found.by_api.values())
    apis = [Row([api, number(count), ratio(count, total)]) for api, count in told]
    columns = [Column("launch API", right=False, least=20, foreign=True), Column("launches"), Column("share")]
    yield Listing(Table(columns, apis, more=len(ranked) - len(told)))
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
    told = ranked if verbose else ranked[:OPERATORS]
    rows = [
        Row([operator or "(none)", number(n), ratio(n, trace.coverage.launches), number(kernels), inside])
        for (operator, inside), (n, kernels) in told
    ]
    columns = [
        Column("launching operator", right=False, least=20, foreign=True),
        Column("launches"),
        Column("share"),
        Column("kernels"),
        Column("inside", right=False, rank=1, least=16, foreign=True),
    ]
    yield Listing(Table(columns, rows, more=len(ranked) - len(told)).without_empty_columns(MISSING))


def stack_line(frames: Sequence[str], operator: str | None) -> str:
    """What encloses an operator, outermost first; the operator itself ends most stacks and is told already."""
    around = frames[:-1] if frames and frames[-1] == operator else frames
    near = around[-STACK_DEPTH:]
    return " › ".join(["…", *near] if len(near) < len(around) else near) or MISSING


def blocking_calls(trace: TraceDoc, *, verbose: bool) -> Iterator[Listing]:
    """The calls that waited for the GPU, the longest first."""
    ranked = sorted(trace.blocking_calls, key=lambda call: -call.ns)
    told = ranked if verbose else ranked[:ROWS]
    rows = [
        Row(
            [
                call.api,
                number(call.count_per_step),
                duration(call.ns),
                call.operator if call.operator else MISSING,
                stack_line(call.stack, call.operator),
            ]
        )
        for call in told
    ]
    if rows:
        columns = [
            Column("blocking calls", right=False, least=22, foreign=True),
            Column("per step"),
            Column("blocked"),
            Column("operator", right=False, least=14, foreign=True),
            Column("inside", right=False, rank=1, least=16, foreign=True),
        ]
        yield Listing(Table(columns, rows, more=len(ranked) - len(told)).without_empty_columns(MISSING))


def replays(trace: TraceDoc, *, verbose: bool) -> Iterator[Listing]:
    """The graphs that were replayed, the most frequent first."""
    ranked = sorted(trace.graphs.replays, key=lambda replay: -replay.count)
    told = ranked if verbose else ranked[:ROWS]
    rows = []
    for replay in told:
        even = replay.ops_min == replay.ops_max
        ops = number(replay.ops_median) if even else f"{number(replay.ops_min)}–{number(replay.ops_max)}"
        overhead = replay.launch_overhead_ns
        rows.append(
            Row([replay.graph, number(replay.count), ops, MISSING if overhead is None else duration(overhead.median)])
        )
    if rows:
        columns = [
            Column("graph replays", right=False, least=16, foreign=True),
            Column("replays"),
            Column("GPU ops each"),
        ]
        yield Listing(Table([*columns, Column("in the launch call")], rows, more=len(ranked) - len(told)))
