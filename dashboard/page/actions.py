"""The view after an action of the user: pure functions. An action that makes no sense leaves the view."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, TypedDict

import msgspec

from ...analysis.model.trace import Ints
from ..band import Band
from ..charts.starting_point import slider_marks, starting_point
from ..opened_report import OpenedReport
from ..plotting import Figure, enlarged, scale_of, theme_named
from ..rank_heat import cell_at
from ..rank_sets import RankSet, clocks
from ..timeline.timeline import search_count, timeline_figure
from ..view import Align, HeatOf, Overlay, Theme, View, to_query

Op = tuple[str, int]
"""A GPU op: its band's key, and its row."""

BUTTONS: Final = ("previous", "next", "fit", "theme", "reset")


class Point(TypedDict, total=False):
    """What a click is on, as plotly tells it: the customdata of a rectangle, the labels of a cell of a heat map."""

    customdata: Any
    x: str | float | None
    y: str | float | None


class Click(TypedDict, total=False):
    """A click in a figure."""

    points: list[Point]


class Cell(TypedDict, total=False):
    """A click in a table: the id of its row."""

    rowId: str | None


class Keys(TypedDict):
    """The last keys pressed and ranges left by a zoom or pan, and how many there were in all."""

    pressed: list[str | tuple[float, float]]
    count: int


_VALUE_TYPES: Final[Mapping[str, Any]] = {
    "click": Click | None,
    "cell": Cell | None,
    "keys": Keys | None,
    "heat_click": Click | None,
    **dict.fromkeys(BUTTONS, int | None),
    "align": Align,
    "overlays": list[Overlay] | None,
    "search": str | None,
    "bands": list[str] | None,
    "compare_a": str | None,
    "compare_b": str | None,
    "heat": HeatOf,
    "ranks": str,
    "rank_a": str | None,
    "rank_b": str | None,
}


def value_type(name: str) -> Any:
    """The type of what the control of this name tells; what isn't in _VALUE_TYPES is a slider."""
    return _VALUE_TYPES.get(name, float | None)


_AROUND: Final = 10  # durations of an op that are shown on either side of its start
_LEAST_AROUND_US: Final = 50.0
_DIGITS: Final = 12  # of the number of a row at most


def shown_bands(opened: OpenedReport, view: View) -> list[Band]:
    """The bands of the view; those shown first where it names none that there is."""
    return opened.chosen(view.bands)


def zoomed(view: View, x: Sequence[float] | None) -> View:
    """The view of the range that a zoom or pan leaves."""
    if not x or len(x) != 2 or not x[0] < x[1]:
        return view
    return msgspec.structs.replace(view, x=(float(x[0]), float(x[1])))


def clicked(opened: OpenedReport, click: Mapping[str, Any] | None) -> Op | None:
    """The GPU op that a click is on: itself, the first one of a launch, the one after a gap; null beside one."""
    points: Any = (click or {}).get("points") or [{}]
    custom = points[0].get("customdata")
    if not isinstance(custom, (list, tuple)) or len(custom) != 3:
        return None
    key, kind, row = custom
    band = opened.band(key) if isinstance(key, str) else None
    op = _op_of(band, kind, row) if band is not None and isinstance(row, int) else None
    return None if op is None else (key, op)


def _op_of(band: Band, kind: str, row: int) -> int | None:
    match kind:
        case "gpu_op":
            ops: range | Ints = range(len(band.analysis.context.trace.gpu_ops))
        case "launch":
            ops = band.analysis.context.launch_times.first_op
        case "gap" if band.device is not None:
            ops = band.analysis.context.gaps[band.device].next_op
        case _:
            return None
    return int(ops[row]) if 0 <= row < len(ops) else None


def op_of_row(row_id: str | None) -> Op | None:
    """The GPU op that a table's row names by its id."""
    key, _, row = (row_id or "").rpartition("|")[0].rpartition("|")
    return (key, int(row)) if row.isascii() and row.isdigit() and len(row) < _DIGITS else None


def show_op(opened: OpenedReport, view: View, op: Op | None) -> View:
    """Select an op, and move to where it can be seen."""
    band = None if op is None else opened.band(op[0])
    if op is None or band is None or op[1] >= len(band.analysis.context.trace.gpu_ops):
        return view
    start_ns, dur_ns = (
        int(getattr(band.analysis.context.trace.gpu_ops, name)[op[1]]) for name in ("start_ns", "dur_ns")
    )
    windows = band.step_windows
    step = max((place for place, (begin, _) in enumerate(windows) if begin <= start_ns), default=0)
    into_step_us = (start_ns - windows[step][0]) / 1000
    around_us = max(_AROUND * dur_ns / 1000, _LEAST_AROUND_US)
    shown = tuple(each.key for each in shown_bands(opened, view))
    return msgspec.structs.replace(
        view,
        selected=op,
        step=step,
        align="time",
        x=(into_step_us - around_us, into_step_us + around_us),
        bands=view.bands if band.key in shown else (*shown, band.key),
    )


def follow_op(opened: OpenedReport, view: View, op: Op) -> View:
    """Select an op; move there only where it is out of view."""
    there = show_op(opened, view, op)
    band = opened.band(op[0])
    if band is None or there.step != view.step or there.x is None or there.x == view.x:
        return there
    if view.align == "clock":
        return there
    start, end = band.step_windows[there.step]
    scale = 1.0 if view.align == "time" else 1000 / max(1, end - start)
    place = sum(there.x) / 2 * scale
    if view.x is None or view.x[0] <= place <= view.x[1]:
        return msgspec.structs.replace(view, selected=op, bands=there.bands)
    return there


def view_after(
    opened: OpenedReport,
    view: View,
    name: str,
    values: Mapping[str, Any],
    answered: Mapping[str, Any],
    scheme: str | None,
) -> View:
    """The view after what a person did with the control of this name; the same one where that changes nothing.

    ``values`` are those of the controls, ``answered`` those when the page was answered last: Dash drops an
    answer that is overtaken by the next event, so that several clicks and keys may have come since.
    """
    change = msgspec.structs.replace
    clicks = (values[name] or 0) - (answered.get(name) or 0) if name in BUTTONS else 0
    match name:
        case "click":
            return change(view, selected=clicked(opened, values["click"]))
        case "cell":
            return show_op(opened, view, op_of_row((values["cell"] or {}).get("rowId")))
        case "keys":
            for key in _new_keys(values["keys"], answered.get("keys")):
                view = pressed(opened, view, key)
            return view
        case "previous" | "next":
            return stepped(opened, view, clicks if name == "next" else -clicks) if clicks else view
        case "theme":
            other: Theme = "light" if (view.theme or scheme) == "dark" else "dark"
            return change(view, theme=other) if clicks % 2 else view
        case "fit":
            return change(view, x=None)
        case "reset":
            return change(view, knobs={})
        case "align":
            return change(view, align=values["align"], x=None)
        case "overlays":
            return change(view, overlays=tuple(values["overlays"] or ()))
        case "search":
            return change(view, search=values["search"] or "")
        case "bands":
            chosen = tuple(values["bands"] or ())
            return change(view, bands=() if chosen == opened.first else chosen)
        case "heat_click" | "heat" | "ranks" | "rank_a" | "rank_b":
            return view_after_on_ranks(opened, view, name, values)
        case "compare_a" | "compare_b":
            return change(view, compare=(values["compare_a"] or "", values["compare_b"] or ""))
        case knob:
            factor = slider_marks(starting_point(opened))[knob].factor(values[knob])
            others = {other: value for other, value in view.knobs.items() if other != knob}
            return change(view, knobs=others if factor is None else others | {knob: factor})


def _new_keys(now: Mapping[str, Any] | None, before: Mapping[str, Any] | None) -> Sequence[str | list[float]]:
    """Keys pressed and ranges zoomed to since: the page has the last ones, and how many there were in all."""
    if now is None:
        return ()
    new = now["count"] - (before or {"count": 0})["count"]
    return now["pressed"][-new:] if new > 0 else ()


def pressed(opened: OpenedReport, view: View, key: str | list[float]) -> View:
    """What a key does. Those that zoom and pan, a drag and the wheel move the figure, which then tells its range."""
    match key:
        case [_, _]:
            return zoomed(view, key)
        case "f":
            return msgspec.structs.replace(view, x=None)
        case "[" | "]":
            return stepped(opened, view, 1 if key == "]" else -1)
        case "Escape":
            return msgspec.structs.replace(view, selected=None)
        case _:
            return view


def stepped(opened: OpenedReport, view: View, by: int) -> View:
    """Another step, of those that there are."""
    last = max((len(band.step_windows) for band in shown_bands(opened, view)), default=1) - 1
    return msgspec.structs.replace(view, step=min(max(view.step + by, 0), max(last, 0)), x=None)


def view_after_on_ranks(opened: OpenedReport, view: View, name: str, values: Mapping[str, Any]) -> View:
    """The view after what was done with the control of this name; the same one where that changes nothing."""
    chosen = opened.rank_set(view.ranks)
    if chosen is None:
        return view
    change = msgspec.structs.replace
    match name:
        case "heat":
            return change(view, heat=values["heat"])
        case "ranks":
            first = opened.rank_sets[0].key
            return change(view, ranks="" if values["ranks"] == first else values["ranks"])
        case "heat_click":
            return _clicked(chosen, view, values["heat_click"])
        case _:
            keys = [key for key in dict.fromkeys((values["rank_a"], values["rank_b"])) if key]
            return change(view, bands=tuple(keys))


def _clicked(chosen: RankSet, view: View, click: Any) -> View:
    """The step of the cell. Where its rank is one of two that are shown both stay; else it alone."""
    cell = cell_at(chosen.heat(chosen.figure(view.heat)), click)
    if cell is None:
        return view
    rank, column = cell
    step = chosen.step_of(rank, column)
    key = chosen.bands[rank].key
    if step is None:
        return view
    bands = view.bands if key in view.bands and len(view.bands) == 2 else (key,)
    return msgspec.structs.replace(view, bands=bands, step=step, x=None)


def rank_controls(opened: OpenedReport, view: View) -> dict[str, Any]:
    """What the controls of the ranks show: two ranks where they are the first that are shown."""
    chosen = opened.rank_set(view.ranks)
    assert chosen is not None
    shown = [band.key for band in opened.chosen(view.bands) if chosen.place(band.key) is not None]
    return {
        "heat": chosen.figure(view.heat),
        "ranks": chosen.key,
        "rank_a": shown[0] if shown else None,
        "rank_b": shown[1] if len(shown) > 1 else None,
    }


def shown_cells(opened: OpenedReport, view: View) -> list[tuple[int, int]]:
    """Row and column of the heat map of each timeline that is shown."""
    chosen = opened.rank_set(view.ranks)
    if chosen is None:
        return []
    places = [chosen.place(band.key) for band in opened.chosen(view.bands)]
    cells = [(place, chosen.column_of(place, view.step)) for place in places if place is not None]
    return [(place, column) for place, column in cells if column is not None]


_STORES: Final = {
    "timeline-view": ("bands", "step", "x", "align", "search", "selected", "overlays", "theme"),
    "model-view": ("knobs", "theme"),
    "chart-view": ("theme",),
    "compare-view": ("compare",),
}
"""The parts of the view that each part of the page is drawn from."""

_OF_RANKS: Final = {"ranks-view": ("heat", "ranks", "bands", "step", "theme")}
"""The same, on a page of several ranks."""


@dataclass(frozen=True)
class Timelines:
    """The timelines of a view, and what is said above them."""

    figure: Figure
    height_px: int  # on a page that is not wide: dashboard.css has the scale
    step: str
    found: str


def timelines(opened: OpenedReport, view: View, scheme: str | None, width_px: int) -> Timelines:
    """As drawn where the view names no theme: in that of the system's colour scheme."""
    bands = shown_bands(opened, view)
    scale = scale_of(width_px)
    on_one = clocks(opened.rank_sets) if view.align == "clock" else {}
    theme = theme_named(view.theme or scheme)
    figure = timeline_figure(bands, view, theme, width_px=round(width_px / scale), clocks=on_one)
    height_px = figure["layout"]["height"]
    figure = enlarged(figure, scale)
    layout = figure["layout"]
    del layout["width"], layout["height"]  # those of its frame
    layout["uirevision"] = stores(view)["timeline-view"]  # the view has the zoom already
    steps = max((len(band.step_windows) for band in bands), default=0)
    found = f"{search_count(bands, view):,} found" if view.search else ""
    return Timelines(figure, height_px, f"step {min(view.step, max(steps - 1, 0)) + 1} of {steps}", found)


def stores(view: View, *, with_ranks: bool = False) -> dict[str, str]:
    """Store → its part of the view, as a query; ``with_ranks``: of a page of several ranks."""
    kept = _STORES | (_OF_RANKS if with_ranks else {})
    return {name: to_query(only(view, parts)) for name, parts in kept.items()}


def only(view: View, parts: Sequence[str]) -> View:
    """The view with all but these parts at their defaults."""
    return View(**{name: getattr(view, name) for name in parts})


def control_values(opened: OpenedReport, view: View) -> dict[str, Any]:
    """What each control shows."""
    sliders = slider_marks(starting_point(opened))
    return {
        "align": view.align,
        "overlays": list(view.overlays),
        "search": view.search,
        "bands": [band.key for band in shown_bands(opened, view)],
        "compare_a": view.compare[0] or None,
        "compare_b": view.compare[1] or None,
        **{name: slider.position(view.knobs.get(name)) for name, slider in sliders.items()},
        **(rank_controls(opened, view) if opened.rank_sets else {}),
    }
