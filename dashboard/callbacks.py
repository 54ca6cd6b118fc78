"""What an event makes of the view, and what the view makes of the page. No state: all of it is in the URL."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
from dash import Dash, Input, Output, State, ctx, html, no_update

from . import charts, timeline, what_if
from .opened import Band, Opened
from .panels import comparison_panel, details_panel
from .stage import stage
from .tables import table
from .theme import Theme, theme_named
from .view import View, from_query, to_query
from .watched import Watched

KNOBS: Final = ("tau", "bandwidth", "kernels", "batch", "weights")
_PAN: Final = 0.25  # of what is in view
_ZOOM: Final = 0.5
_STORES: Final = {
    "timeline-view": ("bands", "step", "x", "align", "search", "selected", "overlays", "theme"),
    "model-view": ("knobs", "theme"),
    "compare-view": ("compare",),
}
"""The parts of the view that each part of the page is drawn from."""


def register(app: Dash, opened: Opened, watched: Watched) -> None:
    """All callbacks of the page."""
    _changes(app, watched)
    _navigation(app, opened)
    _timelines(app, opened)
    _charts(app, opened)
    if what_if.starting_point(opened).step is not None:
        _model(app, opened)
    if len(opened.bands) > 1:
        _compare(app, opened)
    _tables(app, opened)


def _changes(app: Dash, watched: Watched) -> None:
    @app.callback(Output("changed", "children"), Input("url", "search"))
    def tell(_: str | None) -> Any:
        problem = watched.problem()
        return [] if problem is None else html.P(problem, className="warning")


def _navigation(app: Dash, opened: Opened) -> None:
    has_model = what_if.starting_point(opened).step is not None
    has_compare = len(opened.bands) > 1
    controls = {
        "align": "align",
        "overlays": "overlays",
        "search": "search",
        "bands": "bands",
        **({"compare_a": "compare-a", "compare_b": "compare-b"} if has_compare else {}),
        **(
            {name: f"knob-{name}" for name in what_if.slider_marks(what_if.starting_point(opened))} if has_model else {}
        ),
    }
    events = {
        "relayout": Input("timeline", "relayoutData"),
        "click": Input("timeline", "clickData"),
        "cell": Input("grid", "cellClicked"),
        "keys": Input("keys", "data"),
        **{name: Input(name, "n_clicks") for name in ("previous", "next", "fit", "theme")},
        **({"reset": Input("reset", "n_clicks")} if has_model else {}),
    }

    @app.callback(
        output={
            "url": Output("url", "search"),
            **{name: Output(component, "value") for name, component in controls.items()},
            **{name: Output(name, "data") for name in _STORES},
        },
        inputs={
            "url": Input("url", "search"),
            "values": {name: Input(component, "value") for name, component in controls.items()},
            "events": events,
            "scheme": State("scheme", "data"),
            "known": {name: State(name, "data") for name in _STORES},
            "rows": State("grid", "cellClicked"),
        },
    )
    def navigate(
        url: str | None,
        values: dict[str, Any],
        events: dict[str, Any],
        scheme: str | None,
        known: dict[str, Any],
        rows: Any,
    ) -> dict[str, Any]:
        before = from_query(url or "")
        after = (
            before
            if ctx.triggered_id in (None, "url")
            else event(opened, before, ctx.triggered_id, values, events, scheme)
        )
        query = to_query(after)
        shown = control_values(opened, after)
        stores = {name: to_query(only(after, parts)) for name, parts in _STORES.items()}
        if ctx.triggered_id == "url" and stores == known:  # the echo of an event: people type on meanwhile
            shown = values
        return {
            "url": no_update if query == (url or "") else query,
            **{name: no_update if shown[name] == values[name] else shown[name] for name in controls},
            **{name: no_update if value == known[name] else value for name, value in stores.items()},
        }


def only(view: View, parts: Sequence[str]) -> View:
    """The view with all but these parts at their defaults."""
    return View(**{name: getattr(view, name) for name in parts})


def control_values(opened: Opened, view: View) -> dict[str, Any]:
    """What each control shows."""
    start = what_if.starting_point(opened)
    knobs = (
        {}
        if start.step is None
        else {n: spec.shown(view.knobs.get(n)) for n, spec in what_if.slider_marks(start).items()}
    )
    first, second = view.compare or (None, None)
    return {
        "align": view.align,
        "overlays": list(view.overlays),
        "search": view.search,
        "bands": [band.key for band in shown_bands(opened, view)],
        "compare_a": first,
        "compare_b": second,
        **knobs,
    }


def event(
    opened: Opened, view: View, source: str, values: Mapping[str, Any], events: Mapping[str, Any], scheme: str | None
) -> View:
    """The view after one event; the same one where it changes nothing."""
    change = msgspec.structs.replace
    match source:
        case "timeline":
            if "timeline.clickData" in ctx.triggered_prop_ids:
                return change(view, selected=clicked(opened, events["click"]))
            return change(view, x=zoomed(view, events["relayout"] or {}))
        case "grid":
            cell = events["cell"] or {}
            return show_op(opened, view, cell.get("rowId"))
        case "keys":
            return pressed(opened, view, (events["keys"] or {}).get("key", ""))
        case "previous" | "next":
            return stepped(opened, view, 1 if source == "next" else -1)
        case "fit":
            return change(view, x=None)
        case "theme":
            return change(view, theme="light" if (view.theme or scheme) == "dark" else "dark")
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
        case "compare-a" | "compare-b":
            pair = (values["compare_a"], values["compare_b"])
            return change(view, compare=pair if all(pair) else None)
        case knob:
            name = knob.removeprefix("knob-")
            knob_value = what_if.slider_marks(what_if.starting_point(opened))[name].factor(values[name])
            others = {other: value for other, value in view.knobs.items() if other != name}
            return change(view, knobs=others if knob_value is None else others | {name: knob_value})


def shown_bands(opened: Opened, view: View) -> list[Band]:
    """The bands of the view; those shown first where it names none that there is."""
    named = [band for key in view.bands if (band := opened.band(key)) is not None]
    return named or [band for key in opened.first if (band := opened.band(key)) is not None]


def zoomed(view: View, relayout: Mapping[str, Any]) -> tuple[float, float] | None:
    """The range that a zoom or pan leaves."""
    low, high = relayout.get("xaxis.range") or (relayout.get("xaxis.range[0]"), relayout.get("xaxis.range[1]"))
    if low is not None and high is not None and low < high:
        return (float(low), float(high))
    return None if relayout.get("xaxis.autorange") else view.x


def clicked(opened: Opened, click: Mapping[str, Any] | None) -> tuple[str, int] | None:
    """The GPU op that a click is on: itself, the first one of a launch, the one after a gap; null beside one."""
    points: Any = (click or {}).get("points") or [{}]
    custom: Any = points[0].get("customdata") or ()
    if len(custom) != 3:
        return None
    key, kind, row = custom
    band = opened.band(key)
    op = None if band is None else _op_of(band, kind, int(row))
    return None if op is None else (key, op)


def _op_of(band: Band, kind: str, row: int) -> int | None:
    match kind:
        case "gpu_op":
            return row
        case "launch":
            return int(band.analysis.launch_times.first_op[row])
        case "gap" if band.device is not None:
            return int(band.analysis.gaps[band.device].next_op[row])
        case _:
            return None


def show_op(opened: Opened, view: View, row_id: str | None) -> View:
    """Select a table's row in the timeline, and move there."""
    key, _, row = (row_id or "").rpartition("|")[0].rpartition("|")
    band = opened.band(key)
    if band is None or not row.isdigit():
        return view
    ops, op = band.analysis.trace.gpu_ops, int(row)
    if op >= len(ops):
        return view
    windows = band.step_windows
    start = int(ops.start_ns[op])
    step = max((place for place, (begin, _) in enumerate(windows) if begin <= start), default=0)
    middle, half = (start - windows[step][0]) / 1000, max(float(ops.dur_ns[op]) / 1000 * 10, 50.0)
    bands = tuple(band.key for band in shown_bands(opened, view))
    return msgspec.structs.replace(
        view,
        selected=(key, op),
        step=step,
        align="time",
        x=(middle - half, middle + half),
        bands=view.bands if key in bands else (*bands, key),
    )


def pressed(opened: Opened, view: View, key: str) -> View:
    """What a key does."""
    change = msgspec.structs.replace
    low, high = view.x or stage(shown_bands(opened, view), view, width_px=1000).view
    span = high - low
    match key:
        case "w" | "s":
            half = span / 2 * (_ZOOM if key == "w" else 1 / _ZOOM)
            return change(view, x=((low + high) / 2 - half, (low + high) / 2 + half))
        case "a" | "d":
            by = _PAN * span * (1 if key == "d" else -1)
            return change(view, x=(low + by, high + by))
        case "f":
            return change(view, x=None)
        case "[" | "]":
            return stepped(opened, view, 1 if key == "]" else -1)
        case "Escape":
            return change(view, selected=None)
        case _:
            return view


def stepped(opened: Opened, view: View, by: int) -> View:
    """Another step, of those that there are."""
    last = max((len(band.step_windows) for band in shown_bands(opened, view)), default=1) - 1
    return msgspec.structs.replace(view, step=min(max(view.step + by, 0), max(last, 0)), x=None)


def _theme(query: str | None, scheme: str | None) -> Theme:
    return theme_named(from_query(query or "").theme or scheme)


def _timelines(app: Dash, opened: Opened) -> None:
    @app.callback(
        Output("timeline", "figure"),
        Output("timeline", "style"),
        Output("step-label", "children"),
        Output("search-count", "children"),
        Output("legend", "children"),
        Input("timeline-view", "data"),
        Input("scheme", "data"),
        Input("width", "data"),
    )
    def draw(query: str | None, scheme: str | None, width: int | None) -> tuple[Any, ...]:
        if query is None:
            return (no_update,) * 5
        view = from_query(query)
        theme = _theme(query, scheme)
        bands = shown_bands(opened, view)
        figure = timeline.timeline_figure(bands, view, theme, width_px=width or 1200)
        steps = max((len(band.step_windows) for band in bands), default=0)
        found = timeline.search_count(bands, view) if view.search else None
        layout = figure["layout"]
        del layout["width"]  # as wide as its frame
        style = {"height": f"{layout['height']}px"}
        layout["uirevision"] = query  # the view has the zoom already
        legend = [
            html.Span(
                [html.Span(className="swatch", style={"background": item["color"]}), item["cause"]],
                title=item["meaning"],
            )
            for item in timeline.legend_items(theme)
        ]
        told = "" if found is None else f"{found:,} found"
        return figure, style, f"step {min(view.step, max(steps - 1, 0)) + 1} of {steps}", told, legend

    @app.callback(Output("details", "children"), Input("timeline-view", "data"))
    def detail(query: str | None) -> Any:
        view = from_query(query or "")
        return details_panel(opened, view)


def _charts(app: Dash, opened: Opened) -> None:
    @app.callback(
        Output("idle", "figure"),
        Output("durations", "figure"),
        Output("bound", "figure"),
        Input("model-view", "data"),
        Input("scheme", "data"),
    )
    def draw(query: str | None, scheme: str | None) -> tuple[Any, ...]:
        theme = _theme(query, scheme)
        return (
            charts.idle_figure(opened, theme),
            charts.durations_figure(opened, theme),
            charts.bound_figure(opened, theme),
        )


def _model(app: Dash, opened: Opened) -> None:
    @app.callback(
        Output("what-if", "figure"),
        Output("sketch", "figure"),
        Output("readout", "children"),
        Input("model-view", "data"),
        Input("scheme", "data"),
    )
    def draw(query: str | None, scheme: str | None) -> tuple[Any, ...]:
        view, theme = from_query(query or ""), _theme(query, scheme)
        start = what_if.starting_point(opened)
        assert opened.baseline is not None
        head = html.Tr([html.Th(text) for text in ("", "measured", "predicted", "change")])
        rows = [
            html.Tr([html.Th(row.label, scope="row"), *(html.Td(t) for t in (row.measured, row.predicted, row.change))])
            for row in what_if.readout(start, view)
        ]
        return (
            what_if.what_if_figure(start, view, theme),
            what_if.sketch_figure(opened.baseline, start, view, theme),
            html.Table([html.Thead(head), html.Tbody(rows)]),
        )


def _compare(app: Dash, opened: Opened) -> None:
    @app.callback(Output("comparison", "children"), Input("compare-view", "data"))
    def compare(query: str | None) -> Any:
        pair = from_query(query or "").compare
        if pair is None:
            return html.P("Choose two: kernels that came, went, merged or changed, and what it did to the step.")
        return comparison_panel(opened, *pair)


def _tables(app: Dash, opened: Opened) -> None:
    @app.callback(
        Output("grid", "columnDefs"),
        Output("grid", "rowData"),
        Output("table-note", "children"),
        Output("csv", "href"),
        Output("csv", "download"),
        Input("table", "value"),
        Input("bands", "value"),
    )
    def fill(name: str, keys: list[str] | None) -> tuple[Any, ...]:
        bands = shown_bands(opened, View(bands=tuple(keys or ())))
        data = table(name, opened, bands)
        named = ",".join(band.key for band in bands)
        return data.columns, data.rows, data.note or "", f"download/{name}.csv?bands={named}", f"{name}.csv"
