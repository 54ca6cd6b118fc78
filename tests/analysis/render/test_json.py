"""The JSON report is the document, whole."""

from __future__ import annotations

import json

import msgspec
import pytest
from launchscope.analysis import report_story
from launchscope.analysis.model.document import ReportDocument

from . import documents
from .documents import HOSTILE, report
from .test_terminal import DOCUMENTS


@pytest.mark.parametrize("name", DOCUMENTS)
def test_it_reads_back_as_the_same_document(name: str) -> None:
    document = DOCUMENTS[name]()
    text = report_story.render_json(report(document))
    assert text.endswith("}\n")
    assert msgspec.json.decode(text, type=ReportDocument) == document


def test_names_are_kept_to_the_letter() -> None:
    read = json.loads(report_story.render_json(report(documents.traces_document(documents.hostile_trace()))))
    assert read["traces"][0]["name"] == HOSTILE
