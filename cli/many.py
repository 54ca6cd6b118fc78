"""Whether ``analyze`` tells each trace's report or the table of many ranks, and how it makes the table."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from ..analysis.model.errors import LaunchscopeError
from .outputs import RANKS, by_suffix, hand_over, renderer
from .progress import Bar, ProgressLine, can_redraw
from .writing import say

if TYPE_CHECKING:
    from ..analysis.inputs.sources import Sources
    from ..analysis.many.document import RankRow, RanksDocument
    from ..analysis.report import Report

MANY: Final = 16
"""Trace files up to which each one's report is of use."""

_MB: Final = 1e6
_LIVE_S: Final = 0.2
_LOGGED_S: Final = 10.0  # between lines of a log


def is_for_a_table(found: Sources, *, forced: bool, output: str | None, file: Path | None) -> bool:
    """Whether it is to be a table of ranks, no reports: as asked, else what is of more use. Says which on stderr."""
    from ..analysis.many.odd_ones import FEWEST

    suffixed = None if file is None or output is not None else by_suffix(file, RANKS)
    if file is not None and output is None and suffixed is None and by_suffix(file) is not None:
        if forced:
            raise click.UsageError(
                f"a table of ranks can't be written as {file.suffix}; .json, .md, .parquet and text can"
            )
        return False
    if not forced and suffixed != "parquet" and not found.is_listing and (count := len(found.each)) <= MANY:
        if count >= FEWEST:
            say(f"{count} traces: a report of each; --ranks puts them side by side")
        return False
    from ..analysis.model.units import plural

    renderer(output or suffixed or "terminal", RANKS)  # what it lacks is told before the work
    say(f"{plural(len(found.traces), 'trace file')}: a table of ranks; --no-ranks gives each one's report")
    return True


def report_of(found: Sources, *, step_regex: str | None, strict: bool, cache: bool) -> Report:
    """The report of what was found, files in storage fetched for it."""
    with found.at_hand(lambda url: say(f"fetching {url}")) as here, here.opened_soon(cache=cache), Bar() as progress:
        from ..analysis.report import analyze_sources

        report = analyze_sources(here, step_regex=step_regex, strict=strict, cache=cache, progress=progress)
    report.require_gpu_ops()
    return report


def put_side_by_side(
    found: Sources,
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
            document = analyze_ranks(found, resume=resume, progress=RowsTold(line), **how)
    except Stopped as stopped:
        kept = (
            f"kept in {resume}: the same command goes on from there" if resume else "lost: --resume FOLDER keeps them"
        )
        say(f"{stopped.finished:,} of {stopped.total:,} files were finished; they are {kept}")
        raise
    hand_over(document, output, file=file, inputs=found.local, verbose=verbose, table=RANKS)
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
