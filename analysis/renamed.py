"""A report of temporary files under the names that people know these by."""

from __future__ import annotations

from dataclasses import replace
from typing import TypeVar

import msgspec

from .figures.analyses import TraceAnalysis
from .inputs.trace_files import rank_of
from .model.document import TraceDoc
from .report import Report

_Document = TypeVar("_Document", bound=msgspec.Struct)
Names = tuple[tuple[str, str], ...]
"""What to replace by what, in order: a file's path first."""


def renamed(report: Report, names: Names) -> Report:
    """The report with the file's given name wherever it tells that of the temporary file."""
    label = names[0][1]
    document = _renamed_document(report.document, names)
    document = msgspec.structs.replace(document, traces=[_ranked(trace, label) for trace in document.traces])
    pairs = zip(report.analyses, document.traces, strict=True)
    return Report(document, tuple(_renamed_analysis(analysis, trace) for analysis, trace in pairs))


def _ranked(trace: TraceDoc, label: str) -> TraceDoc:
    """The trace with the rank that its file's given name tells, where neither it nor its name in a .zip tells one."""
    if trace.rank is not None or trace.source.path != label:
        return trace
    return msgspec.structs.replace(trace, rank=rank_of(label))


def _renamed_document(document: _Document, names: Names) -> _Document:
    text = msgspec.json.encode(document).decode()
    written: Names = tuple((_in_json(old), _in_json(new)) for old, new in names)
    return msgspec.json.decode(replaced(text, written), type=type(document))


def _renamed_analysis(analysis: TraceAnalysis, document: TraceDoc) -> TraceAnalysis:
    source = replace(analysis.trace.source, path=document.source.path)
    trace = replace(analysis.trace, source=source, rank=document.rank)
    return replace(analysis, context=analysis.context.renamed(trace, document.name), document=document)


def _in_json(text: str) -> str:
    return msgspec.json.encode(text).decode()[1:-1]


def replaced(text: str, names: Names) -> str:
    """The text with each name in place of its temporary one."""
    for old, new in names:
        text = text.replace(old, new)
    return text
