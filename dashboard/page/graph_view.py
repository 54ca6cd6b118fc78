"""The graph doctor, as the page shows it: how far CUDA graphs engaged, and what is in their way."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ...analysis.model.graph_document import FindingDoc
from ...analysis.model.units import one_line, printable
from ...analysis.stories.graph_story import engaged_lines, how, what
from ...analysis.stories.profile_story import graph_doctors
from ..opened import Opened
from .compare_view import Section

_COLUMNS: Final = ("#", "in the way of graphs", "what to do", "what says so")


def graph_sections(opened: Opened) -> list[Section]:
    """One of a capture; of traces one each, those that tell the same together. None where nothing replays or should."""
    document = opened.report.document
    if document.profile is not None:
        doctors = graph_doctors(document.traces, document.profile)
        found = document.profile.graph_findings
        return list(_section(engaged_lines(doctors, found), found, ""))
    alike: dict[tuple[str, ...], list[str]] = {}
    told = {}
    for band in (opened.band(key) for key in opened.first):
        doctor = None if band is None else band.analysis.document.graph_doctor
        if band is not None and doctor is not None:
            lines = engaged_lines({"": doctor}, doctor.findings)
            key = (*lines, *(what(each) + how(each, verbose=True) for each in doctor.findings))
            alike.setdefault(key, []).append(band.label)
            told[key] = (lines, doctor.findings)
    titles = {key: ", ".join(labels) if len(opened.first) > 1 else "" for key, labels in alike.items()}
    return [section for key, parts in told.items() for section in _section(*parts, titles[key])]


def _section(lines: list[str], found: list[FindingDoc], title: str) -> Iterator[Section]:
    told = ((what(each), how(each, verbose=False), "; ".join(each.evidence)) for each in found)
    rows = tuple((str(order), *map(one_line, words)) for order, words in enumerate(told, 1))
    if lines or rows:
        yield Section("graphs", printable(title), tuple(lines), _COLUMNS if rows else (), rows)
