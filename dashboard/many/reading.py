"""The report of one rank's file or of two: read from where the table of ranks says that they lie."""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path, PurePosixPath

from ...analysis.capture import is_zip, read_member, safe_zip
from ...analysis.errors import UnreadableInput
from ...analysis.many.document import RankRow
from ...analysis.many.storage import fetched, is_url, local_path
from ...analysis.renamed import Names, renamed, replaced
from ...analysis.report import Report, analyze

Read = Callable[[Sequence[RankRow]], Report]


def report_of(rows: Sequence[RankRow], *, step_regex: str | None = None, cache: bool = True) -> Report:
    """UnreadableInput, with where it was looked for, of a file that can't be read any more."""
    with contextlib.ExitStack() as stack:
        files = [stack.enter_context(_at_hand(row)) for row in rows]
        names: Names = tuple((str(file), name) for file, name in files if name is not None)
        try:
            report = analyze(*(file for file, _ in files), step_regex=step_regex, cache=cache and not names)
            report.require_gpu_ops()
        except UnreadableInput as error:
            raise UnreadableInput(replaced(str(error), names)) from error
    return renamed(report, names) if names else report


@contextlib.contextmanager
def _at_hand(row: RankRow) -> Iterator[tuple[Path, str | None]]:
    """The file on this machine; and the name that people know it by, where it is a temporary copy."""
    here = local_path(row.path) if is_url(row.path) else Path(row.path)
    if here is None:
        with fetched(row.path) as copy:
            yield copy, row.path
        return
    if here.is_file():
        yield here, None
        return
    archive = next((parent for parent in here.parents if parent.is_file() and is_zip(parent)), None)
    if archive is None:
        relative = "" if here.is_absolute() else f", looked for below {Path.cwd()}"
        raise UnreadableInput(f"{row.path}: gone since it was read{relative}; put it back, or make the table anew")
    member = PurePosixPath(os.path.relpath(here, archive)).as_posix()
    with tempfile.TemporaryDirectory(prefix="launchscope-rank-") as folder, safe_zip(archive) as opened:
        copy = Path(folder, PurePosixPath(member).name)
        copy.write_bytes(read_member(archive, opened, member))
        yield copy, row.path
