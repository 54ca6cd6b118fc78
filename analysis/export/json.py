"""The report as JSON: the document itself, schema ``launchscope.report/1``."""

from __future__ import annotations

from typing import TYPE_CHECKING

import msgspec

if TYPE_CHECKING:
    from ..report import Report


def render(report: Report) -> str:
    """One JSON document, indented, with a line break at its end."""
    return msgspec.json.format(msgspec.json.encode(report.document), indent=2).decode() + "\n"
