"""Timelines that zoom without a server: each step as an overview, and windows of it where that is too coarse.

A window is the figure that the dashboard would answer the same zoom with. They are made level by level, until every
lane shows its true rectangles or the room is used up. A figure is kept as base64 of its deflated JSON, a sixth of it.
"""

from __future__ import annotations

import base64
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

import msgspec

from ..band import Band
from ..theme import DARK, LIGHT
from ..timeline.stage import DRAWN_BESIDE
from ..timeline.timeline import Figure, timeline_figure
from ..view import Align, View

WIDTH_PX: Final = 1_200
"""For which the figures are made; the page stretches them."""

MOST_STEPS: Final = 32
OVERVIEWS: Final = 0.4
"""Share of the room that overviews may take: beyond it a step has no place."""

PARTS: Final = 8
"""Into which a level divides the windows of the level above."""

_ALIGNS: Final[tuple[Align, ...]] = ("time", "step")
_LEVELS: Final[tuple[Align, ...]] = ("step", "time", "step", "time")
"""Which scale of a step gets one level more, in turn, once every step has one of the scale that is shown first."""

Range = tuple[float, float]
Differing = dict[str, Any]
"""Entries of a layout or of a trace that the dark theme changes, as it has them."""


@dataclass(frozen=True)
class Piece:
    """A figure of a part of a step; ``x``: what of the axis it draws."""

    x: Range
    packed: str


@dataclass
class StepPieces:
    """A step in one scale."""

    levels: list[list[Piece]]  # the overview, then windows from left to right, ever finer
    crowded: list[Range]  # windows of the last level in which lanes are strips


@dataclass(frozen=True)
class Timelines:
    """The steps that there was room for. A trace's ``style`` is its place in ``dark``."""

    time: Sequence[StepPieces]
    step: Sequence[StepPieces]
    dark: Sequence[Differing]
    kept_steps: int

    @property
    def is_complete(self) -> bool:
        """Whether every zoom ends at true rectangles."""
        return not any(each.crowded for each in (*self.time, *self.step))


def timelines(bands: Sequence[Band], room: int) -> Timelines:
    """The bands in every step, in ``room`` bytes; the first step takes what it needs."""
    drawn = _Drawn(bands)
    steps: dict[Align, list[StepPieces]] = {align: [] for align in _ALIGNS}
    kept = max((len(band.step_windows) for band in bands), default=0)
    left = room
    for step in range(min(kept, MOST_STEPS) or 1):
        overviews = {align: drawn.overview(step, align) for align in _ALIGNS}
        left -= sum(_size(each.levels[0]) for each in overviews.values())
        if step and left < room * (1 - OVERVIEWS):
            break
        for align, made in overviews.items():
            steps[align].append(made)
    wanted: list[tuple[int, Align]] = [(step, "time") for step in range(len(steps["time"]))]
    wanted += [(step, align) for step in range(len(steps["time"])) for align in _LEVELS]
    for step, align in wanted:
        left -= drawn.refine(steps[align][step], step, align, left)
    return Timelines(steps["time"], steps["step"], drawn.dark, kept)


def differing(light: Figure, dark: Figure) -> Differing:
    """What to put over ``light`` to have ``dark``."""
    return {name: value for name, value in dark.items() if name not in light or light[name] != value}


class _Drawn:
    """Figures of these bands, and the styles that have come up in them."""

    def __init__(self, bands: Sequence[Band]) -> None:
        self._bands = bands
        self._styles: dict[tuple[str, ...], int] = {}
        self.dark: list[Differing] = []

    def overview(self, step: int, align: Align) -> StepPieces:
        """The whole step, with the layout that its windows share."""
        view = View(step=step, align=align)
        light, dark = (timeline_figure(self._bands, view, theme, WIDTH_PX) for theme in (LIGHT, DARK))
        layouts = {"layout": light["layout"], "dark": differing(light["layout"], dark["layout"])}
        shown = tuple(light["layout"]["xaxis"]["range"])
        piece = Piece(_with_margins(shown), _packed(layouts | {"data": self._styled(light, view)}))
        return StepPieces([[piece]], [shown] if _has_strips(light) else [])

    def refine(self, made: StepPieces, step: int, align: Align, room: int) -> int:
        """Add a level, of what is crowded in the last one, and tell its size; nothing where it needs more room."""
        pieces, crowded = [], []
        for window in (part for each in made.crowded for part in _parts(each)):
            view = View(step=step, align=align, x=window)
            figure = timeline_figure(self._bands, view, LIGHT, WIDTH_PX)
            pieces.append(Piece(_with_margins(window), _packed({"data": self._styled(figure, view)})))
            if _has_strips(figure):
                crowded.append(window)
            if _size(pieces) > room:
                return 0
        if pieces:
            made.levels.append(pieces)
            made.crowded = crowded
        return _size(pieces)

    def _styled(self, light: Figure, view: View) -> list[Figure]:
        """The figure's traces with their ``style``. Traces of one type, name and set of entries look the same."""
        kinds = [(trace["type"], trace["name"], *sorted(trace)) for trace in light["data"]]
        if not self._styles.keys() >= set(kinds):
            dark = timeline_figure(self._bands, view, DARK, WIDTH_PX)
            for kind, in_light, in_dark in zip(kinds, light["data"], dark["data"], strict=True):
                if kind not in self._styles:
                    self._styles[kind] = len(self.dark)
                    self.dark.append(differing(in_light, in_dark))
        return [trace | {"style": self._styles[kind]} for kind, trace in zip(kinds, light["data"], strict=True)]


def _has_strips(figure: Figure) -> bool:
    return any(trace["type"] == "heatmap" for trace in figure["data"])


def _parts(window: Range) -> Iterator[Range]:
    low, high = window
    edges = [low + (high - low) * place / PARTS for place in range(PARTS + 1)]
    yield from pairwise(edges)


def _with_margins(view: Range) -> Range:
    """What a figure of this view draws."""
    beside = (view[1] - view[0]) * DRAWN_BESIDE
    return view[0] - beside, view[1] + beside


def _packed(content: Figure) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(content))).decode("ascii")


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.packed) for piece in pieces)
