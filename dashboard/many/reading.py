"""A table of ranks that was kept, and the report of one rank's file or of two, from where the table says they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from ...analysis.inputs.places import TablePlaces
from ...analysis.inputs.sources import Source, Sources, check_is_there, copy_of, expanded, sources
from ...analysis.inputs.storage import allowed_protocol, local_path
from ...analysis.many.document import SCHEMA, RankRow, RanksDocument
from ...analysis.model.capture import is_zip
from ...analysis.model.errors import UnreadableInput
from ...analysis.model.paths import is_file
from ...analysis.report import Report, analyze_sources

Read = Callable[[Sequence[RankRow]], Report]

_HEAD_BYTES: Final = 400
_TABLE: Final = b'"launchscope.ranks/'


def kept_table(paths: Sequence[Path | str]) -> RanksDocument | None:
    """The document of `launchscope analyze -o ranks.json`, where the first path is such a file.

    The others are where its rows may be read from.
    """
    if not isinstance(paths[0], Path) or not _is_table(paths[0]):
        return None
    try:
        doc = msgspec.json.decode(paths[0].read_bytes(), type=RanksDocument)
    except (msgspec.DecodeError, OSError, RecursionError) as error:
        raise UnreadableInput(f"{paths[0]}: a table of ranks, but it can't be read ({error}); make it anew") from error
    if doc.schema != SCHEMA:
        raise UnreadableInput(f"{paths[0]}: {doc.schema}, this launchscope reads {SCHEMA}; make it anew")
    if not doc.rows or any(not 0 <= odd.row < len(doc.rows) for odd in doc.odd):
        raise UnreadableInput(f"{paths[0]}: a table of ranks without the rows that it tells of; make it anew")
    return doc


def _is_table(path: Path) -> bool:
    try:
        if not is_file(path):  # a pipe can be read once
            return False
        with path.open("rb") as file:
            return _TABLE in file.read(_HEAD_BYTES)
    except (OSError, UnreadableInput):  # who reads it as a trace tells what is wrong
        return False


def places_of(paths: Sequence[Path | str], doc: RanksDocument) -> TablePlaces:
    """Where rows of the table at the first path may be read from. UnreadableInput for another that can't be a place."""
    table, *others = paths
    for each in others:
        here = local_path(each)
        if here is not None:
            for path in expanded([here]):
                check_is_there(path)
        else:
            allowed_protocol(str(each))
    return TablePlaces.of(Path(table), doc.inputs, others)


def report_of(
    rows: Sequence[RankRow], *, places: TablePlaces | None = None, step_regex: str | None = None, cache: bool = True
) -> Report:
    """UnreadableInput, with where it was looked for, of a file that can't be read any more, or may not be.

    ``places`` are those of a table that was opened as a file; None where this run found the rows itself.
    """
    found = Sources(tuple(each for row in rows for each in _sources(row.path, places)))
    with found.at_hand() if places is None else found.at_hand(may_lead_to=places.may_lead_to) as here:
        report = analyze_sources(here, step_regex=step_regex, cache=cache)
    report.require_gpu_ops()
    return report


def _sources(path: str, places: TablePlaces | None) -> tuple[Source, ...]:
    """The file of a row, or what it holds now, known by the row's path."""
    found = (local_path(path) or path) if places is None else places.allowed(path)
    if isinstance(found, str):
        return (Source(found, PurePosixPath(path).name, kind="stored"),)
    if is_file(found):
        return (sources([found]) if str(found) == path else copy_of(found, path, found.name)).each
    archive = next((parent for parent in found.parents if is_file(parent) and is_zip(parent)), None)
    if archive is None:
        relative = "" if Path(path).is_absolute() else f", looked for below {Path.cwd()}"
        raise UnreadableInput(f"{path}: gone since it was read{relative}; put it back, or make the table anew")
    member = PurePosixPath(os.path.relpath(found, archive)).as_posix()
    return (Source(str(archive), PurePosixPath(member).name, member=member, shown=path),)
