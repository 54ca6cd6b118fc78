"""Where everything on the timeline stands: bands and lanes from top to bottom, times from left to right."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np

from ...analysis.model.trace import Ints
from ..band import Band
from ..rank_sets import Clock
from ..view import View
from .heat_strip import Lane, within_bounds
from .lanes import BandLanes, prepare

LEFT_PX: Final = 118  # labels of lanes
RIGHT_PX: Final = 14
TOP_PX: Final = 50  # the axis
BOTTOM_PX: Final = 8

TITLE_PX: Final = 26
NOTE_PX: Final = 18
QUEUE_PX: Final = 26
IDLE_PX: Final = 10
BETWEEN_LANES_PX: Final = 4
BETWEEN_BANDS_PX: Final = 10

MARGIN: Final = 0.02
"""Share of a step that is shown before and after it."""

DRAWN_BESIDE: Final = 0.25
"""Share of the view that is drawn on either side of it, so that a pan has something to show at once."""

MOST_COLUMNS: Final = 2_000

_LEAST_NS: Final = 50  # that a view spans


@dataclass(frozen=True)
class Scale:
    """Times of one band ↔ places on the x axis."""

    zero_ns: int
    unit_ns: float  # 1,000 on an axis of µs; the step's length on one of shares
    decimals: int

    def x(self, time_ns: Ints) -> list[float]:
        """Places of these times."""
        return self.length(time_ns - self.zero_ns)

    def length(self, dur_ns: Ints) -> list[float]:
        """What durations measure on the axis."""
        lengths: list[float] = np.round(dur_ns / self.unit_ns, self.decimals).tolist()
        return lengths

    def time_ns(self, x: float) -> int:
        """The time at this place."""
        return within_bounds(self.zero_ns + x * self.unit_ns)


@dataclass(frozen=True)
class PlacedLane:
    """A lane and its top edge, in pixels from the figure's top."""

    lane: Lane
    top: int

    @property
    def middle(self) -> float:
        return self.top + self.lane.height / 2


@dataclass(frozen=True, eq=False)
class PlacedBand:
    """A band's place."""

    lanes: BandLanes
    scale: Scale
    title: int  # top edges
    notes: tuple[int, ...]
    lane_places: tuple[PlacedLane, ...]
    queue: int | None
    idle: int | None
    bottom: int


@dataclass(frozen=True, eq=False)
class Stage:
    """All bands' places, and what of the axis is in view."""

    bands: tuple[PlacedBand, ...]
    view: tuple[float, float]
    whole: tuple[float, float]  # what is in view when the step fits
    align: str
    plot_px: int  # width of what lies between the margins
    height: int  # of the lanes; the figure's is TOP_PX and BOTTOM_PX more

    @property
    def drawn(self) -> tuple[float, float]:
        """The part of the axis that is drawn."""
        low, high = self.view
        beside = (high - low) * DRAWN_BESIDE
        return low - beside, high + beside


def stage(bands: Sequence[Band], view: View, width_px: int, clocks: Mapping[str, Clock] | None = None) -> Stage:
    """Lay out the bands; ``clocks``: key of a band → its clock, where one is known."""
    placed: list[PlacedBand] = []
    top = 0
    prepared = [prepare(band) for band in bands]
    zeros = _zeros(prepared, view, clocks or {})
    for lanes, zero in zip(prepared, zeros, strict=True):
        placed.append(_placed(lanes, view, top, zero))
        top = placed[-1].bottom + BETWEEN_BANDS_PX
    plot_px = max(100, width_px - LEFT_PX - RIGHT_PX)
    whole = _whole(placed, view)
    height = max(top, TITLE_PX + NOTE_PX)
    return Stage(tuple(placed), _in_view(placed, view, whole), whole, view.align, plot_px, height)


def _zeros(bands: Sequence[BandLanes], view: View, clocks: Mapping[str, Clock]) -> list[int]:
    """Where each band's axis begins, on its own clock: with its step, or with the first one's of those on one clock."""
    since = [lanes.window(view.step)[0] for lanes in bands]
    known = [clocks.get(lanes.band.key) if view.align == "clock" else None for lanes in bands]
    first: dict[str, int] = {}
    for start, clock in zip(since, known, strict=True):
        if clock is not None:
            first[clock.of] = min(first.get(clock.of, start - clock.ahead_ns), start - clock.ahead_ns)
    return [
        start if clock is None else first[clock.of] + clock.ahead_ns for start, clock in zip(since, known, strict=True)
    ]


def _placed(lanes: BandLanes, view: View, top: int, zero_ns: int) -> PlacedBand:
    since, until = lanes.window(view.step)
    scale = Scale(zero_ns, max(1, until - since), 9) if view.align == "step" else Scale(zero_ns, 1e3, 3)
    place = top + TITLE_PX
    notes = []
    for _ in lanes.notes:
        notes.append(place)
        place += NOTE_PX
    rows = []
    has_gpu = lanes.band.device is not None
    queue = idle = None
    for lane in lanes.lanes:
        if lane in lanes.streams[:1] and has_gpu and "queue" in view.overlays:
            queue, place = place, place + QUEUE_PX + BETWEEN_LANES_PX
        rows.append(PlacedLane(lane, place))
        place += lane.height + BETWEEN_LANES_PX
    if has_gpu and "idle" in view.overlays:
        idle, place = place, place + IDLE_PX + BETWEEN_LANES_PX
    return PlacedBand(lanes, scale, top, tuple(notes), tuple(rows), queue, idle, place)


def _whole(bands: Sequence[PlacedBand], view: View) -> tuple[float, float]:
    """From the start to the end of the last step to end, and a little on either side."""
    ends = [band.scale.x(np.array(band.lanes.window(view.step)[1:]))[0] for band in bands]
    longest = max(ends, default=0.0) or 1.0
    return -MARGIN * longest, (1 + MARGIN) * longest


def _in_view(bands: Sequence[PlacedBand], view: View, whole: tuple[float, float]) -> tuple[float, float]:
    """The view's range where it shows something; else the longest step."""
    if view.x is None:
        return whole
    longest = (whole[1] - whole[0]) / (1 + 2 * MARGIN)
    edges = [band.scale.x(np.array(band.lanes.extent_ns)) for band in bands if band.lanes.extent_ns is not None]
    low = max(view.x[0], min((each[0] for each in edges), default=0.0) - longest)
    high = min(view.x[1], max((each[1] for each in edges), default=0.0) + longest)
    units = [band.scale.unit_ns for band in bands]
    least = _LEAST_NS / max(units, default=1e3)
    if high <= low:
        return whole
    return (low, high) if high - low >= least else ((low + high - least) / 2, (low + high + least) / 2)


def column_edges(since_ns: int, until_ns: int, placed: Stage) -> Ints:
    """Edges of the columns, a pixel apart or more."""
    low, high = placed.drawn
    columns = min(MOST_COLUMNS, round(placed.plot_px * (high - low) / (placed.view[1] - placed.view[0])))
    edges: Ints = since_ns + (np.arange(columns + 1) * ((until_ns - since_ns) / columns)).astype(np.int64)
    return edges
