"""The report for a notebook: small, self-contained HTML; everything that came from a file is escaped."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING

from .model.document import ModeDoc, ProfileDoc
from .model.units import MISSING, duration, share

if TYPE_CHECKING:
    from .report import Report


def render(report: Report) -> str:
    """The verdicts, and the modes as a table; bare traces: a verdict each."""
    document = report.document
    parts = []
    if document.target is not None and document.profile is not None:
        parts.append(f"<h3>{escape(document.target.name)}</h3>")
        parts += [_verdict_html(name, mode) for name, mode in document.profile.modes.items()]
        parts.append(_modes_html(document.profile))
    else:
        for trace in document.traces:
            told = f"<b>{escape(trace.name)}</b> is {trace.verdict.verdict_class.upper()}: "
            parts.append(f"<p>{told}{escape(trace.verdict.reason)}.</p>")
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
