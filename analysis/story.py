"""What a report is told in: a story is a list of blocks, and a renderer only knows blocks.

Every text in a block may hold foreign characters; the renderer escapes it for its output. The terminal and Markdown
show the same story. A table is text, with what may give way on a narrow page; a typed table holds names, counts, ns,
bytes and shares, and every output writes them in its own way.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from .model import units
from .model.units import MISSING


@dataclass(frozen=True)
class Heading:
    """What the report, or one part of it, is about: the thing itself, and what it ran on."""

    left: str
    right: str = ""
    divides: bool = False  # starts a new part


@dataclass(frozen=True)
class Headline:
    """The answer in one sentence."""

    text: str
    good: bool | None = None  # True: the GPU is busy; None: no answer


@dataclass(frozen=True)
class Fact:
    """A label and what there is to say under it, one line each."""

    label: str
    lines: Sequence[str]
    concern: bool = False  # changes how to read the figures


@dataclass(frozen=True)
class Bar:
    name: str
    fraction: float
    detail: str


@dataclass(frozen=True)
class Bars:
    """Parts of one whole."""

    label: str
    bars: Sequence[Bar]
    rest: str = ""


@dataclass(frozen=True)
class Listing:
    """A table, and notes on single figures in it, numbered as they are marked there."""

    table: Table
    notes: Sequence[str] = ()


Block = Heading | Headline | Fact | Bars | Listing


def marked(cell: str, marks: Sequence[int]) -> str:
    """A cell with the numbers of the notes that concern it: ``19.0 ms¹``."""
    return cell + "·".join(superscript(mark) for mark in marks)


def superscript(number: int) -> str:
    """A number as a mark: it reads the same beside the figure and before the note."""
    return "".join("⁰¹²³⁴⁵⁶⁷⁸⁹"[int(digit)] for digit in str(number))


@dataclass(frozen=True)
class Column:
    """One column. The first of a table is its key: it stands in every block."""

    title: str  # a line break splits it over two lines
    right: bool = True
    rank: int = 0  # the highest leave the first block first
    behind: bool = False  # evidence: never in the first block
    least: int | None = None  # flexible: may shrink to this width
    wraps: bool = False  # a flexible column of sentences: wrapped instead of cut
    optional: bool = False  # told only where that takes no room from another column
    spare: bool = False  # left out where the first block has no room for it
    foreign: bool = False  # names from the traced program


Cells = Sequence[tuple[Column, Callable[[Any], str]]]
"""Columns, each with how its cell is written."""


@dataclass(frozen=True)
class Row:
    """One row; with ``span``, a sentence stands in place of every cell but the first."""

    cells: Sequence[str]
    span: str | None = None
    strong: bool = False


@dataclass(frozen=True)
class Table:
    columns: Sequence[Column]
    rows: Sequence[Row]
    more: int = 0  # rows that were left out
    headless: bool = False

    @classmethod
    def of(cls, columns: Cells, rows: Sequence[Any], more: int = 0) -> Table:
        """A row of text for each of these."""
        written = [Row([cell(row) for _, cell in columns]) for row in rows]
        return cls([column for column, _ in columns], written, more)

    def map(self, change: Callable[[str], str]) -> Table:
        """The table with every cell of it changed."""
        rows = [
            Row([change(cell) for cell in row.cells], row.span and change(row.span), row.strong) for row in self.rows
        ]
        return Table(self.columns, rows, self.more, self.headless)

    def parts(self) -> list[Table]:
        """What answers and what is behind it, as two tables; one where nothing is behind."""
        behind = [i for i, column in enumerate(self.columns) if column.behind]
        front = [i for i in range(len(self.columns)) if i not in behind]
        told = Table(self.columns, [row for row in self.rows if row.span is None])
        return [self._only(front), told._only([0, *behind])] if behind else [self]

    def without_empty_columns(self, missing: str) -> Table:
        """The table without the columns, other than the first, that hold nothing in any row."""
        told = [row for row in self.rows if row.span is None]
        kept = [i for i in range(len(self.columns)) if i == 0 or any(row.cells[i] != missing for row in told)]
        kept = kept if told else [0, 1]  # a span needs a column to stand in
        return self._only(kept)

    def _only(self, columns: Sequence[int]) -> Table:
        rows = [Row([r.cells[i] if i < len(r.cells) else "" for i in columns], r.span, r.strong) for r in self.rows]
        return Table([self.columns[i] for i in columns], rows, self.more, self.headless)


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
