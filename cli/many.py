"""Whether ``analyze`` tells each trace's report or the table of many ranks, and how it makes the table."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..analysis.model.errors import LaunchscopeError, UnreadableInput
from .outputs import RANKS, by_suffix, hand_over, renderer
from .progress import Bar, ProgressLine, can_redraw
from .writing import say

if TYPE_CHECKING:
    from ..analysis.inputs.rank_files import RankFile
    from ..analysis.many.document import RankRow, RanksDocument
    from ..analysis.report import Report

_MB: Final = 1e6
_LIVE_S: Final = 0.2
_LOGGED_S: Final = 10.0  # between lines of a log


def files_of_many(
    paths: Sequence[Path | str], *, forced: bool, output: str | None, file: Path | None
) -> list[RankFile] | None:
    """The files of a table of ranks; None where reports are asked for, or of more use. Says which on stderr."""
    from ..analysis.inputs.rank_files import MANY, rank_files
    from ..analysis.many.odd_ones import FEWEST

    suffixed = None if file is None or output is not None else by_suffix(file, RANKS)
    if file is not None and output is None and suffixed is None and by_suffix(file) is not None:
        if forced:
            raise click.UsageError(
                f"a table of ranks can't be written as {file.suffix}; .json, .md, .parquet and text can"
            )
        return None
    if not forced and suffixed != "parquet":
        count = _trace_count(paths)
        if count is not None and count <= MANY:
            if count >= FEWEST:
                say(f"{count} traces: a report of each; --ranks puts them side by side")
            return None
    from ..analysis.model.units import plural

    renderer(output or suffixed or "terminal", RANKS)  # what it lacks is told before the work
    files = rank_files(paths)
    say(f"{plural(len(files), 'trace file')}: a table of ranks; --no-ranks gives each one's report")
    return files


def _trace_count(paths: Sequence[Path | str]) -> int | None:
    """How many traces there are; None for many. Where a path is no good its reader tells it better, so it counts."""
    from ..analysis.inputs.storage import local_path, names_several
    from ..analysis.inputs.trace_files import expanded, trace_files
    from ..analysis.model.capture import is_capture, is_zip
    from ..analysis.model.paths import is_folder

    count = 0
    for path in paths:
        here = path if isinstance(path, Path) else local_path(path)
        if here is None:
            if names_several(str(path)):
                return None
            count += 1
            continue
        try:
            for each in expanded([here]):
                several = is_folder(each) or is_zip(each)
                count += len(trace_files(each)) if several and not is_capture(each) else 1
        except UnreadableInput:
            count += 1
    return count


def report_of(paths: Sequence[Path | str], *, step_regex: str | None, strict: bool, cache: bool) -> Report:
    """The report of the paths; files that URLs name are told by these."""
    from ..analysis.report import analyze

    with _stored_locally(paths) as (here, names):
        with Bar() as progress:
            cache = cache and not names
            report = analyze(*here, step_regex=step_regex, strict=strict, cache=cache, progress=progress)
        report.require_gpu_ops()
    if not names:
        return report
    from ..analysis.renamed import renamed

    return renamed(report, tuple(names))


@contextlib.contextmanager
def _stored_locally(paths: Sequence[Path | str]) -> Iterator[tuple[list[Path], list[tuple[str, str]]]]:
    """The paths, files that URLs name fetched into temporary folders for as long as the ``with`` block lasts; and what
    to call each of those: (temporary path, URL). What is wrong with one is told of its URL.
    """
    from ..analysis.inputs.storage import fetched, local_path
    from ..analysis.model.secrets import without_secrets

    here, names = list[Path](), list[tuple[str, str]]()
    with contextlib.ExitStack() as stack:
        for path in paths:
            local = path if isinstance(path, Path) else local_path(path)
            if local is None:
                say(f"fetching {without_secrets(str(path))}")
                local = stack.enter_context(fetched(str(path)))
                names.append((str(local), without_secrets(str(path))))
            here.append(local)
        try:
            yield here, names
        except UnreadableInput as error:
            from ..analysis.renamed import replaced

            raise UnreadableInput(replaced(str(error), tuple(names))) from error


def put_side_by_side(
    paths: Sequence[Path | str],
    files: Sequence[RankFile],
    *,
    output: str | None,
    file: Path | None,
    verbose: bool,
    resume: Path | None,
    **how: Any,
) -> None:
    """Make the table of ranks, and hand it over."""
    from ..analysis.many.ranks import Stopped, analyze_ranks

    try:
        with ProgressLine() as line:
            progress = RowsTold(line)
            document = analyze_ranks(
                [str(path) for path in paths], files=files, resume=resume, progress=progress, **how
            )
    except Stopped as stopped:
        kept = (
            f"kept in {resume}: the same command goes on from there" if resume else "lost: --resume FOLDER keeps them"
        )
        say(f"{stopped.finished:,} of {stopped.total:,} files were finished; they are {kept}")
        raise
    inputs = tuple(path for path in paths if isinstance(path, Path))
    hand_over(document, output, file=file, inputs=inputs, verbose=verbose, table=RANKS)
    require_rows(document, strict=how["strict"])


def require_rows(doc: RanksDocument, *, strict: bool) -> None:
    """LaunchscopeError where none of the files can be read, or where ``strict`` one of them is not whole."""
    from ..analysis.profile.bare_traces import lost_words

    if all(row.error is not None for row in doc.rows):
        raise LaunchscopeError(f"none of {len(doc.rows):,} files can be read; the first: {doc.rows[0].error}")
    lost = {row.name: words for row in doc.rows if (words := row.error or lost_words(row.warnings))}
    if strict and lost:
        name, words = next(iter(lost.items()))
        raise LaunchscopeError(
            f"{len(lost):,} of {len(doc.rows):,} files can't be read whole; the first: {name}: {words}"
        )


class RowsTold:
    """How far it is: at most a few times a second on a terminal, every ten seconds in a log."""

    def __init__(self, line: ProgressLine) -> None:
        self._line = line
        self._begun = self._told = time.monotonic()
        self._bytes = self._failed = 0

    def __call__(self, done: int, total: int, row: RankRow) -> None:
        self._bytes += row.bytes or 0
        self._failed += row.error is not None
        now = time.monotonic()
        if now - self._told < (_LIVE_S if can_redraw() else _LOGGED_S) or done == total:
            return
        self._told = now
        rate = self._bytes / max(now - self._begun, 1e-3) / _MB
        failed = f" · {self._failed:,} can't be read" if self._failed else ""
        self._line(f"{done:,} of {total:,} files · {rate:,.0f} MB/s{failed}")
