"""Charts of the table of ranks: ranks × steps, and how each figure lies over the ranks."""

from __future__ import annotations

from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ...analysis.many.document import DistributionDoc, RankRow, RanksDocument
from ...analysis.many.many_story import by_row
from ...analysis.many.outliers import value_of
from ...analysis.model.units import plural, written
from ..plotting import TEXT_PX, Figure, Theme, axis, escaped, layout
from ..rank_heat import Heat
from .view import HEAT_WORDS, HeatOf, ManyView, figure_words, labels

BINS: Final = 40
ROW_PX: Final = 92
NARROW_ROW_PX: Final = 112
NARROW_PX: Final = 600
"""Width below which what a histogram is and how it lies have a line each."""
WIDE_PX: Final = 1_000
"""Width from which histograms stand two beside one another."""
TOP_PX: Final = 8
_MOST_APART: Final = 2  # times as many numbers of steps as the longest row has: with more, rows have few in common
_MOST_MARKS: Final = 60  # outliers that are marked in one histogram


def order(doc: RanksDocument, sort: str) -> list[int]:
    """Rows from top to bottom: as in the document, or the most of a figure first and those without it last."""
    rows = range(len(doc.rows))
    if sort not in {each.figure for each in doc.distributions}:
        return [*rows]
    known = {row: value for row in rows if (value := value_of(doc.rows[row], sort)) is not None}
    return [*sorted(known, key=lambda row: -known[row]), *(row for row in rows if row not in known)]


def steps_are_numbered(doc: RanksDocument) -> bool:
    """Whether the steps of the rows have numbers in common; else the n-th of one stands below the n-th of another."""
    series = [row.series for row in doc.rows if row.series is not None]
    longest = max((len(each.number) for each in series), default=0)
    return len({number for each in series for number in each.number}) <= _MOST_APART * longest


def heat_of(doc: RanksDocument, view: ManyView) -> Heat:
    """Ranks × steps, by the numbers of the steps: a step that a rank's row does not carry is blank."""
    called = [_called(row, steps_are_numbered(doc)) for row in doc.rows]
    numbers = sorted({number for each in called for number in each})
    place = {number: at for at, number in enumerate(numbers)}
    values = np.full((len(doc.rows), len(numbers)), np.nan)
    for at, (row, each) in enumerate(zip(doc.rows, called, strict=True)):
        known = _series(row, view.heat)[: len(each)]
        values[at, [place[number] for number in each[: len(known)]]] = known
    names, rows = labels(doc), order(doc, view.sort)
    return Heat(HEAT_WORDS[view.heat], [names[row] for row in rows], numbers, values[rows])


def _called(row: RankRow, are_numbered: bool) -> list[int]:
    """What the steps of a row are called: their numbers, or their places from 1."""
    if row.series is None:
        return []
    return row.series.number if are_numbered else [*range(1, len(row.series.number) + 1)]


def _series(row: RankRow, heat: HeatOf) -> NDArray[np.float64]:
    if row.series is None:
        return np.zeros(0)
    known = row.series.busy_ns if heat == "busy" else row.series.period_ns
    return np.array([np.nan if ns is None else ns for ns in known], np.float64)


def step_in_timeline(doc: RanksDocument, row: int, number: int) -> int:
    """The place of the step of this number in the rank's own timeline, from 0."""
    series, called = doc.rows[row].series, _called(doc.rows[row], steps_are_numbered(doc))
    return called.index(number) * series.every if series is not None and number in called else 0


def differing(doc: RanksDocument) -> list[DistributionDoc]:
    """Figures in which the ranks differ."""
    return [each for each in doc.distributions if each.min < each.max]


def alike_words(doc: RanksDocument) -> str:
    """Figures in which they don't; empty where there are none."""
    alike = [each for each in doc.distributions if each.min == each.max]
    figures = ", ".join(f"{figure_words(each.figure)} {written(each.min, each.unit)}" for each in alike)
    return f"The same on all ranks: {figures}." if figures else ""


def chart_px(doc: RanksDocument, width_px: int) -> int:
    """Height of the histograms on a page of this width."""
    row_px = ROW_PX if width_px >= NARROW_PX else NARROW_ROW_PX
    return TOP_PX + row_px * -(-len(differing(doc)) // _columns(width_px))


def _columns(width_px: int) -> int:
    return 2 if width_px >= WIDE_PX else 1


def distribution_figure(doc: RanksDocument, theme: Theme, width_px: int) -> Figure:
    """A histogram of each figure in which the ranks differ, on an axis of its own, the outliers marked."""
    shown, columns, is_narrow = differing(doc), _columns(width_px), width_px < NARROW_PX
    outlying = by_row(doc)
    rows = max(1, -(-len(shown) // columns))
    data: list[dict[str, Any]] = []
    annotations: list[dict[str, Any]] = []
    axes: dict[str, Any] = {}
    names = labels(doc)
    for place, each in enumerate(shown):
        row, column = divmod(place, columns)
        suffix = "" if place == 0 else str(place + 1)
        left, right = column / columns + 0.006, (column + 1) / columns - 0.02
        top = 1 - row / rows
        bars = [top - 0.76 / rows, top - (0.36 if is_narrow else 0.24) / rows]
        ticks = _ticks(each, 3 if is_narrow else 4)
        axes[f"xaxis{suffix}"] = axis(
            theme,
            domain=[left, right],
            anchor=f"y{suffix}",
            range=_axis_range(each),
            tickvals=ticks,
            ticktext=[written(value, each.unit) for value in ticks],
            fixedrange=True,
            automargin=False,
            showgrid=False,
            ticklabeloverflow="allow",
        )
        axes[f"yaxis{suffix}"] = axis(theme, domain=bars, anchor=f"x{suffix}", visible=False, fixedrange=True)
        data += _histogram(doc, each, suffix, theme)
        data += _marks(doc, each, suffix, theme, names, [*outlying])
        annotations.append(_title(each, left, top, theme, "<br>" if is_narrow else "  "))
    figure = layout(theme, "", showlegend=False, annotations=annotations, bargap=0, **axes)
    figure["margin"] = {"l": 16, "r": 16, "t": 4, "b": 4}
    figure["height"] = chart_px(doc, width_px)
    return {"data": data, "layout": figure}


def _ticks(its: DistributionDoc, count: int) -> list[float]:
    """So many from the least to the most; whole counts alone where both of these are."""
    ticks = np.linspace(its.min, its.max, count)
    if its.unit == "count" and its.min.is_integer() and its.max.is_integer():
        ticks = np.unique(np.round(ticks))
    return [float(tick) for tick in ticks]


def _axis_range(its: DistributionDoc) -> list[float]:
    room = (its.max - its.min) * 0.04
    return [its.min - room, its.max + room]


def _histogram(doc: RanksDocument, its: DistributionDoc, suffix: str, theme: Theme) -> list[dict[str, Any]]:
    values = [value for row in doc.rows if (value := value_of(row, its.figure)) is not None]
    counts, edges = np.histogram(values, BINS, (its.min, its.max))
    there = np.flatnonzero(counts)
    ends = [written(edge, its.unit) for edge in edges.tolist()]
    texts = [f"{plural(int(counts[at]), 'rank')}<br>{ends[at]} to {ends[at + 1]}" for at in there.tolist()]
    bars = {
        "type": "bar",
        "name": figure_words(its.figure),
        "x": ((edges[:-1] + edges[1:]) / 2)[there].tolist(),
        "width": [float(edges[1] - edges[0])] * len(there),
        "y": np.sqrt(counts[there]).round(3).tolist(),  # one rank among hundreds must be seen
        "marker": {"color": theme.measured, "line": {"width": 0.5, "color": theme.panel}},
        "hovertext": texts,
        "hoverinfo": "text",
    }
    most = float(np.sqrt(counts.max()))
    middle = {
        "type": "scatter",
        "mode": "lines",
        "x": [its.median, its.median],
        "y": [0, most],
        "line": {"color": theme.ink, "width": 1.5, "dash": "dot"},
        "hovertext": f"median {written(its.median, its.unit)}",
        "hoverinfo": "text",
    }
    return [each | {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"} for each in (bars, middle)]


def _marks(
    doc: RanksDocument, its: DistributionDoc, suffix: str, theme: Theme, names: list[str], outlying: list[int]
) -> list[dict[str, Any]]:
    """The ranks that stand out by this figure."""
    rows = [row for row in outlying if any(each.figure == its.figure and each.row == row for each in doc.odd)][
        :_MOST_MARKS
    ]
    found = [(row, value) for row in rows if (value := value_of(doc.rows[row], its.figure)) is not None]
    if not found:
        return []
    marks = {
        "type": "scatter",
        "mode": "markers",
        "x": [value for _, value in found],
        "y": [0] * len(found),
        "marker": {"symbol": "triangle-up", "size": 11, "color": theme.accent},
        "cliponaxis": False,
        "hovertext": [f"<b>{escaped(names[row])}</b> {written(value, its.unit)}" for row, value in found],
        "hoverinfo": "text",
    }
    return [marks | {"xaxis": f"x{suffix}", "yaxis": f"y{suffix}"}]


def _title(its: DistributionDoc, left: float, top: float, theme: Theme, between: str) -> dict[str, Any]:
    known = (("p10", its.p10), ("median", its.median), ("p90", its.p90))
    spread = " · ".join(f"{name} {written(value, its.unit)}" for name, value in known)
    text = f"<b>{escaped(figure_words(its.figure))}</b>{between}<span style='color:{theme.muted}'>{spread}</span>"
    place = {"x": left, "xref": "paper", "xanchor": "left", "y": top, "yref": "paper", "yanchor": "top"}
    return {**place, "text": text, "showarrow": False, "align": "left", "font": {"size": TEXT_PX, "color": theme.ink}}
