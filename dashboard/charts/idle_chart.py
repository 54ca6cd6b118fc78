"""Idle time per step as stacked bars: of a profile T − W by tax, of bare traces by cause as recorded."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from ...analysis.figures.devices import headline_gaps
from ...analysis.model.document import CAUSES, TAX_FIELDS, TAXES, GapsDoc, ModeDoc, TraceDoc
from ...analysis.model.units import duration, duration_pm, ratio, share
from ...analysis.profile.mode_table import TAX_TITLES, shown_name
from ..band import Band
from ..opened_report import OpenedReport
from ..plotting import (
    CAUSE_COLORS,
    HATCHES,
    NS_PER_US,
    ROW_TOP,
    Figure,
    Theme,
    axis,
    bold,
    clipped,
    layout,
    note,
    reason,
    row_text,
    rows_axis,
)

Split = Literal["tax", "cause"]

TAX_COLORS: Final[Mapping[str, str]] = {
    "launch": CAUSE_COLORS["launch"],
    "stall": CAUSE_COLORS["host"],
    "node": CAUSE_COLORS["graph"],
    "sync": CAUSE_COLORS["sync"],
    "between_steps": CAUSE_COLORS["device"],
    "other": CAUSE_COLORS["unlinked"],
}
assert tuple(TAX_COLORS) == TAXES

_PARTS: Final[Mapping[Split, tuple[Sequence[str], Mapping[str, str]]]] = {
    "tax": (TAXES, TAX_COLORS),
    "cause": (CAUSES, CAUSE_COLORS),
}
"""What idle time is split into, in the order of its bars, and the colours."""

_LEAST_NAMED: Final = 0.01  # share of a row from which its words name a part
_MOST_NAMED: Final = 3
_A_STEP: Final = "a step"
_BAR: Final = 0.36  # height of a bar, of its row
_BAR_AT: Final = ROW_TOP - 0.03 - _BAR / 2  # its middle, from the middle of its row


@dataclass(frozen=True)
class _Idle:
    """One row of the idle chart. ``parts_ns`` add up to ``total_ns``; both null where it is withheld."""

    label: str
    words: str
    total_ns: float | None
    parts_ns: Mapping[str, float]
    hover: str
    is_per_step: bool = True


def idle_figure(opened: OpenedReport, theme: Theme, split: Split | None = None) -> Figure:
    """Idle time per step, stacked: of a profile T − W by tax, unprofiled; of bare traces by cause, as recorded.

    ``split`` asks for the other one: the taxes of bare traces, or the causes in a profile's recordings.
    """
    profile = opened.report.document.profile
    modes = {} if profile is None else profile.modes
    split = split or ("tax" if modes else "cause")
    rows = [_idle_of_mode(name, mode, opened.band(name)) for name, mode in modes.items()] if split == "tax" else []
    rows += [_idle_of_trace(band, split) for band in opened.shown_first if band.mode is None or split == "cause"]
    if split == "tax" and modes:
        subtitle = "T − W of the unprofiled step, split by the taxes"
        if len(rows) > len(modes):
            subtitle += "; of the other traces the recorded idle time"
    else:
        subtitle = f"as recorded, under the profiler, by {split}"
    unit = "µs per step" if all(row.is_per_step for row in rows) else "µs per step; of a whole file where it says so"
    names = [name for name in _PARTS[split][0] if any(row.parts_ns.get(name) for row in rows)]
    figure: Figure = {
        "data": [_idle_bars(name, split, rows, theme) for name in names],
        "layout": layout(
            theme,
            "Idle time of the GPU, per step",
            subtitle,
            barmode="stack",
            xaxis=axis(theme, unit, rangemode="tozero", tickformat=","),
            yaxis=rows_axis(theme, len(rows)),
            annotations=[row_text(theme, place, row.words) for place, row in enumerate(rows)],
        ),
    }
    if not names:
        figure["layout"]["xaxis"] |= {"range": [0, 1], "showticklabels": False}
    if not rows:
        figure["layout"]["annotations"] = [note(theme, "nothing was opened that holds a GPU op")]
    return figure


def _word(part: str, split: Split) -> str:
    """A tax or a cause as people read it."""
    return TAX_TITLES[part].replace("\n", " ") if split == "tax" else part


def _idle_bars(name: str, split: Split, rows: Sequence[_Idle], theme: Theme) -> dict[str, Any]:
    """One part of every row."""
    order, colors = _PARTS[split]
    color, hatch = colors[name], HATCHES[order.index(name) % len(HATCHES)]
    here = [(place, row, ns) for place, row in enumerate(rows) if (ns := row.parts_ns.get(name))]
    word = _word(name, split)
    return {
        "type": "bar",
        "orientation": "h",
        "name": word,
        "x": [ns / NS_PER_US for _, _, ns in here],
        "y": [-place + _BAR_AT for place, _, _ in here],
        "width": _BAR,
        "marker": {
            "color": color,
            "line": {"color": theme.ink, "width": 0.5},
            "pattern": {"shape": hatch, "fgcolor": theme.paper, "bgcolor": color, "size": 7, "solidity": 0.25},
        },
        "hovertext": [
            f"{bold(row.label)}: {word} {duration(ns)}, {ratio(ns, row.total_ns)}<br>{row.hover}" for _, row, ns in here
        ],
        "hoverinfo": "text",
    }


def _idle_of_mode(name: str, mode: ModeDoc, band: Band | None) -> _Idle:
    """T − W by the taxes of the document."""
    label = clipped(shown_name(name))
    parts = {tax: ns for tax, field in TAX_FIELDS.items() if (ns := getattr(mode, field)) is not None}
    total = mode.exposed_idle_ns
    if not parts or total is None:
        why = mode.withheld.get("launch_tax_ns") or mode.withheld.get("exposed_idle_ns") or mode.error or "not known"
        measured = "" if total is None else f"T − W = {duration_pm(total, mode.gpu_work_uncertainty_ns)}; "
        return _Idle(label, f"{bold(label)}  {measured}not split: {reason(why)}", None, {}, "")
    hover = [f"T − W = {duration_pm(total, mode.gpu_work_uncertainty_ns)}, {share(mode.true_idle_fraction)} of T"]
    found = None if band is None else headline_gaps(band.analysis.document)
    if found is not None and found[0].total_ns:
        causes = _parts_words({cause: doc.ns for cause, doc in found[0].by_cause.items()}, found[0].total_ns, "cause")
        hover.append(f"in the recording, under the profiler: {causes}")
    line = f"{duration_pm(total, mode.gpu_work_uncertainty_ns)}: {_parts_words(parts, total, 'tax')}"
    return _Idle(label, f"{bold(label)}  {line}", total, parts, "<br>".join(hover))


def _idle_of_trace(band: Band, split: Split) -> _Idle:
    """The idle time that was recorded: per step where there is a steady scope, else of the whole file."""
    document, label = band.analysis.document, clipped(band.label)
    found = headline_gaps(document)
    if found is None:
        return _Idle(label, f"{bold(label)}  no GPU op in the file", None, {}, "")
    gaps, scope = found
    steps, where = _steps_in(document, gaps, scope)
    by_cause = {cause: doc.ns / steps for cause, doc in gaps.by_cause.items() if doc.ns}
    by_tax = {tax: ns / steps for tax, ns in gaps.taxes_ns.items() if ns}
    parts, others = (by_cause, by_tax) if split == "cause" else (by_tax, by_cause)
    total = gaps.total_ns / steps
    line = (
        f"{duration(total)} {where}: {_parts_words(parts, total, split)}"
        if total
        else f"no gap between GPU ops, {where}"
    )
    rest: Split = "tax" if split == "cause" else "cause"
    other = f"by {rest}: {_parts_words(others, total, rest)}" if total else ""
    return _Idle(label, f"{bold(label)}  {line}", total, parts, other, where == _A_STEP)


def _steps_in(document: TraceDoc, gaps: GapsDoc, scope: str) -> tuple[int, str]:
    """Steps that the gaps lie in, and how to say so; 1 for a whole file."""
    periods = None if document.steps is None else document.steps.period_ns
    if scope == "steady" and periods is not None and periods.count:
        return periods.count, _A_STEP
    return 1, "in the whole file"


def _parts_words(parts_ns: Mapping[str, float], total_ns: float, split: Split) -> str:
    """The largest parts in words: ``launch tax 98 % · node tax 2 %``."""
    ranked = sorted(((ns, name) for name, ns in parts_ns.items() if ns), reverse=True)
    named = [item for item in ranked[:_MOST_NAMED] if item[0] >= _LEAST_NAMED * total_ns] or ranked[:1]
    return " · ".join(f"{_word(name, split)} {share(ns / total_ns)}" for ns, name in named)
