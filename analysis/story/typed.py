"""Typed tables: a cell is a name, a count, ns, bytes or a share, and every output writes it in its own way."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ..model import units
from ..model.units import MISSING
from .blocks import Listing
from .tables import Column, Row, Table

Kind = Literal["name", "count", "range", "ns", "bytes", "share"]

WRITE: Final[Mapping[Kind, Callable[[Any], str]]] = {
    "name": lambda name: MISSING if name is None else str(name),
    "count": units.number,
    "range": lambda ends: "–".join(dict.fromkeys(map(units.number, ends))),
    "ns": units.duration,
    "bytes": units.byte_size,
    "share": units.share,
}
"""A value as people read it; null is a dash."""


@dataclass(frozen=True)
class TypedColumn:
    """``field`` is where a row has it; ``rank``, ``optional`` and ``least`` say what gives way on a narrow page."""

    field: str
    title: str  # a line break splits it over two lines where lines are short
    kind: Kind = "count"
    rank: int = 0
    optional: bool = False
    least: int | None = None
    foreign: bool = False  # names from the traced program
    wide_only: bool = False  # of the dashboard's grid and of files: no room for it among lines of text
    whole: str | None = None  # the field with the whole text, where this one has it shortened

    @property
    def one_line(self) -> str:
        """The title without line breaks."""
        return self.title.replace("\n", " ")


@dataclass(frozen=True)
class TypedTable:
    """Rows as structs, or as anything that has the columns' fields; the most important first."""

    columns: Sequence[TypedColumn]
    rows: Sequence[Any]
    notes: Sequence[str] = ()

    def listing(self, limit: int | None = None, notes: Sequence[str] = ()) -> list[Listing]:
        """As a block of a story, ``limit`` rows at most; none without rows. Columns without a value are left out."""
        if not self.rows:
            return []
        columns = [column for column in self.columns if not column.wide_only]
        told = self.rows[:limit]
        rows = [Row([WRITE[column.kind](getattr(row, column.field)) for column in columns]) for row in told]
        heads = [
            Column(c.title, c.kind != "name", c.rank, least=c.least, optional=c.optional, foreign=c.foreign)
            for c in columns
        ]
        table = Table(heads, rows, more=len(self.rows) - len(told)).without_empty_columns(MISSING)
        return [Listing(table, notes)]

    def records(self) -> list[dict[str, Any]]:
        """The rows as flat dicts of plain values, for DataFrames and files."""
        return [{column.field: getattr(row, column.field) for column in self.columns} for row in self.rows]
