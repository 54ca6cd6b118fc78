"""Where the page of a rank lies, or of two side by side: by their rows in the table of ranks."""

from __future__ import annotations

import re
from typing import Final

BELOW: Final = "/rows/"
_ROWS: Final = re.compile(r"([0-9]{1,7})(?:-([0-9]{1,7}))?")


def path_of(row: int, beside: int | None = None) -> str:
    """The path of the page of a row, or of two."""
    return f"{BELOW}{row}/" if beside is None or beside == row else f"{BELOW}{row}-{beside}/"


def rows_in(name: str, count: int) -> tuple[int, ...] | None:
    """The rows that a path's name stands for; None where it is none of ``count`` rows."""
    match = _ROWS.fullmatch(name)
    rows = () if match is None else tuple(int(part) for part in match.groups() if part is not None)
    return rows if rows and len(set(rows)) == len(rows) and max(rows) < count else None
