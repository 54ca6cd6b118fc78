"""The table of ranks in words: what must be known to read it, and what figures are called."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import PurePath

from ...analysis.many.document import RankRow, RanksDocument
from ...analysis.many.many_story import label
from ...analysis.many.outliers import RANK_FIGURES, missing_words
from ...analysis.model.units import byte_size, number, one_line, plural, printable


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
    plain = [label(row) for row in doc.rows]
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
