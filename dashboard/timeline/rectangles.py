"""Rectangles of the timeline as plotly's horizontal bars: few traces, one per style and tone.

The tone tells what a search found and what is selected.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import IntEnum
from typing import Any, Final, Self

import numpy as np

from ...analysis.model.columns import follow
from ...analysis.model.trace import NONE, Bools, Ints
from ..band import Band
from ..plotting import CAUSE_COLORS, Theme, text_on
from ..view import View
from .heat_strip import Rects
from .hover import escaped, hover_texts
from .lanes import BandLanes, prepare
from .stage import PlacedBand, PlacedLane, Stage, column_edges

Trace = dict[str, Any]
"""One entry of a figure's data, or one part of its layout, as plotly's JSON."""

MARK: Final = "mark"
MARK_SHARE: Final = 0.5
"""Of a heat strip's height that marks of what is found take."""

_CHAR_PX: Final = 7.0  # of a name inside its rectangle
_NAME_PX: Final = 60  # a rectangle has its name inside from this width on


class Tone(IntEnum):
    """How a rectangle is drawn; a later one goes over an earlier one."""

    PLAIN = 0
    DIM = 1  # other things were searched for
    FOUND = 2
    LIT = 3  # another occurrence of what is selected
    SELECTED = 4


@dataclass(frozen=True, eq=False)
class Marks:
    """What of one band is found, lit and selected. Null: nothing is searched for, nothing is selected."""

    lanes: BandLanes
    found: Bools | None  # [names] the name holds what is searched for
    found_by_operator: Bools | None  # [names] of kernels whose operator only another recording tells
    lit: Bools | None  # [names] the selected op's
    selected_op: int  # row of the band's GPU ops, or NONE
    selected_launch: int  # row of its launch, or NONE

    @classmethod
    def of(cls, lanes: BandLanes, view: View, selected_name: str | None) -> Self:
        trace = lanes.band.analysis.context.trace
        found = by_operator = lit = None
        if view.search:
            sought = view.search.casefold()
            found = _flags(sought in name for name in lanes.folded_names)
            inferred = {name for name, operator in lanes.inferred_operators.items() if sought in operator.casefold()}
            by_operator = _flags(name in inferred for name in trace.names)
        if selected_name is not None:
            lit = _flags(name == selected_name for name in trace.names)
        selected = NONE
        if view.selected is not None and view.selected[0] == lanes.band.key and selected_name is not None:
            selected = view.selected[1]
        launch = NONE if selected == NONE else int(trace.gpu_ops.launch_row[selected])
        return cls(lanes, found, by_operator, lit, selected, launch)

    @property
    def kinds(self) -> frozenset[str]:
        """Kinds of rectangles of which some may be found, lit or selected."""
        found = {"gpu_op", "host_op"} if self.found is not None else set()
        lit = {"gpu_op"} if self.lit is not None else set()
        return frozenset(found | lit | ({"launch"} if self.selected_launch != NONE else set()))

    def tones(self, kind: str, rows: Ints) -> Ints:
        """[rows] the Tone of each row of the table that ``kind`` names."""
        trace = self.lanes.band.analysis.context.trace
        tone = np.full(len(rows), Tone.PLAIN if self.found is None else Tone.DIM)
        if kind == "host_op" and self.found is not None:
            tone[self.found[trace.host_ops.name[rows]]] = Tone.FOUND
        if kind == "gpu_op":
            tone[self._found_ops(rows)] = Tone.FOUND
            if self.lit is not None:
                tone[self.lit[trace.gpu_ops.name[rows]]] = Tone.LIT
            tone[rows == self.selected_op] = Tone.SELECTED
        if kind == "launch" and self.selected_launch != NONE:
            tone[rows == self.selected_launch] = Tone.SELECTED
        return tone

    def _found_ops(self, rows: Ints) -> Bools:
        """GPU ops whose own or whose operator's name is found."""
        if self.found is None or self.found_by_operator is None:
            return np.zeros(len(rows), np.bool_)
        trace = self.lanes.band.analysis.context.trace
        name, launch = trace.gpu_ops.name[rows], trace.gpu_ops.launch_row[rows]
        operator = follow(trace.host_ops.name, follow(trace.launches.operator_row, launch))
        told_elsewhere = self.found_by_operator[name] & (operator == NONE)
        found: Bools = self.found[name] | follow(self.found, operator, absent=False) | told_elsewhere
        return found


def _flags(values: Iterable[bool]) -> Bools:
    return np.fromiter(values, np.bool_)


def selected_name(bands: Sequence[Band], view: View) -> str | None:
    """Name of the GPU op that is selected; None where there is none such."""
    for band in bands:
        if view.selected is not None and view.selected[0] == band.key:
            ops = band.analysis.context.trace.gpu_ops
            row = view.selected[1]
            return band.analysis.context.trace.name(int(ops.name[row])) if 0 <= row < len(ops) else None
    return None


def search_count(bands: Sequence[Band], view: View) -> int:
    """How many GPU ops and operators in the steps that are shown the search finds; 0 without one."""
    if not view.search:
        return 0
    found = 0
    for lanes in map(prepare, bands):
        marks = Marks.of(lanes, view, None)
        since, until = lanes.window(view.step)
        for layer in (layer for lane in lanes.lanes for layer in lane.layers):
            if layer.kind in ("gpu_op", "host_op"):
                rows = layer.row[layer.within(since, until)]
                found += int((marks.tones(layer.kind, rows) == Tone.FOUND).sum())
    return found


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


class Rectangles:
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
            bases = band.scale.x(starts)
            series.base += bases
            series.x += lengths
            series.y += [place.middle] * len(chosen)
            series.width += [place.lane.height] * len(chosen)
            series.customdata += [[band.lanes.band.key, layer.kind, row] for row in rows.tolist()]
            texts = hover_texts(band.lanes, layer.kind, rows, layer.style)
            series.hovertext += texts
            is_named = layer.kind != "gap" and tone != Tone.DIM
            series.text += self._inside(texts, bases, lengths) if is_named else [""] * len(texts)

    def _inside(self, texts: list[str], bases: list[float], lengths: list[float]) -> list[str]:
        """The name that a hover text begins with, where the rectangle has room for it in its middle, in view."""
        low, high = self._placed.view
        px = self._placed.plot_px / (high - low)
        middles = [base + length / 2 for base, length in zip(bases, lengths, strict=True)]
        rooms = [
            px * min(length, 2 * (middle - low), 2 * (high - middle))
            for middle, length in zip(middles, lengths, strict=True)
        ]
        return [
            escaped(html.unescape(_in_bold(text)), int(room / _CHAR_PX)) if room >= _NAME_PX else ""
            for text, room in zip(texts, rooms, strict=True)
        ]

    def add_marks(self, band: PlacedBand, place: PlacedLane, marks: Marks) -> None:
        """Along the upper edge of a heat strip where something is found or lit; what is selected as it is."""
        since, until = map(band.scale.time_ns, self._placed.drawn)
        edges = column_edges(since, until, self._placed)
        for layer in place.lane.layers:
            if layer.kind not in marks.kinds:
                continue
            places = layer.within(since, until)
            tones = marks.tones(layer.kind, layer.row[places])
            for tone in np.unique(tones[tones >= Tone.FOUND]).tolist():
                chosen = places[tones == tone]
                column = np.clip(np.searchsorted(edges, layer.start_ns[chosen], side="right") - 1, 0, len(edges) - 2)
                first = np.flatnonzero(np.diff(column, prepend=-3) > 2)  # of each run of columns
                count = np.diff(np.append(first, len(column)))
                last = np.minimum(column[first + count - 1] + 2, len(edges) - 1)  # two pixels at least
                starts, ends = edges[column[first]], edges[last]
                is_mark = tone != Tone.SELECTED
                height = round(place.lane.height * MARK_SHARE) if is_mark else place.lane.height
                series = self._series.setdefault((Tone(tone), MARK if is_mark else layer.style), _Series())
                series.base += band.scale.x(starts)
                series.x += band.scale.length(ends - starts)
                series.y += [place.top + height / 2] * len(first)
                series.width += [height] * len(first)
                rows = layer.row[chosen[first]]
                series.customdata += [[band.lanes.band.key, layer.kind, row] for row in rows.tolist()]
                texts = hover_texts(band.lanes, layer.kind, rows, layer.style)
                more = [f"<br>and {n - 1:,} more here" if n > 1 else "" for n in count.tolist()]
                series.hovertext += map("".join, zip(texts, more, strict=True))
                series.text += [""] * len(first)

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
                "insidetextfont": {"color": text_on(trace["marker"]["color"]), "size": 11},
            }
        return trace

    def _marker(self, tone: Tone, style: str) -> Trace:
        outline, width = {
            Tone.FOUND: (self._theme.found, 2),
            Tone.LIT: (self._theme.accent, 1),
            Tone.SELECTED: (self._theme.accent, 3),
        }.get(tone, ("", 0))
        if style == MARK:
            return {"color": outline, "line": {"width": 0}}
        color = style_colors(self._theme)[style]
        marker: Trace = {"color": color, "line": {"width": 0}}
        if tone == Tone.DIM:
            marker["opacity"] = 0.25
        if width:
            marker["line"] = {"width": width, "color": outline}
        if tone == Tone.LIT:
            marker["color"] = mixed(color, self._theme.accent, 0.5)
        return marker


def _in_bold(text: str) -> str:
    return text.partition("</b>")[0].removeprefix("<b>")


def style_colors(theme: Theme) -> Mapping[str, str]:
    """Of every style of rectangles."""
    return {
        "kernel": theme.kernel,
        "collective": theme.collective,
        "copy": theme.copy,
        "launch call": theme.launch,
        "blocking call": CAUSE_COLORS["sync"],
        "operator": theme.operator,
        "python": theme.operator,
        **CAUSE_COLORS,
    }


def mixed(color: str, other: str, share: float) -> str:
    """A colour that is this share of the other."""
    pairs = [(int(color[at : at + 2], 16), int(other[at : at + 2], 16)) for at in (1, 3, 5)]
    return "#" + "".join(f"{round(a + (b - a) * share):02X}" for a, b in pairs)
