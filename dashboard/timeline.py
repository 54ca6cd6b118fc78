"""The timelines of several bands as one figure: plain plotly JSON, made anew for every view."""

from __future__ import annotations

import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np

from ..analysis.document import CAUSES
from ..analysis.units import duration, ratio
from .heat_strip import Lane, Rects, heat_strip
from .hover import CAUSE_WORDS, escaped, hover_texts
from .marks import Marks, Tone, search_count, selected_name
from .opened import Band
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
    PlacedLane,
    Stage,
    stage,
)
from .theme import CAUSE_COLORS, Theme
from .view import View

__all__ = ["legend_items", "search_count", "timeline_figure"]

Figure = dict[str, Any]
Trace = dict[str, Any]

MOST_RECTS: Final = 4_000
"""Rectangles in view; lanes that have no room among them are drawn as heat strips."""

MOST_THIN: Final = 0.08
"""Rectangles narrower than two pixels, per pixel of a lane. Plotly widens each of them so that it is seen: with more
of them a lane would look busier than it is."""

MOST_COLUMNS: Final = 2_000

PATTERNS: Final[Mapping[str, str]] = {
    "host": "/", "launch": "\\", "dispatch": "x", "sync": "|", "graph": "-", "device": "+", "unlinked": ".",
    "skewed": ".",
}  # fmt: skip
"""How gaps of each cause are hatched: colour is not the only thing that tells them apart."""

_LABEL_CHARS: Final = 17
_CHAR_PX: Final = 6.2  # of a name inside its rectangle
_NAME_PX: Final = 40  # a rectangle has its name inside from this width on


def legend_items(theme: Theme) -> list[dict[str, str]]:
    """The causes of gaps as a legend shows them: name, colour, how it is hatched, and what it means."""
    return [
        {"cause": cause, "color": CAUSE_COLORS[cause], "pattern": PATTERNS[cause], "meaning": CAUSE_WORDS[cause]}
        for cause in CAUSES
    ]


def timeline_figure(bands: Sequence[Band], view: View, theme: Theme, width_px: int = 1200) -> Figure:
    """The bands one below the other on one axis: what is in view, and a little on either side.

    Rectangles have customdata [band key, kind, row]: ``gpu_op``, ``launch``, ``blocking`` and ``host_op`` are rows of
    the trace's tables, ``gap`` of the headline device's gaps. Heat strips and lines have none of three.
    """
    placed = stage(bands, view, width_px)
    name = selected_name(bands, view)
    marks = {id(band): Marks.of(band.lanes, view, name) for band in placed.bands}
    strips: list[Trace] = []
    bars = _Bars(theme, placed)
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
    return {"data": [*strips, *bars.traces(), *lines], "layout": _layout(placed, view, theme, width_px)}


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


@dataclass
class _Series:
    """Rectangles of one style and tone."""

    base: list[float] = field(default_factory=list)
    x: list[float] = field(default_factory=list)
    y: list[float] = field(default_factory=list)
    width: list[int] = field(default_factory=list)
    customdata: list[list[Any]] = field(default_factory=list)
    hovertext: list[str] = field(default_factory=list)
    text: list[str] = field(default_factory=list)


class _Bars:
    """Rectangles as they gather, by tone and style."""

    def __init__(self, theme: Theme, placed: Stage) -> None:
        self._theme = theme
        self._placed = placed
        self._series: dict[tuple[Tone, str], _Series] = {}

    def add(self, band: PlacedBand, place: PlacedLane, layer: Rects, marks: Marks) -> None:
        """The layer's rectangles that are drawn, as far as they are: a name stands in the middle of what is seen."""
        since, until = map(band.scale.time_ns, self._placed.drawn)
        places = layer.within(since, until)
        tones = marks.tones(layer.kind, layer.row[places])
        for tone in np.unique(tones).tolist():
            chosen = places[tones == tone]
            series = self._series.setdefault((Tone(tone), layer.style), _Series())
            rows = layer.row[chosen]
            starts, ends = (np.clip(ns[chosen], since, until) for ns in (layer.start_ns, layer.end_ns))
            lengths = band.scale.length(ends - starts)
            series.base += band.scale.x(starts)
            series.x += lengths
            series.y += [place.middle] * len(chosen)
            series.width += [place.lane.height] * len(chosen)
            series.customdata += [[band.lanes.band.key, layer.kind, row] for row in rows.tolist()]
            texts = hover_texts(band.lanes, layer.kind, rows, layer.style)
            series.hovertext += texts
            series.text += [""] * len(texts) if layer.kind == "gap" else self._inside(texts, lengths)

    def _inside(self, texts: list[str], lengths: list[float]) -> list[str]:
        """The name that a hover text begins with, where the rectangle has room for it."""
        low, high = self._placed.view
        px = self._placed.plot_px / (high - low)
        return [
            escaped(html.unescape(_in_bold(text)), int(length * px / _CHAR_PX)) if length * px >= _NAME_PX else ""
            for text, length in zip(texts, lengths, strict=True)
        ]

    def add_marks(self, band: PlacedBand, place: PlacedLane, marks: Marks) -> None:
        """What is found and lit on a heat strip: a mark for each column that has any."""
        since, until = map(band.scale.time_ns, self._placed.drawn)
        edges = _edges(since, until, self._placed)
        for layer in place.lane.layers:
            if layer.kind not in marks.kinds:
                continue
            places = layer.within(since, until)
            tones = marks.tones(layer.kind, layer.row[places])
            for tone in np.unique(tones[tones >= Tone.FOUND]).tolist():
                chosen = places[tones == tone]
                column = np.clip(np.searchsorted(edges, layer.start_ns[chosen], side="right") - 1, 0, len(edges) - 2)
                columns, first, count = np.unique(column, return_index=True, return_counts=True)
                series = self._series.setdefault((Tone(tone), layer.style), _Series())
                series.base += band.scale.x(edges[columns])
                series.x += band.scale.length(edges[columns + 1] - edges[columns])
                series.y += [place.middle] * len(columns)
                series.width += [place.lane.height] * len(columns)
                rows = layer.row[chosen[first]]
                series.customdata += [[band.lanes.band.key, layer.kind, row] for row in rows.tolist()]
                texts = hover_texts(band.lanes, layer.kind, rows, layer.style)
                more = [f"<br>and {n - 1:,} more here" if n > 1 else "" for n in count.tolist()]
                series.hovertext += map("".join, zip(texts, more, strict=True))
                series.text += [""] * len(columns)

    def traces(self) -> list[Trace]:
        """One trace per tone and style, the more important ones over the others."""
        return [self._trace(tone, style, self._series[tone, style]) for tone, style in sorted(self._series)]

    def _trace(self, tone: Tone, style: str, series: _Series) -> Trace:
        trace: Trace = {
            "type": "bar",
            "orientation": "h",
            "name": style,
            "base": series.base,
            "x": series.x,
            "y": series.y,
            "width": series.width[0] if len(set(series.width)) == 1 else series.width,
            "customdata": series.customdata,
            "hovertext": series.hovertext,
            "hoverinfo": "text",
            "marker": self._marker(tone, style),
        }
        if any(series.text):
            trace |= {
                "text": series.text,
                "textposition": "inside",
                "insidetextanchor": "middle",
                "textangle": 0,
                "constraintext": "none",
                "insidetextfont": {"color": self._theme.paper if self._theme.name == "dark" else "#FFFFFF", "size": 10},
            }
        return trace

    def _marker(self, tone: Tone, style: str) -> Trace:
        color = _colors(self._theme)[style]
        marker: Trace = {"color": color, "line": {"width": 0}}
        if style in PATTERNS:
            marker["pattern"] = {
                "shape": PATTERNS[style],
                "fillmode": "replace",
                "fgcolor": color,
                "bgcolor": _mixed(self._theme.paper, color, 0.25),
                "size": 6,
                "solidity": 0.4,
            }
        if tone == Tone.DIM:
            marker["opacity"] = 0.25
        outlines = {
            Tone.FOUND: (self._theme.found, 2),
            Tone.LIT: (self._theme.accent, 1),
            Tone.SELECTED: (self._theme.accent, 3),
        }
        if tone in outlines:
            outline, width = outlines[tone]
            marker["line"] = {"width": width, "color": outline}
            if tone == Tone.LIT:
                marker["color"] = _mixed(color, self._theme.accent, 0.5)
        return marker


def _in_bold(text: str) -> str:
    return text.partition("</b>")[0].removeprefix("<b>")


def _colors(theme: Theme) -> Mapping[str, str]:
    return {
        "kernel": theme.kernel,
        "copy": theme.copy,
        "launch call": theme.launch,
        "blocking call": CAUSE_COLORS["sync"],
        "operator": theme.operator,
        "python": theme.operator,
        **CAUSE_COLORS,
    }


def _strip(band: PlacedBand, place: PlacedLane, placed: Stage, theme: Theme, *, dim: bool) -> list[Trace]:
    """A lane by pixel columns: a trace per style, of the columns that it has most of. Idle ones are left blank."""
    low, high = placed.drawn
    edges = _edges(band.scale.time_ns(low), band.scale.time_ns(high), placed)
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
        color = _colors(theme)[layer.style]
        traces.append(
            {
                "type": "heatmap",
                "name": layer.style,
                "x0": low + (first + 0.5) * each,
                "dx": each,
                "y": [place.top, place.top + place.lane.height],
                "z": [[z if there and z else None for z, there in zip(share.tolist(), shown.tolist(), strict=True)]],
                "customdata": [strip.rects[first:last].tolist()],
                "zmin": 0,
                "zmax": 1,
                "colorscale": [[0, _mixed(theme.paper, color, 0.15)], [1, color]],
                "showscale": False,
                "hoverongaps": False,
                "opacity": 0.35 if dim else 1,
                "hovertemplate": _strip_words(layer.style, place.lane.label) + "<extra></extra>",
            }
        )
    if place.lane is band.lanes.gaps:
        traces.append(_hatching(place, placed, theme))
    return traces


def _hatching(place: PlacedLane, placed: Stage, theme: Theme) -> Trace:
    """Over a strip of gaps: idle is hatched, whatever its cause."""
    low, high = placed.drawn
    pattern = {"shape": "/", "fillmode": "replace", "fgcolor": theme.paper, "bgcolor": "rgba(0,0,0,0)"}
    return {
        "type": "bar",
        "orientation": "h",
        "name": "hatching",
        "base": [low],
        "x": [high - low],
        "y": [place.middle],
        "width": place.lane.height,
        "hoverinfo": "skip",
        "marker": {"color": "rgba(0,0,0,0)", "line": {"width": 0}, "pattern": pattern | {"size": 6, "solidity": 0.25}},
    }


def _strip_words(style: str, label: str) -> str:
    if style in CAUSE_COLORS:
        return f"<b>idle %{{z:.0%}}</b>, most of it {style}<br>%{{customdata}} parts of gaps<br>zoom in to see each"
    return f"<b>{style}</b> %{{z:.0%}} of this column<br>%{{customdata}} here<br>zoom in to see each"


def _edges(since_ns: int, until_ns: int, placed: Stage) -> Any:
    """Edges of the columns, a pixel apart or more."""
    low, high = placed.drawn
    columns = min(MOST_COLUMNS, round(placed.plot_px * (high - low) / (placed.view[1] - placed.view[0])))
    return since_ns + (np.arange(columns + 1) * ((until_ns - since_ns) / columns)).astype(np.int64)


def _overlays(band: PlacedBand, placed: Stage, theme: Theme) -> list[Trace]:
    """Queue depth as a line, and idle as a strip."""
    traces: list[Trace] = []
    low, high = placed.drawn
    since, until = band.scale.time_ns(low), band.scale.time_ns(high)
    if band.queue is not None:
        traces.append(_queue_line(band, band.queue, since, until, placed, theme))
    gaps = band.lanes.gaps
    if band.idle is not None and gaps is not None:
        edges = _edges(since, until, placed)
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
        edges = _edges(since, until, placed)
        starts = np.unique(np.searchsorted(times, edges[:-1]).clip(0, len(times) - 1))
        times, depth = times[starts], np.maximum.reduceat(depth, starts)
    most = max(1, int(band.lanes.queue_depth[1].max(initial=0)))
    return {
        "type": "scatter",
        "mode": "lines",
        "name": "queue depth",
        "x": band.scale.x(times),
        "y": np.round(top + QUEUE_PX * (1 - depth / most), 2).tolist(),
        "customdata": depth.tolist(),
        "line": {"shape": "hv", "color": theme.ink, "width": 1},
        "hovertemplate": f"%{{customdata}} GPU ops queued, at most {most:,}<extra></extra>",
    }


def _launch_line(band: PlacedBand, marks: Marks, theme: Theme) -> list[Trace]:
    """From the selected op's launch call to the op."""
    if marks.selected_op < 0 or marks.selected_launch < 0:
        return []
    trace = band.lanes.band.analysis.trace
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


def _layout(placed: Stage, view: View, theme: Theme, width_px: int) -> Figure:
    annotations, shapes, ticks = [], [], []
    for band in placed.bands:
        annotations += _words(band, view, theme)
        shapes += _step_edges(band, view, theme) + _veils(band, view, theme, placed)
        ticks += [(place.middle, place.lane.label) for place in band.lane_places if place.lane.label]
        ticks += [(band.queue + QUEUE_PX / 2, "queue depth")] if band.queue is not None else []
        ticks += [(band.idle + IDLE_PX / 2, "GPU idle")] if band.idle is not None else []
    if not placed.bands:
        annotations.append(_text("Nothing is shown: choose a trace.", TITLE_PX, theme.muted))
    is_time = view.align == "time"
    return {
        "width": width_px,
        "height": placed.height + TOP_PX + BOTTOM_PX,
        "margin": {"l": LEFT_PX, "r": RIGHT_PX, "t": TOP_PX, "b": BOTTOM_PX},
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": theme.paper,
        "font": {"color": theme.ink, "size": 12},
        "showlegend": False,
        "hovermode": "closest",
        "hoverlabel": {"align": "left", "bgcolor": theme.panel, "font": {"color": theme.ink}},
        "dragmode": "pan",
        "barmode": "overlay",
        "uirevision": "|".join([view.align, str(view.step), *(band.lanes.band.key for band in placed.bands)]),
        "xaxis": {
            "range": list(placed.view),
            "side": "top",
            "title": {"text": "µs since the step's first GPU op" if is_time else "share of the step", "standoff": 4},
            "tickformat": ",~f" if is_time else ".4~p",
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
        "shapes": shapes,
    }


def _words(band: PlacedBand, view: View, theme: Theme) -> list[Trace]:
    """The band's title and notes."""
    lanes = band.lanes
    windows = lanes.band.step_windows
    title = f"<b>{escaped(lanes.band.label, 60)}</b>"
    if windows:
        since, until = lanes.window(view.step)
        steps = lanes.band.analysis.steps
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


def _step_edges(band: PlacedBand, view: View, theme: Theme) -> list[Trace]:
    """Where the step starts and ends."""
    edges = band.scale.x(np.array(band.lanes.window(view.step)))
    line = {"color": theme.muted, "width": 1, "dash": "dot"}
    below = {"type": "line", "layer": "below", "line": line, "y0": band.title + TITLE_PX, "y1": band.bottom}
    return [below | {"x0": x, "x1": x} for x in edges] if band.lanes.band.step_windows else []


def _veils(band: PlacedBand, view: View, theme: Theme, placed: Stage) -> list[Trace]:
    """Over what the GPU did before and after the step."""
    gpu = [place.top for place in band.lane_places if place.lane not in band.lanes.host]
    start, end = band.scale.x(np.array(band.lanes.window(view.step)))
    low, high = placed.drawn
    veil = {"type": "rect", "layer": "above", "line": {"width": 0}, "fillcolor": theme.paper, "opacity": 0.6}
    sides = [(low, min(start, high)), (max(end, low), high)]
    if not gpu or not band.lanes.band.step_windows:
        return []
    return [veil | {"x0": x0, "x1": x1, "y0": gpu[0], "y1": band.bottom} for x0, x1 in sides if x0 < x1]


def _mixed(color: str, other: str, share: float) -> str:
    """A colour that is this share of the other."""
    pairs = [(int(color[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)
