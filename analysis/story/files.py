"""The files that were looked at: how many were read, unread and skipped, and why the unread ones were not."""

from __future__ import annotations

from collections.abc import Sequence

from ..model.document import SkippedDoc, UnreadDoc
from ..model.units import number, plural
from .blocks import Fact, Listing
from .tables import Column, Row, Table


def counted_files(read: int, unread: int, skipped: Sequence[SkippedDoc]) -> str | None:
    """``300 files: 285 read, 3 unread, 12 skipped, because …``; None where all were read."""
    if not unread and not skipped:
        return None
    left = sum(each.count for each in skipped)
    counts = {"read": read, "unread": unread, "skipped": left}
    line = ", ".join(f"{number(count)} {what}" for what, count in counts.items() if count or what == "read")
    why = "; ".join(f"{each.reason} ({_named(each)})" for each in skipped)
    return f"{plural(read + unread + left, 'file')}: {line}" + (f", because: {why}" if skipped else "")


def files_fact(read: int, unread: int, skipped: Sequence[SkippedDoc]) -> list[Fact]:
    """The line as a fact; none where all were read."""
    line = counted_files(read, unread, skipped)
    return [] if line is None else [Fact("files", [line], concern=unread > 0)]


def _named(skipped: SkippedDoc) -> str:
    more = f" and {skipped.count - 1:,} more" if skipped.count > 1 else ""
    return f"{skipped.first}{more}"


def unread_files(unread: list[UnreadDoc]) -> list[Listing]:
    """The files of which nothing is told, each with its reason."""
    if not unread:
        return []
    columns = [
        Column(f"{plural(len(unread), 'file')} not told", right=False, least=24, foreign=True),
        Column("reason", right=False, least=30, wraps=True),
    ]
    return [Listing(Table(columns, [Row([each.path, each.reason]) for each in unread]))]
