"""What stands around the timeline's rectangles: axes, labels, titles and notes, and where the step starts and ends."""

from __future__ import annotations

from typing import Final

import numpy as np

from ...analysis.model.units import duration, ratio
from ..plotting import FONT, Theme
from ..view import Align, View
from .hover import escaped
from .rectangles import Trace
from .stage import (
    BOTTOM_PX,
    IDLE_PX,
    LEFT_PX,
    NOTE_PX,
    QUEUE_PX,
    RIGHT_PX,
    TITLE_PX,
    TOP_PX,
    PlacedBand,
    Stage,
)

_LABEL_CHARS: Final = 16

_AXES: Final[dict[Align, tuple[str, str]]] = {
    "time": ("µs since the step's first GPU op", ",~f"),
    "step": ("share of the step", ".4~p"),
    "clock": ("µs since the first rank's first GPU op of the step", ",~f"),
}


def timeline_layout(placed: Stage, view: View, theme: Theme, width_px: int) -> Trace:
    """The figure's layout."""
    annotations, ticks = [], []
    for band in placed.bands:
        annotations += _words(band, view, theme)
        ticks += [(place.middle, place.lane.label) for place in band.lane_places if place.lane.label]
        ticks += [(band.queue + QUEUE_PX / 2, "queue depth")] if band.queue is not None else []
        ticks += [(band.idle + IDLE_PX / 2, "GPU idle")] if band.idle is not None else []
    if not placed.bands:
        annotations.append(_text("Nothing is shown: choose a trace.", TITLE_PX, theme.muted))
    title, ticks_as = _AXES[view.align]
    font = {"family": FONT, "color": theme.ink, "size": 12}
    return {
        "width": width_px,
        "height": placed.height + TOP_PX + BOTTOM_PX,
        "margin": {"l": LEFT_PX, "r": RIGHT_PX, "t": TOP_PX, "b": BOTTOM_PX},
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": theme.paper,
        "font": font,
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "bgcolor": theme.panel, "font": font},
        "dragmode": "pan",
        "meta": {"whole": list(placed.whole)},
        "barmode": "overlay",
        "uirevision": "|".join([view.align, str(view.step), *(band.lanes.band.key for band in placed.bands)]),
        "xaxis": {
            "range": list(placed.view),
            "side": "top",
            "title": {"text": title, "standoff": 4},
            "tickformat": ticks_as,
            "gridcolor": theme.grid,
            "zeroline": False,
        },
        "yaxis": {
            "range": [placed.height, 0],
            "fixedrange": True,
            "tickmode": "array",
            "tickvals": [middle for middle, _ in ticks],
            "ticktext": [escaped(label, _LABEL_CHARS) for _, label in ticks],
            "tickfont": {"color": theme.muted, "size": 11},
            "showgrid": False,
            "zeroline": False,
        },
        "annotations": annotations,
    }


def _words(band: PlacedBand, view: View, theme: Theme) -> list[Trace]:
    """The band's title and notes."""
    lanes = band.lanes
    windows = lanes.band.step_windows
    title = f"<b>{escaped(lanes.band.label, 60)}</b>"
    if windows:
        since, until = lanes.window(view.step)
        steps = lanes.band.analysis.context.steps
        kept = len(steps.kept_rows)
        which = f"step {min(view.step, len(windows) - 1) + 1:,} of {len(windows):,}" if kept else "whole"
        idle = 0 if lanes.gaps is None else int(lanes.gaps.covered_ns(np.array([since, until])).sum())
        title += f"  {which}, {duration(until - since)} as recorded, GPU idle {ratio(idle, until - since)}"
    words = [_text(title, band.title + TITLE_PX / 2, theme.ink)]
    for note, top in zip(lanes.notes, band.notes, strict=True):
        words.append(_text(escaped(note, 160), top + NOTE_PX / 2, theme.muted))
    return words


def _text(text: str, middle: float, color: str) -> Trace:
    place = {"xref": "paper", "x": 0, "xanchor": "left", "yref": "y", "y": middle, "yanchor": "middle"}
    return place | {"text": text, "showarrow": False, "font": {"color": color, "size": 12}, "align": "left"}
