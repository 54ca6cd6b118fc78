"""What a figure of a trace is: its document, how it comes out of the facts, its words, its table, and its numbers.

A figure is one file that makes a ``Figure``, and one line in the registry. JSON, terminal, Markdown, the page's grid,
CSV files, DataFrames, the table of ranks, compare, check and the list of figures in the docs derive from it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Generic, TypeVar, cast

import msgspec

from ..facts.context import Context
from ..model.document import TraceDoc
from ..story import Block, Kind, TypedTable

Document = TypeVar("Document")
Known = TypeVar("Known")


@dataclass(frozen=True)
class Value(Generic[Document]):
    """One number of a figure, by the name that compare and check call it; of a step where the figure is."""

    name: str
    kind: Kind
    words: str  # in a sentence; of counts the plural
    of: Callable[[Document], float | None]
    limit: str | None = None  # an example of a limit that makes sense; null: nothing to limit
    less_is_better: bool = True
    more_is_better: bool = False
    of_ranks: bool = False  # a column of the table of many ranks, which then takes the time to compute it


@dataclass(frozen=True, eq=False)
class Figure(Generic[Document]):
    """``compute`` gives the document, null where there is nothing to tell, or Withheld with the reason.

    ``facts`` are what the story says of it before all tables, ``tables`` its blocks among them; both with ``verbose``.
    """

    name: str  # in the JSON report: a name of the contract, else below ``figures``
    words: str  # what it tells, for the docs' list
    document: Any  # the type of the document, to read a saved report
    compute: Callable[[Context], Document | Withheld | None] | None  # null: more than one recording makes it
    facts: Callable[[TraceDoc, bool], Iterable[Block]] | None = None
    tables: Callable[[TraceDoc, bool], Iterable[Block]] | None = None
    table: Callable[[Document], TypedTable] | None = None
    values: Sequence[Value[Document]] = ()
    across_ranks: bool = False  # other ranks' traces add to it
    tells_reasons: bool = False  # its blocks say why parts of it are withheld

    def of(self, context: Context) -> Document | None:
        """The document of a trace, computed once; null where there is none. ``reasons`` has why."""
        return self._settled(context)[0]

    def reasons(self, context: Context) -> dict[str, str]:
        """Why parts of the document, or all of it, are withheld, by their path in the report."""
        return self._settled(context)[1]

    def _settled(self, context: Context) -> tuple[Document | None, dict[str, str]]:
        known: dict[str, tuple[Any, dict[str, str]]] = context.figures
        if self.name not in known:
            known[self.name] = settle(None if self.compute is None else self.compute(context), self.path)
        return known[self.name]

    @property
    def is_of_contract(self) -> bool:
        """Whether the report has a name of its own for it."""
        return self.name in TraceDoc.__struct_fields__

    @property
    def path(self) -> str:
        """Where the report has it."""
        return self.name if self.is_of_contract else f"figures.{self.name}"

    def read(self, trace: TraceDoc) -> Document | None:
        """The document as a report has it, from this run or a saved one; null where it has none."""
        if self.is_of_contract:
            found: Document | None = getattr(trace, self.name)
            return found
        saved = trace.figures.get(self.name)
        return None if saved is None else msgspec.convert(saved, self.document)

    def typed_table(self, trace: TraceDoc) -> TypedTable | None:
        """Its rows as a report has them; null for a figure without a table, or a trace without it."""
        document = self.read(trace)
        return None if self.table is None or document is None else self.table(document)


class Withheld(msgspec.Struct, frozen=True):
    """A figure that is not told, and why."""

    reason: str


def known(value: Known | None, otherwise: str | None) -> Known | None:
    """The value; withheld for this reason where there is none. Without a reason it just isn't there."""
    return cast("Known", Withheld(otherwise)) if value is None and otherwise is not None else value


def settle(document: Document, path: str = "") -> tuple[Document, dict[str, str]]:
    """The document with null for what is withheld, and the reasons by path: ``queue_depth.max``, ``devices.0.steady``.

    Lists of texts and numbers hold nothing that is withheld.
    """
    reasons: dict[str, str] = {}
    return _settled(document, path, reasons), reasons


def _settled(value: Any, path: str, reasons: dict[str, str]) -> Any:
    if isinstance(value, Withheld):
        reasons[path] = value.reason
        return None
    if isinstance(value, list):
        if not value or not isinstance(value[0], msgspec.Struct):
            return value
        return [_settled(each, f"{path}.{place}", reasons) for place, each in enumerate(value)]
    if not isinstance(value, msgspec.Struct):
        return value
    changed = {}
    for name in value.__struct_fields__:
        was = getattr(value, name)
        if isinstance(was, msgspec.Struct | list):
            now = _settled(was, f"{path}.{name}" if path else name, reasons)
            if now is not was:
                changed[name] = now
    return msgspec.structs.replace(value, **changed) if changed else value
