"""The report of one rank's file or of two: read from where the table of ranks says that they lie."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ...analysis.inputs.places import TablePlaces
from ...analysis.inputs.storage import fetched, is_url, local_path
from ...analysis.many.document import RankRow
from ...analysis.model.capture import is_zip, read_member, safe_zip
from ...analysis.model.errors import UnreadableInput
from ...analysis.model.paths import is_file
from ...analysis.renamed import Names, renamed, replaced
from ...analysis.report import Report, analyze

Read = Callable[[Sequence[RankRow]], Report]


def report_of(
    rows: Sequence[RankRow], *, places: TablePlaces | None = None, step_regex: str | None = None, cache: bool = True
) -> Report:
    """UnreadableInput, with where it was looked for, of a file that can't be read any more, or may not be.

    ``places`` are those of a table that was opened as a file; None where this run found the rows itself.
    """
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_at_hand(row.path, places)) for row in rows]
        names: Names = tuple((str(file), name) for file, name in files if name is not None)
        try:
            report = analyze(*(file for file, _ in files), step_regex=step_regex, cache=cache and not names)
            report.require_gpu_ops()
        except UnreadableInput as error:
            raise UnreadableInput(replaced(str(error), names)) from error
    return renamed(report, names) if names else report


@contextlib.contextmanager
def _at_hand(path: str, places: TablePlaces | None) -> Iterator[tuple[Path, str | None]]:
    """The file on this machine; and the name that people know it by, where that is another one."""
    found = _found(path) if places is None else places.allowed(path)
    if isinstance(found, str):
        with fetched(found, (lambda url: True) if places is None else places.may_lead_to) as copy:
            yield copy, path
        return
    if is_file(found):
        yield found, None if str(found) == path else path
        return
    archive = next((parent for parent in found.parents if is_file(parent) and is_zip(parent)), None)
    if archive is None:
        relative = "" if Path(path).is_absolute() else f", looked for below {Path.cwd()}"
        raise UnreadableInput(f"{path}: gone since it was read{relative}; put it back, or make the table anew")
    member = PurePosixPath(os.path.relpath(found, archive)).as_posix()
    with tempfile.TemporaryDirectory(prefix="launchscope-rank-") as folder, safe_zip(archive) as opened:
        copy = Path(folder, PurePosixPath(member).name)
        copy.write_bytes(read_member(archive, opened, member))
        yield copy, path


def _found(path: str) -> Path | str:
    here = local_path(path) if is_url(path) else Path(path)
    return path if here is None else here
