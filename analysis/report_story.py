"""A report document as a story: blocks in reading order, the same for every output that people read."""

from __future__ import annotations

from typing import Final

from .figures.trace_story import trace_story, traces_overview
from .model.document import ReportDocument, UnreadDoc
from .model.units import plural
from .profile.profile_story import profile_story
from .profile.ranks_story import trace_ranks
from .render.outputs import outputs_of
from .report import Report
from .story.blocks import Block, Headline, Listing
from .story.counted_files import files_fact
from .story.tables import Column, Row, Table

IN_FULL: Final = 3
"""So many traces are told one by one without --verbose."""


def _tell(report: Report, *, verbose: bool) -> list[Block]:
    """The whole story. A profile's recordings are told one by one only with ``verbose``."""
    document = report.document
    if document.profile is not None:
        told = profile_story(document, document.profile, verbose=verbose)
        if verbose:
            told += [part for trace in document.traces for part in trace_story(trace, verbose=True, divides=True)]
        return [*told, *_files(document)]
    if not document.traces:
        return [Headline("nothing to report: no trace was given"), *_files(document)]
    several = len(document.traces) > 1
    in_full = verbose or len(document.traces) <= IN_FULL
    notes = [] if in_full else ["* -v tells each in full; so does analyze with that one alone"]
    story: list[Block] = [traces_overview(document.traces, notes)] if several else []
    story += trace_ranks(document.ranks, verbose=verbose)
    if in_full:
        story += [part for t in document.traces for part in trace_story(t, verbose=verbose, divides=several)]
    return [*story, *_files(document)]


def _files(document: ReportDocument) -> list[Block]:
    """How many files were read, unread and skipped, and the unread ones with their reasons."""
    counted = files_fact(len(document.traces), len(document.unread), document.skipped)
    return [*counted, *unread_files(document.unread)]


def unread_files(unread: list[UnreadDoc]) -> list[Listing]:
    """The files of which nothing is told, each with its reason."""
    if not unread:
        return []
    columns = [
        Column(f"{plural(len(unread), 'file')} not told", right=False, least=24, foreign=True),
        Column("reason", right=False, least=30, wraps=True),
    ]
    return [Listing(Table(columns, [Row([each.path, each.reason]) for each in unread]))]


render_terminal, render_json, render_markdown = outputs_of(_tell, lambda report: report.to_json().decode() + "\n")
