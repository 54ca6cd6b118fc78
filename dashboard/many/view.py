"""The URLs of many ranks: the whole state of their page, and the page of one rank or of two side by side."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import PurePath
from typing import Final, Literal

import msgspec

from ...analysis.many.document import RankRow, RanksDocument
from ...analysis.many.outliers import RANK_FIGURES, missing_words
from ...analysis.model.units import byte_size, number, one_line, plural, printable
from ..view import Theme, parts_of, query_of, theme_of

HeatOf = Literal["period", "busy"]
HEAT_WORDS: Final[dict[HeatOf, str]] = {"period": "step period", "busy": "GPU busy per step"}
BY_RANK: Final = "rank"


class ManyView(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown; ``sort``: 'rank', or a figure of the document's distributions, the most first."""

    heat: HeatOf = "period"
    sort: str = BY_RANK
    theme: Theme | None = None  # null: the system's


def to_query(view: ManyView) -> str:
    """The view as the query of a URL, with a leading '?'; what is at its default is left out."""
    heat, sort = "" if view.heat == "period" else view.heat, "" if view.sort == BY_RANK else view.sort
    return query_of({"heat": heat, "sort": sort, "theme": view.theme or ""})


def from_query(query: str, figures: list[str]) -> ManyView:
    """The view of a query. A part that can't be read, or names no figure, is at its default."""
    parts = parts_of(query)
    sort = parts.get("sort", "")
    return ManyView(
        heat="busy" if parts.get("heat") == "busy" else "period",
        sort=sort if sort in figures else BY_RANK,
        theme=theme_of(parts),
    )


BELOW: Final = "/rows/"
_ROWS: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


def path_of(row: int, other: int | None = None) -> str:
    """The path of the page of a row, or of two."""
    return f"{BELOW}{row}/" if other is None or other == row else f"{BELOW}{row}-{other}/"


def rows_in(name: str, count: int) -> tuple[int, ...] | None:
    """The rows that a path's name stands for; None where it is none of ``count`` rows."""
    match = _ROWS.fullmatch(name)
    rows = () if match is None else tuple(int(part) for part in match.groups() if part is not None)
    return rows if rows and len(set(rows)) == len(rows) and max(rows) < count else None


def figure_words(figure: str) -> str:
    """What a figure is called; its own name where the document is newer than this page."""
    return RANK_FIGURES[figure].words if figure in RANK_FIGURES else figure


def machine(doc: RanksDocument) -> str:
    """What was read."""
    gpus = sorted({row.gpu for row in doc.rows if row.gpu})
    hosts = {row.host for row in doc.rows if row.host}
    size = sum(row.bytes or 0 for row in doc.rows)
    words = [plural(len(doc.rows), "file"), *([byte_size(size)] if size else []), *gpus[:3]]
    return " · ".join([*words, *([plural(len(hosts), "host")] if hosts else [])])


def title(doc: RanksDocument) -> str:
    """What the page is about."""
    first = printable(one_line(doc.inputs[0])) if doc.inputs else "ranks"
    name = first if "://" in first else PurePath(first).name or first
    return name + (f" and {len(doc.inputs) - 1:,} more" if len(doc.inputs) > 1 else "")


def notes(doc: RanksDocument) -> Iterator[str]:
    """What is missing."""
    if doc.missing_ranks:
        known = [row.rank for row in doc.rows if row.rank is not None]
        yield missing_words(doc.missing_ranks, doc.world_size or max(known, default=0) + 1)
    failed = sum(row.error is not None for row in doc.rows)
    if failed:
        yield f"{plural(failed, 'file')} could not be read; the table below says why."
    if doc.unfinished:
        yield f"{number(doc.unfinished)} files were not read, as the run was stopped."


def compared(doc: RanksDocument) -> str:
    """How ranks were compared, and on whose clocks."""
    left_out = f" Left out: {'; '.join(doc.alignment.unmatched)}." if doc.alignment.unmatched else ""
    clocks = "" if doc.alignment.kind == "collectives" else " Each rank is on its own clock."
    return printable(f"Compared: {doc.alignment.reason}.{left_out}{clocks}")


def labels(doc: RanksDocument) -> list[str]:
    """What each row is called: its rank, with the file's name where that is not enough."""
    plain = [row.label for row in doc.rows]
    once = [
        name if plain.count(name) == 1 else f"{name}, {row.name}" for name, row in zip(plain, doc.rows, strict=True)
    ]
    seen: dict[str, int] = {}
    found = []
    for name in map(printable, once):
        seen[name] = seen.get(name, 0) + 1
        found.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return found


def where(row: RankRow) -> str:
    """Its file, as a person tells it from others."""
    return printable(one_line(row.name))
