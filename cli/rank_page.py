"""The page of many ranks: from a table of ranks that was kept, or from the traces themselves."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ..analysis.model.errors import UnreadableInput
from ..analysis.model.paths import is_file
from .many import RowsTold, is_for_a_table, require_rows
from .progress import ProgressLine

if TYPE_CHECKING:
    from ..analysis.inputs.places import TablePlaces
    from ..analysis.inputs.sources import Sources
    from ..analysis.many.document import RankRow, RanksDocument
    from ..analysis.report import Report

_HEAD_BYTES: Final = 400
_SCHEMA: Final = b'"launchscope.ranks/'


@dataclass(frozen=True)
class Reading:
    """How a rank's own file is read when it is opened."""

    step_regex: str | None
    cache: bool
    places: TablePlaces | None = None  # of a table that was kept

    def __call__(self, rows: Sequence[RankRow]) -> Report:
        from ..dashboard.many.reading import report_of

        return report_of(rows, places=self.places, step_regex=self.step_regex, cache=self.cache)


def kept_table(paths: Sequence[Path | str]) -> RanksDocument | None:
    """The document of `launchscope analyze -o ranks.json`, where the first path is such a file.

    The others are where its rows may be read from.
    """
    if not isinstance(paths[0], Path) or not _is_table(paths[0]):
        return None
    import msgspec

    from ..analysis.many.document import SCHEMA, RanksDocument

    try:
        doc = msgspec.json.decode(paths[0].read_bytes(), type=RanksDocument)
    except (msgspec.DecodeError, OSError, RecursionError) as error:
        raise UnreadableInput(f"{paths[0]}: a table of ranks, but it can't be read ({error}); make it anew") from error
    if doc.schema != SCHEMA:
        raise UnreadableInput(f"{paths[0]}: {doc.schema}, this launchscope reads {SCHEMA}; make it anew")
    if not doc.rows or any(not 0 <= odd.row < len(doc.rows) for odd in doc.odd):
        raise UnreadableInput(f"{paths[0]}: a table of ranks without the rows that it tells of; make it anew")
    return doc


def places_of(paths: Sequence[Path | str], doc: RanksDocument) -> TablePlaces:
    """Where rows of the table at the first path may be read from. UnreadableInput for another that can't be a place."""
    from ..analysis.inputs.places import TablePlaces
    from ..analysis.inputs.sources import check_is_there, expanded
    from ..analysis.inputs.storage import allowed_protocol, local_path

    table, *beside = paths
    for each in beside:
        here = local_path(each)
        if here is not None:
            for path in expanded([here]):
                check_is_there(path)
        else:
            allowed_protocol(str(each))
    return TablePlaces.of(Path(table), doc.inputs, beside)


def _is_table(path: Path) -> bool:
    try:
        if not is_file(path):  # a pipe can be read once
            return False
        with path.open("rb") as file:
            return _SCHEMA in file.read(_HEAD_BYTES)
    except (OSError, UnreadableInput):  # who reads it as a trace tells what is wrong
        return False


def many_ranks(found: Sources, *, forced: bool, step_regex: str | None, strict: bool) -> RanksDocument | None:
    """The table of ranks, made now; None where a report of each trace is of more use."""
    if not is_for_a_table(found, forced=forced, output=None, file=None):
        return None
    from ..analysis.many.ranks import analyze_ranks

    with ProgressLine() as line:
        doc = analyze_ranks(found, step_regex=step_regex, strict=strict, progress=RowsTold(line))
    require_rows(doc, strict=strict)
    return doc
