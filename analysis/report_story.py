"""A report document as a story: blocks in reading order, the same for every output that people read."""

from __future__ import annotations

from html import escape
from typing import Final, Protocol

from .figures.trace_story import trace_story, traces_overview
from .figures.verdict_blocks import files_fact, unread_files
from .model.document import ModeDoc, ProfileDoc, ReportDocument
from .model.units import MISSING, duration, share
from .profile.profile_story import profile_story
from .profile.ranks_story import trace_ranks
from .render import json_text, outputs_of
from .story import Block, Headline


class Told(Protocol):
    """What a report is told from."""

    @property
    def document(self) -> ReportDocument: ...


IN_FULL: Final = 3
"""So many traces are told one by one without --verbose."""


def _tell(report: Told, *, verbose: bool) -> list[Block]:
    """The whole story. A profile's recordings are told one by one only with ``verbose``."""
    document = report.document
    if document.profile is not None:
        profile = profile_story(document, document.profile, verbose=verbose)
        if verbose:
            profile += [part for trace in document.traces for part in trace_story(trace, verbose=True, divides=True)]
        return [*profile, *_files(document)]
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


render_terminal, render_json, render_markdown = outputs_of(_tell, lambda report: json_text(report.document))


def notebook_html(report: Told) -> str:
    """For a notebook: the verdicts, and the modes as a table; what came from a file is escaped."""
    document = report.document
    parts = []
    if document.target is not None and document.profile is not None:
        parts.append(f"<h3>{escape(document.target.name)}</h3>")
        parts += [_verdict_html(name, mode) for name, mode in document.profile.modes.items()]
        parts.append(_modes_html(document.profile))
    else:
        for trace in document.traces:
            sentence = f"<b>{escape(trace.name)}</b> is {trace.verdict.verdict_class.upper()}: "
            parts.append(f"<p>{sentence}{escape(trace.verdict.reason)}.</p>")
            parts += [_note_html(w.message) for w in trace.warnings]
    parts += [_note_html(f"{each.path}: {each.reason}") for each in document.unread]
    return "<div>" + "".join(parts) + "</div>"


def _verdict_html(name: str, mode: ModeDoc) -> str:
    if mode.verdict is None:
        return f"<p><b>{escape(name)}</b> could not be measured: {escape(mode.error or 'no figures')}</p>"
    reason = escape(mode.verdict.reason)
    notes = "".join(_note_html(w.message) for w in mode.warnings)
    return f"<p><b>{escape(name)}</b> is {mode.verdict.verdict_class.upper()}: {reason}.</p>{notes}"


def _note_html(message: str) -> str:
    return f"<p><small>{escape(message)}</small></p>"


def _modes_html(profile: ProfileDoc) -> str:
    head = "".join(f"<th>{word}</th>" for word in ("mode", "step T", "GPU work W", "launches", "idle", "speedup"))
    return f"<table><tr>{head}</tr>{''.join(_row_html(name, mode) for name, mode in profile.modes.items())}</table>"


def _row_html(name: str, mode: ModeDoc) -> str:
    cells = (
        escape(name),
        MISSING if mode.step_ns is None else duration(mode.step_ns.median),
        MISSING if mode.gpu_work_ns is None else duration(mode.gpu_work_ns),
        MISSING if mode.launches is None else f"{mode.launches:,.0f}",
        MISSING if mode.true_idle_fraction is None else share(mode.true_idle_fraction),
        MISSING if mode.speedup is None else f"{mode.speedup:.1f}×",
    )
    return "<tr>" + "".join(f"<td>{cell}</td>" for cell in cells) + "</tr>"
