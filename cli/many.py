"""Whether `analyze` and `dashboard` show each trace's report or the table of many ranks, and how they make it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import click

from ..analysis.model.errors import LaunchscopeError
from .outputs import RANKS, Destination, by_suffix, renderer
from .progress import progress_bar, progress_line, show_rows
from .writing import say

if TYPE_CHECKING:
    from ..analysis.inputs.sources import Sources
    from ..analysis.many.document import RanksDocument
    from ..analysis.report import Report

MANY: Final = 16
"""Trace files up to which each one's report is of use."""


def is_for_a_table(found: Sources, to: Destination | None = None, *, forced: bool) -> bool:
    """Whether to make a table of ranks instead of reports, by their number unless ``forced``; says so on stderr."""
    from ..analysis.many.outliers import FEWEST
    from ..analysis.model.units import plural

    to = to or Destination()
    by_name = None if to.file is None or to.output is not None else to.file
    suffixed = by_name and by_suffix(by_name, RANKS)
    if by_name is not None and suffixed is None and by_suffix(by_name) is not None:
        if forced:
            raise click.UsageError(
                f"a table of ranks can't be written as {by_name.suffix}; .json, .md, .parquet and text can"
            )
        return False
    if not forced and suffixed != "parquet" and not found.is_listing and (count := len(found.each)) <= MANY:
        if count >= FEWEST:
            say(f"{count} traces: a report of each; --ranks puts them side by side")
        return False
    renderer(to.form(RANKS), RANKS)  # names a package that is absent, before the work
    say(f"{plural(len(found.traces), 'trace file')}: a table of ranks; --no-ranks gives each one's report")
    return True


def report_of(found: Sources, **reading: Any) -> Report:
    """The report of what was found; fetches files in storage."""
    soon = found.at_hand(lambda url: say(f"fetching {url}"))
    with soon as here, here.opened_soon(cache=reading["cache"]), progress_bar() as progress:
        from ..analysis.report import analyze_sources  # while the first file's second process starts

        report = analyze_sources(here, progress=progress, **reading)
    report.require_gpu_ops()
    return report


def table_of(found: Sources, **reading: Any) -> RanksDocument:
    """Read all files and make the table of ranks."""
    from ..analysis.many.ranks import analyze_ranks

    with progress_line() as show:
        return analyze_ranks(found, progress=show_rows(show), **reading)


def require_rows(doc: RanksDocument, *, strict: bool) -> None:
    """LaunchscopeError where none of the files can be read, or where ``strict`` one of them is not whole."""
    from ..analysis.profile.analysed_traces import lost_words

    if all(row.error is not None for row in doc.rows):
        raise LaunchscopeError(f"none of {len(doc.rows):,} files can be read; the first: {doc.rows[0].error}")
    lost = {row.name: words for row in doc.rows if (words := row.error or lost_words(row.warnings))}
    if strict and lost:
        name, words = next(iter(lost.items()))
        raise LaunchscopeError(
            f"{len(lost):,} of {len(doc.rows):,} files can't be read whole; the first: {name}: {words}"
        )
