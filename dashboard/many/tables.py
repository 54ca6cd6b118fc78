"""The table of all ranks, as AG grid takes it and as a .csv file, each with a link to its rank's page."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from ...analysis.many.document import RankRow, RanksDocument
from ...analysis.many.many_story import by_row
from ...analysis.many.outliers import OF_REGISTRY, RANK_FIGURES, RankFigure
from ...analysis.model.units import one_line, printable
from ...analysis.story.typed import TypedColumn
from ..grid_table import Row, TableData, figure, in_us, text, typed_cell, typed_columns, typed_row
from .view import path_of

_FIGURES: Final = [
    RANK_FIGURES[name]
    for name in (
        "launch_tax_ns",
        "gpu_work_without_waiting_ns",
        "communication_exposed_ns",
        "communication_hidden_ns",
        "communication_transfer_ns",
        "communication_waiting_ns",
        "idle_fraction",
        "launch_tax_share",
        "arrives_last_share",
        "launches",
        "kernels",
        "collectives",
        "steps",
    )
]
_OF_REGISTRY: Final = [TypedColumn(figure.name, figure.words, figure.kind) for figure in OF_REGISTRY]

_LINK: Final[dict[str, Any]] = {"sortable": False, "filter": False, "cellRenderer": "markdown", "linkTarget": "_self"}


def table(doc: RanksDocument, *, links: bool) -> TableData:
    """A row per file; columns that no row has a value for are left out. ``links``: with one to each rank's page."""
    odd = by_row(doc)
    rows = [_row(place, row, odd, links=links) for place, row in enumerate(doc.rows)]
    columns = [
        figure("rank", "rank", maxWidth=100),
        text("open", "timeline", minWidth=120, maxWidth=130, **_LINK),
        text("odd", "stands out", minWidth=220, flex=2, tooltipField="odd"),
        text("verdict", "verdict", minWidth=130),
        figure("period_us", "step, median µs", 1),
        figure("period_p90_us", "step, p90 µs", 1),
        figure("busy_us", "GPU work W, median µs", 1),
        *map(_column, _FIGURES),
        *typed_columns(_OF_REGISTRY),
        text("host", "host", minWidth=120),
        text("error", "why nothing is known", minWidth=260, flex=2, tooltipField="error"),
        text("file", "file", minWidth=200, flex=2, tooltipField="path"),
    ]
    there = [column for column in columns if any(row.get(column["field"]) is not None for row in rows)]
    return TableData(there, rows)


def _row(place: int, row: RankRow, odd: dict[int, list[Any]], *, links: bool) -> Row:
    period, busy = row.period_ns, row.busy_ns
    found: Row = {
        "id": str(place),
        "rank": row.rank,
        "open": f"[open]({path_of(place)[1:]})" if links and row.error is None else None,
        "odd": "; ".join(one_line(each.message) for each in odd[place]) if place in odd else None,
        "verdict": row.verdict_class,
        "period_us": None if period is None else in_us(period.median),
        "period_p90_us": None if period is None else in_us(period.p90),
        "busy_us": None if busy is None else in_us(busy.median),
        "host": None if row.host is None else printable(row.host),
        "error": None if row.error is None else one_line(row.error),
        "file": printable(one_line(row.name)),
        "path": printable(one_line(row.path)),
    }
    found |= typed_row(_OF_REGISTRY, SimpleNamespace(**{c.field: row.figures.get(c.field) for c in _OF_REGISTRY}))
    return found | {each.name: typed_cell(each.kind, getattr(row, each.name)) for each in _FIGURES}


def _column(its: RankFigure) -> dict[str, Any]:
    match its.kind:
        case "ns":
            return figure(its.name, f"{its.words}, µs", 1, minWidth=136)
        case "share":
            return figure(its.name, f"{its.words}, %", 2)
        case _:
            return figure(its.name, its.words, 0)
