"""Tables of text: columns with what may give way on a narrow page, and rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any


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
