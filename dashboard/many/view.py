"""The URLs of many ranks: the whole state of their page, and the page of one rank or of two side by side."""

from __future__ import annotations

import re
from typing import Final, Literal
from urllib.parse import parse_qsl, urlencode

import msgspec

from ..view import Theme

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
    parts = {"heat": view.heat, "sort": view.sort, "theme": view.theme or ""}
    usual = {"heat": "period", "sort": BY_RANK, "theme": ""}
    parts = {name: value for name, value in parts.items() if value != usual[name]}
    return "?" + urlencode(parts) if parts else ""


def from_query(query: str, figures: list[str]) -> ManyView:
    """The view of a query. A part that can't be read, or names no figure, is at its default."""
    try:
        parts = dict(parse_qsl(query.removeprefix("?"), max_num_fields=50, errors="replace"))
    except ValueError:
        parts = {}
    sort, theme = parts.get("sort", ""), parts.get("theme")
    return ManyView(
        heat="busy" if parts.get("heat") == "busy" else "period",
        sort=sort if sort in figures else BY_RANK,
        theme="dark" if theme == "dark" else "light" if theme == "light" else None,
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
