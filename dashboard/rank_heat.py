"""A heat map of ranks × steps, as plain plotly JSON: no more cells than a screen has room for.

Where a cell stands for several, it is the longest of them: a median or a mean would hide the one that is slow.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from ..analysis.model.units import duration, number, plural
from .plotting import FONT, TEXT_PX, Figure, Theme, axis, escaped, even_ticks, note, tick_words

MOST_ROWS: Final = 400
MOST_COLUMNS: Final = 500
"""Cells of a heat map; further ranks and steps share one."""

HEIGHT_PX: Final = 620
"""Of the cells at most."""

_ROW_PX: Final = 26
_TOP_PX, _BOTTOM_PX, _RIGHT_PX = 8, 72, 14
_SCALE: Final = 0.6  # of the width: the scale of colours
_ROOM_PX: Final = 13  # for a label of a row
_TICK_PX: Final = 64  # of a label of a step, or of the scale
_LEAST_CELL_PX: Final = 1.5
_LEAST_PLOT_PX: Final = 100
_LABEL_PX: Final = 7.2  # of a character
_MOST_LABEL: Final = 30  # characters

_LEAST_SPREAD: Final = 0.05
"""Of the median, that the colours reach to either side: else noise would look like a straggler."""

_ENDS: Final = (2.0, 98.0)
"""Percentiles at which the colours end, where what lies beyond is farther than as much again."""

_MS: Final = 1e6
_BETWEEN_ROWS: Final = " … "
_BETWEEN_STEPS: Final = "–"


@dataclass(frozen=True, eq=False)
class Heat:
    """``values`` [rows, steps] in ns, NaN where there is none; labels are unique."""

    what: str  # 'step period'
    rows: Sequence[str]
    steps: Sequence[int]  # what each column's step is called
    values: NDArray[np.float64]


@dataclass(frozen=True, eq=False)
class Cells:
    """What is drawn: each cell is the longest of those of its rows and steps, and ``row`` and ``step`` say which."""

    values: NDArray[np.float64]  # [r, c] NaN where none of them has one
    row: NDArray[np.int64]  # [r, c] place in Heat.rows
    step: NDArray[np.int64]  # [r, c] place in Heat.steps
    rows_in_one: int
    steps_in_one: int
    row_labels: list[str]  # [r]
    step_labels: list[str]  # [c]


def cells(heat: Heat, most_rows: int = MOST_ROWS, most_columns: int = MOST_COLUMNS) -> Cells:
    """The heat map in at most so many cells."""
    rows, steps = heat.values.shape
    high, wide = max(1, -(-rows // most_rows)), max(1, -(-steps // most_columns))
    down, along = -(-rows // high), -(-steps // wide)
    padded = np.full((down * high, along * wide), -1.0)
    padded[:rows, :steps] = np.nan_to_num(heat.values, nan=-1.0)
    parts = padded.reshape(down, high, along, wide).swapaxes(1, 2).reshape(down, along, high * wide)
    longest = parts.argmax(axis=2)
    values = np.take_along_axis(parts, longest[:, :, None], axis=2)[:, :, 0]
    return Cells(
        np.where(values < 0, np.nan, values),
        np.arange(down)[:, None] * high + longest // wide,
        np.arange(along)[None, :] * wide + longest % wide,
        high,
        wide,
        [_rows_named(heat.rows[at : at + high]) for at in range(0, rows, high)],
        [_steps_named(heat.steps[at : at + wide]) for at in range(0, steps, wide)],
    )


def _rows_named(labels: Sequence[str]) -> str:
    return labels[0] if len(labels) == 1 else f"{labels[0]}{_BETWEEN_ROWS}{labels[-1]}"


def _steps_named(steps: Sequence[int]) -> str:
    return f"step {steps[0]:,}" if len(steps) == 1 else f"steps {steps[0]:,}{_BETWEEN_STEPS}{steps[-1]:,}"


def cell_at(heat: Heat, click: Any) -> tuple[int, int] | None:
    """The row and the step of a click's cell, of several the longest; None beside one."""
    points: Any = (click or {}).get("points") or [{}]
    rows = _named_by(points[0].get("y"), {escaped(label): at for at, label in enumerate(heat.rows)}, _BETWEEN_ROWS)
    named = str(points[0].get("x") or "").partition(" ")[2]
    steps = _named_by(named, {f"{step:,}": at for at, step in enumerate(heat.steps)}, _BETWEEN_STEPS)
    if rows is None or steps is None:
        return None
    part = np.nan_to_num(heat.values[rows, steps], nan=-1.0)
    row, step = divmod(int(part.argmax()), part.shape[1])
    return None if part[row, step] < 0 else (rows.start + row, steps.start + step)


def drawn_cells(heat: Heat, width_px: int) -> Cells:
    """Those of a heat map of this width: a cell has a pixel and a half at least."""
    return cells(heat, most_columns=min(MOST_COLUMNS, round(_plot_px(heat.rows, width_px) / _LEAST_CELL_PX)))


def _plot_px(rows: Sequence[str], width_px: int) -> int:
    """Width of the cells."""
    return max(_LEAST_PLOT_PX, width_px - _left_px(rows) - _RIGHT_PX)


def _left_px(rows: Sequence[str]) -> int:
    return round(min(max(map(len, rows), default=4), _MOST_LABEL) * _LABEL_PX) + 14


def _named_by(label: Any, places: Mapping[str, int], between: str) -> slice | None:
    """From the first to the last of the places that a cell's label names."""
    if label in places:
        return slice(places[label], places[label] + 1)
    first, _, last = str(label).partition(between)
    return slice(places[first], places[last] + 1) if first in places and last in places else None


def height_px(rows: int) -> int:
    """Of a heat map of so many rows."""
    drawn = min(rows, MOST_ROWS)
    return round(min(drawn * _ROW_PX, max(HEIGHT_PX, 1.5 * drawn))) + _TOP_PX + _BOTTOM_PX


def color_range(values: NDArray[np.float64]) -> tuple[float, float] | None:
    """Where the colours begin and end; None without a value.

    A few far out are beyond the ends: they would leave one colour for all others.
    """
    known = values[~np.isnan(values)]
    if not len(known):
        return None
    lowest, low, median, high, highest = np.percentile(known, (0.0, _ENDS[0], 50.0, _ENDS[1], 100.0)).tolist()
    least, most = median * (1 - _LEAST_SPREAD), median * (1 + _LEAST_SPREAD)
    low = low if median - lowest > 2 * (median - low) else lowest
    high = high if highest - median > 2 * (high - median) else highest
    return min(low, least), max(high, most, least + 1.0)


def heat_figure(heat: Heat, theme: Theme, width_px: int, shown: Sequence[tuple[int, int]] = ()) -> Figure:
    """The heat map; the cells of the rows and steps that are ``shown`` elsewhere are outlined."""
    drawn = drawn_cells(heat, width_px)
    ends = color_range(drawn.values)
    if ends is None:
        blank = axis(theme, visible=False)
        why = note(theme, f"no {escaped(heat.what)} is known")
        return {
            "data": [],
            "layout": _layout(heat, drawn, theme, width_px) | {"xaxis": blank, "yaxis": blank, "annotations": [why]},
        }
    unit_ns, unit = (_MS, "ms") if ends[1] >= _MS else (1e3, "µs")
    low, high = (end / unit_ns for end in ends)
    ticks = even_ticks(*ends)
    ticks = ticks[:: -(-len(ticks) * _TICK_PX // max(_TICK_PX, round(_plot_px(heat.rows, width_px) * _SCALE)))]
    bar = {
        "orientation": "h",
        "x": 0,
        "xanchor": "left",
        "xref": "paper",
        "y": 0,
        "yref": "container",
        "yanchor": "bottom",
        "len": _SCALE,
        "thickness": 12,
        "outlinewidth": 0,
        "tickvals": [ns / unit_ns for ns in ticks],
        "ticktext": tick_words(ticks),
        "tickfont": {"size": TEXT_PX - 1},
        "tickangle": 0,
    }
    longest = "" if drawn.values.size == heat.values.size else "<br>the longest of those in this cell"
    trace = {
        "type": "heatmap",
        "name": heat.what,
        "x": drawn.step_labels,
        "y": [escaped(label) for label in drawn.row_labels],
        "z": _rounded(drawn.values / unit_ns, high),
        "zmin": low,
        "zmax": high,
        "colorscale": colors(theme),
        "colorbar": bar,
        "hoverongaps": False,
        "xgap": 1 if len(drawn.step_labels) <= 120 else 0,
        "ygap": 1 if len(drawn.row_labels) <= 64 else 0,
        "hovertemplate": f"<b>%{{y}}</b>, %{{x}}<br>{escaped(heat.what)} %{{z:,}} {unit}{longest}<extra></extra>",
    }
    return {
        "data": [trace],
        "layout": _layout(heat, drawn, theme, width_px) | {"shapes": _outlines(drawn, shown, theme)},
    }


def _rounded(values: NDArray[np.float64], most: float) -> list[list[float | None]]:
    """To four digits of the end of the scale: what a colour and a tooltip can tell."""
    decimals = max(0, 3 - math.floor(math.log10(most)))
    there = ~np.isnan(values)
    rounded = np.full(values.shape, None, dtype=object)
    rounded[there] = np.round(values[there], decimals)
    cells: list[list[float | None]] = rounded.tolist()
    return cells


def colors(theme: Theme) -> list[list[Any]]:
    """From little to much: ever darker on light paper, ever lighter on dark paper."""
    light, dark = ("#FFF3DC", "#F2B04A", "#C24A00", "#571A00"), ("#24282D", "#71400F", "#E0731A", "#FFE7B8")
    chosen = dark if theme.name == "dark" else light
    return [[place / 3, color] for place, color in enumerate(chosen)]


def heat_words(heat: Heat, width_px: int) -> list[str]:
    """What must be known to read it: what a cell stands for where that is several, and what the colours leave out."""
    drawn = drawn_cells(heat, width_px)
    several = [(drawn.rows_in_one, "ranks"), (drawn.steps_in_one, "steps")]
    of = " and ".join(f"{number(count)} {what}" for count, what in several if count > 1)
    sentences = [f"A cell is the longest of {of}."] if of else []
    ends = color_range(drawn.values)
    if ends is not None:
        beyond = [
            f"{plural(count, 'cell')} {words}"
            for count, words in (
                (int((drawn.values > ends[1]).sum()), f"over {duration(ends[1])}"),
                (int((drawn.values < ends[0]).sum()), f"under {duration(ends[0])}"),
            )
            if count
        ]
        sentences += [f"{' and '.join(beyond)} in the colour of the scale's end."] if beyond else []
    return sentences


def _layout(heat: Heat, drawn: Cells, theme: Theme, width_px: int) -> dict[str, Any]:
    rows, columns = len(drawn.row_labels), len(drawn.step_labels)
    height = height_px(len(heat.rows))
    every_row = max(1, -(-rows * _ROOM_PX // max(1, height - _TOP_PX - _BOTTOM_PX)))
    every_step = max(1, -(-columns * _TICK_PX // _plot_px(heat.rows, width_px)))
    short = [label if len(label) <= _MOST_LABEL else f"{label[: _MOST_LABEL - 1]}…" for label in drawn.row_labels]
    steps = [label.partition(" ")[2].partition("–")[0] for label in drawn.step_labels]
    font = {"family": FONT, "size": TEXT_PX, "color": theme.ink}
    return {
        "height": height,
        "margin": {"l": _left_px(heat.rows), "r": _RIGHT_PX, "t": _TOP_PX, "b": _BOTTOM_PX},
        "font": font,
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": theme.panel,
        "hoverlabel": {"align": "left", "bgcolor": theme.paper, "bordercolor": theme.muted, "font": font},
        "dragmode": False,
        "xaxis": axis(
            theme,
            type="category",
            fixedrange=True,
            showgrid=False,
            automargin=False,
            tickvals=list(range(0, columns, every_step)),
            ticktext=[f"step {each}" if not at else each for at, each in enumerate(steps[::every_step])],
            tickangle=0,
        ),
        "yaxis": axis(
            theme,
            type="category",
            autorange="reversed",
            fixedrange=True,
            showgrid=False,
            automargin=False,
            tickvals=list(range(0, rows, every_row)),
            ticktext=[escaped(label) for label in short[::every_row]],
        ),
    }


def _outlines(drawn: Cells, shown: Sequence[tuple[int, int]], theme: Theme) -> list[dict[str, Any]]:
    found = []
    for row, step in shown:
        r, c = row // drawn.rows_in_one, step // drawn.steps_in_one
        place = {"x0": c - 0.5, "x1": c + 0.5, "y0": r - 0.5, "y1": r + 0.5}
        found.append({"type": "rect", **place, "line": {"color": theme.accent, "width": 2}})
    return found
