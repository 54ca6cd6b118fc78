"""Saved baselines, told: which of them a folder holds, and the figures that some of them keep."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from ...model.units import MISSING, number, written
from ...render import terminal
from ...story.blocks import Block, Heading, Listing
from ...story.tables import Column, Row, Table
from ..snapshot import Snapshot
from .baselines import Baseline
from .limits import FIGURES
from .sides import value_of

SITES: Final = 8  # operators that are shown
COMMIT: Final = 12  # characters that tell commits apart
MINUTE: Final = 16  # characters of an ISO 8601 time

_LIST: Final = (
    Column("target", right=False, least=12, foreign=True),
    Column("mode", right=False),
    Column("gpu", right=False),
    Column("saved", right=False),
    Column("commit", right=False),
    Column("processes"),
    Column("file", right=False, behind=True, least=24, foreign=True),
)
_FIGURES: Final = (Column("figure", right=False), Column("value", right=False, least=24, wraps=True))
_SITES: Final = (
    Column("launches per step"),
    Column("operator", right=False, least=14, foreign=True),
    Column("inside", right=False, least=16, foreign=True),
)


def render_list(baselines: Sequence[Baseline], *, folder: Path, width: int, color: bool) -> str:
    """One row per baseline, then their files as the folder has them; ``width`` columns at most, 60 at least."""
    rows = []
    for each in baselines:
        its, file = each.snapshot, str(each.path.relative_to(folder))
        rows.append(Row([its.target, its.mode, *_origin(its), number(len(its.timings)), file]))
    return terminal.render([Listing(Table(_LIST, rows))], width=width, color=color)


def render_figures(baselines: Sequence[Baseline], *, width: int, color: bool) -> str:
    """Of each baseline where it is from, its figures, and the places that launch the most."""
    blocks = [block for index, each in enumerate(baselines) for block in _tell(each.snapshot, divides=index > 0)]
    return terminal.render(blocks, width=width, color=color)


def _tell(snapshot: Snapshot, *, divides: bool) -> Iterator[Block]:
    yield Heading(f"{snapshot.target} · {snapshot.mode}", " · ".join(_origin(snapshot)), divides)
    rows = []
    for name, kind in FIGURES.items():
        value = value_of(snapshot, name)
        if value is not None:
            rows.append(Row([name, written(value, kind.unit)]))
        elif name in snapshot.withheld:
            rows.append(Row([name, f"{MISSING} ({snapshot.withheld[name]})"]))
    yield Listing(Table(_FIGURES, rows, headless=True))
    sites = snapshot.launch_sites[:SITES]
    if sites:
        told = [Row([number(its.per_step), its.operator or "no operator", its.line or MISSING]) for its in sites]
        more = len(snapshot.launch_sites) - len(sites)
        yield Listing(Table(_SITES, told, more).without_empty_columns(MISSING))


def _origin(snapshot: Snapshot) -> list[str]:
    """GPU, when it was saved, commit."""
    told = (snapshot.machine.get("gpu"), (snapshot.saved or "")[:MINUTE], (snapshot.commit or "")[:COMMIT])
    return [str(each or MISSING) for each in told]
