"""The timelines of several bands as one figure, with all that stands around them: plotly JSON, made for every view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import numpy as np

from ...analysis.model.document import CAUSES
from ...analysis.model.units import duration, ratio
from ..band import Band
from ..plotting import CAUSE_COLORS, FONT, LIGHT, Theme
from ..rank_sets import Clock
from ..view import Align, View
from .heat_strip import FAINTEST, Lane, heat_strip
from .hover import CAUSE_WORDS, escaped
from .rectangles import Marks, Rectangles, Trace, mixed, search_count, selected_name, style_colors
from .stage import (
    BOTTOM_PX,
    IDLE_PX,
    LEFT_PX,
    MOST_COLUMNS,
    NOTE_PX,
    QUEUE_PX,
    RIGHT_PX,
    TITLE_PX,
    TOP_PX,
    PlacedBand,
    PlacedLane,
    Stage,
    column_edges,
    stage,
)

__all__ = ["collective_legend", "legend_items", "search_count", "timeline_figure"]

Figure = dict[str, Any]

MOST_RECTS: Final = 4_000
"""Rectangles in view; lanes that have no room among them are drawn as heat strips."""

MOST_THIN: Final = 0.08
"""Rectangles narrower than two pixels, per pixel of a lane. Plotly widens each of them so that it is seen: with more
of them a lane would look busier than it is."""


_CLEAR: Final = "rgba(0,0,0,0)"


def legend_items(theme: Theme) -> list[dict[str, str]]:
    """The causes of gaps as a legend shows them: name, colour and what it means."""
    return [{"cause": cause, "color": CAUSE_COLORS[cause], "meaning": CAUSE_WORDS[cause]} for cause in CAUSES]


def collective_legend(bands: Sequence[Band]) -> list[dict[str, str]]:
    """What a legend says of collectives; nothing where none is drawn."""
    meaning = "collectives: kernels that communicate with other GPUs, and wait for them"
    has_some = any(len(band.analysis.context.collectives) for band in bands)
    return [{"color": LIGHT.collective, "meaning": meaning}] if has_some else []


def timeline_figure(
    bands: Sequence[Band], view: View, theme: Theme, width_px: int = 1200, clocks: Mapping[str, Clock] | None = None
) -> Figure:
    """The bands one below the other on one axis: what is in view, and a little on either side.

    Rectangles have customdata [band key, kind, row]: ``gpu_op``, ``launch``, ``blocking`` and ``host_op`` are rows of
    the trace's tables, ``gap`` of the headline device's gaps. Heat strips and lines have a list of one number, a count.
    """
    placed = stage(bands, view, width_px, clocks)
    name = selected_name(bands, view)
    marks = {id(band): Marks.of(band.lanes, view, name) for band in placed.bands}
    strips: list[Trace] = []
    bars = Rectangles(theme, placed)
    as_strips = _crowded(placed)
    for band in placed.bands:
        for place in band.lane_places:
            if id(place) in as_strips:
                strips += _strip(band, place, placed, theme, dim=bool(view.search))
                bars.add_marks(band, place, marks[id(band)])
            else:
                for layer in place.lane.layers:
                    bars.add(band, place, layer, marks[id(band)])
    lines = [line for band in placed.bands for line in _overlays(band, placed, theme)]
    lines += [line for band in placed.bands for line in _launch_line(band, marks[id(band)], theme)]
    return {
        "data": [*strips, *bars.traces(), *_over_the_bands(placed, view, theme), *lines],
        "layout": timeline_layout(placed, view, theme, width_px),
    }


def _crowded(placed: Stage) -> set[int]:
    """The placed lanes that hold too much to be drawn as rectangles; lanes with few get their place first."""
    counts: list[tuple[int, int, int]] = []
    crowded = set()
    for band in placed.bands:
        since, until = map(band.scale.time_ns, placed.view)
        px_per_ns = placed.plot_px / max(1, until - since)
        for place in band.lane_places:
            count = place.lane.most_within(since, until)
            if count > MOST_RECTS or _thin(place.lane, since, until, px_per_ns) > MOST_THIN * placed.plot_px:
                crowded.add(id(place))
            else:
                counts.append((count, len(counts), id(place)))
    room = MOST_RECTS
    for count, _, key in sorted(counts):
        room -= count
        if room < 0:
            crowded.add(key)
    return crowded


def _thin(lane: Lane, since_ns: int, until_ns: int, px_per_ns: float) -> int:
    """Rectangles that plotly would widen."""
    thin = 0
    for layer in lane.layers:
        places = layer.within(since_ns, until_ns)
        thin += int(((layer.end_ns[places] - layer.start_ns[places]) * px_per_ns < 2).sum())
    return thin


def _strip(band: PlacedBand, place: PlacedLane, placed: Stage, theme: Theme, *, dim: bool) -> list[Trace]:
    """A lane by pixel columns: a trace per style, of the columns that it has most of. Idle ones are left blank."""
    low, high = placed.drawn
    edges = column_edges(band.scale.time_ns(low), band.scale.time_ns(high), placed)
    strip = heat_strip(place.lane, edges)
    each = (high - low) / (len(edges) - 1)
    traces = []
    for number, layer in enumerate(place.lane.layers):
        columns = np.flatnonzero((strip.layer == number) & (strip.share > 0))
        if not len(columns):
            continue
        first, last = int(columns[0]), int(columns[-1]) + 1
        shown = strip.layer[first:last] == number
        share = np.round(strip.share[first:last], 3)
        color = style_colors(theme)[layer.style]
        traces.append(
            {
                "type": "heatmap",
                "name": layer.style,
                "x0": low + (first + 0.5) * each,
                "dx": each,
                "y": [place.top, place.top + place.lane.height],
                "z": [[z if there and z else None for z, there in zip(share.tolist(), shown.tolist(), strict=True)]],
                "customdata": [strip.rects[first:last, np.newaxis].tolist()],
                "zmin": 0,
                "zmax": 1,
                "colorscale": [[0, mixed(theme.paper, color, FAINTEST)], [1, color]],
                "showscale": False,
                "hoverongaps": False,
                "opacity": 0.35 if dim else 1,
                "hovertemplate": _strip_words(layer.style, place.lane.label) + "<extra></extra>",
            }
        )
    return traces


def _over_the_bands(placed: Stage, view: View, theme: Theme) -> list[Trace]:
    """Stripes over the gaps' lanes, where idle is hatched; a veil over what the GPU did before and after the step.

    A pattern of each rectangle's own would cost a browser more than the rectangle does.
    """
    low, high = placed.drawn
    stripes, veils = [], []  # (start, length, middle, height)
    for band in placed.bands:
        gpu = [place for place in band.lane_places if place.lane not in band.lanes.host]
        stripes += [(low, high - low, p.middle, p.lane.height) for p in gpu if p.lane is band.lanes.gaps]
        if gpu and band.lanes.band.step_windows:
            start, end = band.scale.x(np.array(band.lanes.window(view.step)))
            sides = (low, min(start, high)), (max(end, low), high)
            height = band.bottom - gpu[0].top
            veils += [(x0, x1 - x0, gpu[0].top + height / 2, height) for x0, x1 in sides if x0 < x1]
    pattern = {"shape": "/", "fillmode": "replace", "fgcolor": theme.paper, "bgcolor": _CLEAR}
    return [
        *_covers("hatching", stripes, {"color": _CLEAR, "pattern": pattern | {"size": 6, "solidity": 0.3}}),
        *_covers("veil", veils, {"color": theme.paper, "opacity": 0.6}),
        *_step_edges(placed, view, theme),
    ]


def _covers(name: str, places: Sequence[tuple[float, float, float, float]], marker: Trace) -> list[Trace]:
    if not places:
        return []
    base, x, y, width = (list(column) for column in zip(*places, strict=True))
    bars = {"type": "bar", "orientation": "h", "name": name, "base": base, "x": x, "y": y, "width": width}
    return [bars | {"hoverinfo": "skip", "marker": {"line": {"width": 0}, **marker}}]


def _step_edges(placed: Stage, view: View, theme: Theme) -> list[Trace]:
    """Where each band's step starts and ends."""
    x: list[float | None] = []
    y: list[float | None] = []
    for band in placed.bands:
        if band.lanes.band.step_windows:
            for edge in band.scale.x(np.array(band.lanes.window(view.step))):
                x += [edge, edge, None]
                y += [band.title + TITLE_PX + NOTE_PX * len(band.notes), band.bottom, None]
    line = {"type": "scatter", "mode": "lines", "name": "step", "x": x, "y": y, "hoverinfo": "skip"}
    return [line | {"line": {"color": theme.muted, "width": 1, "dash": "dot"}}] if x else []


def _strip_words(style: str, label: str) -> str:
    if style in CAUSE_COLORS:
        return f"<b>idle %{{z:.0%}}</b>, most of it {style}<br>%{{customdata[0]}} parts of gaps<br>zoom in to see each"
    return f"<b>{style}</b> %{{z:.0%}} of this column<br>%{{customdata[0]}} here<br>zoom in to see each"


def _overlays(band: PlacedBand, placed: Stage, theme: Theme) -> list[Trace]:
    """Queue depth as a line, and idle as a strip."""
    traces: list[Trace] = []
    low, high = placed.drawn
    since, until = band.scale.time_ns(low), band.scale.time_ns(high)
    if band.queue is not None:
        traces.append(_queue_line(band, band.queue, since, until, placed, theme))
    gaps = band.lanes.gaps
    if band.idle is not None and gaps is not None:
        edges = column_edges(since, until, placed)
        share = gaps.covered_ns(edges) / np.maximum(np.diff(edges), 1)
        each = (high - low) / (len(edges) - 1)
        traces.append(
            {
                "type": "heatmap",
                "name": "idle",
                "x0": low + each / 2,
                "dx": each,
                "y": [band.idle, band.idle + IDLE_PX],
                "z": [np.round(share, 3).tolist()],
                "zmin": 0,
                "zmax": 1,
                "colorscale": [[0, theme.paper], [1, theme.ink]],
                "showscale": False,
                "hovertemplate": "GPU idle %{z:.0%}<extra></extra>",
            }
        )
    return traces


def _queue_line(band: PlacedBand, top: int, since: int, until: int, placed: Stage, theme: Theme) -> Trace:
    """GPU ops launched and not started; of many steps of the line the highest of each pixel column."""
    times, depth = band.lanes.queue_depth
    first = max(0, int(np.searchsorted(times, since, side="right")) - 1)
    last = int(np.searchsorted(times, until, side="right"))
    times, depth = times[first:last], depth[first:last]
    if len(times) > MOST_COLUMNS:
        edges = column_edges(since, until, placed)
        starts = np.unique(np.searchsorted(times, edges[:-1]).clip(0, len(times) - 1))
        times, depth = times[starts], np.maximum.reduceat(depth, starts)
    most = max(1, int(band.lanes.queue_depth[1].max(initial=0)))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "queue depth",
        "x": band.scale.x(times),
        "y": np.round(top + QUEUE_PX * (1 - depth / most), 2).tolist(),
        "customdata": depth[:, np.newaxis].tolist(),
        "line": {"shape": "hv", "color": theme.ink, "width": 1},
        "hovertemplate": f"%{{customdata[0]}} GPU ops queued, at most {most:,}<extra></extra>",
    }


def _launch_line(band: PlacedBand, marks: Marks, theme: Theme) -> list[Trace]:
    """From the selected op's launch call to the op."""
    if marks.selected_op < 0 or marks.selected_launch < 0:
        return []
    trace = band.lanes.band.analysis.context.trace
    called_ns = trace.launches.start_ns[marks.selected_launch]
    started_ns = trace.gpu_ops.start_ns[marks.selected_op]
    ends = []
    for kind, row in (("launch", marks.selected_launch), ("gpu_op", marks.selected_op)):
        lanes = [p for p in band.lane_places for each in p.lane.layers if each.kind == kind and (each.row == row).any()]
        ends += [p.top + p.lane.height if kind == "launch" else p.top for p in lanes[:1]]
    if len(ends) < 2:
        return []
    return [
        {
            "type": "scatter",
            "mode": "lines",
            "name": "launch to op",
            "x": band.scale.x(np.array([called_ns, started_ns])),
            "y": ends,
            "line": {"color": theme.accent, "width": 1.5},
            "hoverinfo": "skip",
        }
    ]


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
