"""A table below the timelines, as AG grid takes it, and as a .csv file."""

from __future__ import annotations

import csv as csv_files
import io
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..analysis.model.units import one_line, printable
from ..analysis.story import WRITE, Kind, TypedColumn
from .band import Band
from .plotting import NS_PER_US

Cell = str | int | float | bool | None
Row = dict[str, Cell]


@dataclass(frozen=True)
class TableData:
    """AG grid's ``columnDefs`` and ``rowData``, and what must be known to read them."""

    columns: list[dict[str, Any]]
    rows: list[Row]
    note: str | None = None


def csv(data: TableData) -> str:
    """The table as a .csv file. Text that a spreadsheet would run as a formula is quoted by an apostrophe."""
    out = io.StringIO()
    writer = csv_files.writer(out, lineterminator="\r\n")
    fields = [column["field"] for column in data.columns]
    writer.writerow([_as_text(column["headerName"]) for column in data.columns])
    for row in data.rows:
        writer.writerow([_as_text(value) if isinstance(value, str) else value for value in map(row.get, fields)])
    return out.getvalue()


def _as_text(text: str) -> str:
    """OWASP's remedy against formulas in exported cells (https://owasp.org/www-community/attacks/CSV_Injection)."""
    return f"'{text}" if text.startswith(("=", "+", "-", "@", "\t", "\r")) else text


_WHOLE_TITLE: Final[Mapping[str, Any]] = {"wrapHeaderText": True, "autoHeaderHeight": True}


def text(field: str, title: str, **more: Any) -> dict[str, Any]:
    return {"field": field, "headerName": title, "filter": "agTextColumnFilter", **_WHOLE_TITLE, **more}


def figure(field: str, title: str, decimals: int = 0, **more: Any) -> dict[str, Any]:
    """A column of numbers; ``context.decimals`` is for those who draw it without AG grid."""
    return {
        "field": field,
        "headerName": title,
        "type": "rightAligned",
        "filter": "agNumberColumnFilter",
        "valueFormatter": {"function": f"params.value == null ? '–' : d3.format(',.{decimals}f')(params.value)"},
        "context": {"decimals": decimals},
        "minWidth": 112,
        **_WHOLE_TITLE,
        **more,
    }


_DECIMALS: Final[Mapping[Kind, int]] = {"count": 1, "ns": 2, "share": 2, "bytes": 0}
_UNITS: Final[Mapping[Kind, str]] = {"ns": ", µs", "share": ", %"}


def typed_columns(columns: Sequence[TypedColumn]) -> list[dict[str, Any]]:
    """A typed table's columns, times in µs and shares in per cent."""
    return [_typed_column(column) for column in columns]


def _typed_column(column: TypedColumn) -> dict[str, Any]:
    title = column.one_line + _UNITS.get(column.kind, "")
    if column.kind not in _DECIMALS:
        wide = {"minWidth": 12 * column.least, "flex": 2} if column.least else {"minWidth": 104}
        return text(_field(column), title, **wide, **({"tooltipField": column.whole} if column.whole else {}))
    return figure(_field(column), title, _DECIMALS[column.kind])


def _field(column: TypedColumn) -> str:
    if column.kind != "ns":
        return column.field
    return "us" if column.field == "ns" else column.field.removesuffix("_ns") + "_us"


def typed_row(columns: Sequence[TypedColumn], row: object) -> Row:
    """A row of a typed table, its texts fit to be shown."""
    cells = {_field(column): typed_cell(column.kind, getattr(row, column.field)) for column in columns}
    return cells | {c.whole: printable(getattr(row, c.whole)) for c in columns if c.whole}


def typed_cell(kind: Kind, value: Any) -> Cell:
    """Times in µs, shares in per cent."""
    if value is None:
        return None
    match kind:
        case "ns":
            return in_us(value)
        case "share":
            percent: float = round(value * 100, 3)
            return percent
        case "name" | "range":
            return printable(one_line(WRITE[kind](value)))
        case _:
            number: int | float = value
            return number


Columns = Sequence[tuple[dict[str, Any], Callable[[Any], Cell]]]
"""Columns, each with how its cell comes out of what a row is of."""


def row_of(columns: Columns, subject: object) -> Row:
    """A cell for each column."""
    return {column["field"]: cell(subject) for column, cell in columns}


def filled(columns: Columns, rows: Sequence[Row]) -> list[dict[str, Any]]:
    """The columns that any row has a value for."""
    return [column for column, _ in columns if any(row[column["field"]] is not None for row in rows)]


def us_of(name: str) -> Callable[[Any], Cell]:
    """The cell of a time in ns that is an attribute of a row's subject."""
    return lambda subject: in_us(getattr(subject, name))


SEVERAL_LINES: Final = {"lineHeight": "1.5", "paddingTop": "8px", "paddingBottom": "8px"}

BAND: Final = text("band", "recording", minWidth=124, maxWidth=150)


def in_us(ns: float | None) -> float | None:
    """Nanoseconds as µs, to the nanosecond."""
    return None if ns is None else round(ns / NS_PER_US, 3)


def with_ids(rows: Sequence[Row]) -> list[Row]:
    return [{**row, "id": f"{row['band']}|{'' if row['op'] is None else row['op']}|{n}"} for n, row in enumerate(rows)]


def said(*general: str, of: Sequence[tuple[Band, str]] = ()) -> str | None:
    """What is said of everything, then of bands, those of which the same is said together; null for nothing."""
    labels: dict[str, list[str]] = {}
    for band, what in of:
        labels.setdefault(what, []).append(printable(band.label))
    notes = [*filter(None, general), *(f"{', '.join(names)}: {what}" for what, names in labels.items() if what)]
    return " · ".join(notes) or None
