"""The parts of a view, and what each part of the page shows of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..charts.starting_point import slider_marks, starting_point
from ..opened_report import OpenedReport
from ..plotting import Figure, enlarged, scale_of
from ..rank_sets import clocks
from ..theme import theme_named
from ..timeline.timeline import search_count, timeline_figure
from ..view import View, to_query
from .actions import rank_controls, shown_bands

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
    start = starting_point(opened)
    knobs = (
        {} if start.step is None else {n: spec.position(view.knobs.get(n)) for n, spec in slider_marks(start).items()}
    )
    return {
        "align": view.align,
        "overlays": list(view.overlays),
        "search": view.search,
        "bands": [band.key for band in shown_bands(opened, view)],
        "compare_a": view.compare[0] or None,
        "compare_b": view.compare[1] or None,
        **knobs,
        **(rank_controls(opened, view) if opened.rank_sets else {}),
    }
