"""A finished check as what github-action-benchmark reads: tool ``customSmallerIsBetter``.

https://github.com/benchmark-action/github-action-benchmark: a list of name, unit, value, and extra, a tooltip.
Only figures that are better when smaller have a place in it: graph coverage is told as what is missing to all, and
that a mode does not run is no figure.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ...model.units import one_line
from ..check_document import RUNS, CheckDoc, FindingDoc, PartDoc
from . import words as check_words
from .limits import FIGURES

SEPARATOR: Final = " · "

_UNITS: Final = {"count": ("per step", 1.0), "ns": ("µs", 1e3), "bytes": ("MiB", 2.0**20), "share": ("%", 0.01)}
"""One unit per figure, whatever its size: a chart has one axis."""


class Entry(msgspec.Struct, frozen=True, kw_only=True):
    """One point of one chart; the name is what later runs are matched by."""

    name: str
    unit: str
    value: float
    extra: str


def render(doc: CheckDoc) -> str:
    """A JSON list with an entry for each figure that was measured; one of two limits on a figure is enough."""
    entries: dict[str, Entry] = {}
    for part in doc.parts:
        for finding in part.findings:
            entry = _entry(finding, part)
            if entry is not None:
                entries.setdefault(entry.name, entry)
    return msgspec.json.format(msgspec.json.encode(list(entries.values())), indent=2).decode() + "\n"


def _entry(finding: FindingDoc, part: PartDoc) -> Entry | None:
    figure, value = finding.figure, finding.measured
    kind = FIGURES.get(figure)
    if value is None or figure == RUNS or (kind is not None and kind.less_is_better and kind.more_is_better):
        return None  # one graph launch is better than none, and than two
    if figure == "graph_coverage":
        figure, value = "kernels outside graphs", 1.0 - value
    unit, scale = _UNITS[finding.unit]
    name = SEPARATOR.join(one_line(text) for text in (part.current.target, part.current.mode, figure))
    commit = [] if part.current.commit is None else [f"commit: {part.current.commit}"]
    extra = "\n".join(one_line(line) for line in [*check_words.details(finding), *commit])
    return Entry(name=name, unit=unit, value=round(value / scale, 9), extra=extra)
