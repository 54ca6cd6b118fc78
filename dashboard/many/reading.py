"""The report of one rank's file or of two: read from where the table of ranks says that they lie."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from pathlib import Path, PurePosixPath

from ...analysis.inputs.places import TablePlaces
from ...analysis.inputs.sources import Source, Sources, copy_of, sources
from ...analysis.inputs.storage import local_path
from ...analysis.many.document import RankRow
from ...analysis.model.capture import is_zip
from ...analysis.model.errors import UnreadableInput
from ...analysis.model.paths import is_file
from ...analysis.report import Report, analyze_sources

Read = Callable[[Sequence[RankRow]], Report]


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
