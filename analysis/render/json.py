"""The report as JSON: the document itself, schema ``launchscope.report/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from ..report import Report


def render(report: Report) -> str:
    """One JSON document, indented, with a line break at its end."""
    return report.to_json().decode() + "\n"
