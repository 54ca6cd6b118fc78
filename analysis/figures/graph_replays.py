"""Graph coverage and the graphs that were replayed."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import msgspec

from ..facts.context import Context
from ..model.document import GraphsDoc, ReplayDoc, TraceDoc
from ..model.units import number, share
from ..story import Fact, Listing, TypedColumn, TypedTable
from .figure import Figure, known

ROWS: Final = 5  # without --verbose


def graphs_doc(context: Context) -> GraphsDoc:
    """Coverage by count and by time, and one row per graph."""
    found = context.replays.to_doc(context.trace)
    if context.trace.whole_replays.any():
        whole = "graph replays were recorded as a whole"
        return msgspec.structs.replace(
            found, coverage_by_count=known(None, whole), coverage_by_time=known(None, whole), replays=[]
        )
    no_kernel = "no kernel has its launch in the file"
    no_time = "no kernel time has its launch in the file" if found.kernels_with_launch else no_kernel
    return msgspec.structs.replace(
        found,
        coverage_by_count=known(found.coverage_by_count, no_kernel),
        coverage_by_time=known(found.coverage_by_time, no_time),
    )


def _facts(trace: TraceDoc, verbose: bool) -> Iterator[Fact]:
    del verbose
    graphs = trace.graphs
    if graphs.coverage_by_count is not None:
        kernels = f"{number(graphs.kernels_in_graphs)} of {number(graphs.kernels_with_launch)} kernels with a launch"
        by_time = f"{share(graphs.coverage_by_time)} by time"
        yield Fact("in graphs", [f"{kernels} ({share(graphs.coverage_by_count)}, {by_time})"])


class _Row(msgspec.Struct, frozen=True):
    graph: str
    replays: int
    ops: tuple[float, float]
    overhead_ns: float | None


def _table(graphs: GraphsDoc) -> TypedTable:
    """The most frequent first."""
    ranked = sorted(graphs.replays, key=lambda replay: -replay.count)
    columns = [
        TypedColumn("graph", "graph replays", "name", least=16, foreign=True),
        TypedColumn("replays", "replays"),
        TypedColumn("ops", "GPU ops each", "range"),
        TypedColumn("overhead_ns", "in the launch call", "ns"),
    ]
    return TypedTable(columns, [_row(each) for each in ranked])


def _row(replay: ReplayDoc) -> _Row:
    overhead = replay.launch_overhead_ns
    ops = (
        (replay.ops_median, replay.ops_median) if replay.ops_min == replay.ops_max else (replay.ops_min, replay.ops_max)
    )
    return _Row(replay.graph, replay.count, ops, None if overhead is None else overhead.median)


def _tables(trace: TraceDoc, verbose: bool) -> list[Listing]:
    return _table(trace.graphs).listing(None if verbose else ROWS)


GRAPHS: Final = Figure(
    "graphs", "share of kernels that run in graph replays", GraphsDoc, graphs_doc, _facts, _tables, _table
)
