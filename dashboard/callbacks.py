"""What an event makes of the view, and what the view makes of the page. No state: all of it is in the URL."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec
from dash import ALL, ClientsideFunction, Dash, Input, Output, State, ctx, html, no_update

from . import charts, layout, what_if
from .enlarged import css_px, scale_of
from .moves import clicked, op_of_row, pressed, show_op, shown_bands, stepped, zoomed
from .opened import Opened
from .panels import MODEL_REM, chart, comparison_panel, details_panel
from .shown import control_values, stores, timelines
from .tables import table
from .theme import Theme, theme_named
from .view import View, from_query, to_query
from .watched import Watched


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
        "range": Input("range", "data"),
        "click": Input("timeline", "clickData"),
        "cell": Input("cell", "data"),
        "keys": Input("keys", "data"),
        "rows": Input({"op": ALL, "row": ALL}, "n_clicks"),
        **{name: Input(name, "n_clicks") for name in ("previous", "next", "fit", "theme")},
        **({"reset": Input("reset", "n_clicks")} if has_model else {}),
    }

    @app.callback(
        output={
            "url": Output("url", "search"),
            **{name: Output(component, "value") for name, component in controls.items()},
            **{name: Output(name, "data") for name in stores(View())},
        },
        inputs={
            "url": Input("url", "search"),
            "values": {name: Input(component, "value") for name, component in controls.items()},
            "events": events,
            "scheme": State("scheme", "data"),
            "known": {name: State(name, "data") for name in stores(View())},
        },
    )
    def navigate(
        url: str | None,
        values: dict[str, Any],
        events: dict[str, Any],
        scheme: str | None,
        known: dict[str, Any],
    ) -> dict[str, Any]:
        after = from_query(url or "")
        happened = [each for each in ctx.triggered if ctx.triggered_prop_ids.get(each["prop_id"], "url") != "url"]
        for each in happened:  # several, where they came while an answer was on its way
            after = event(opened, after, each, values, events, scheme)
        query = to_query(after)
        shown = control_values(opened, after)
        parts = stores(after)
        if not happened and parts == known:  # the echo of an event: people type on meanwhile
            shown = values
        return {
            "url": no_update if query == (url or "") else query,
            **{name: no_update if shown[name] == values[name] else shown[name] for name in controls},
            **{name: no_update if value == known[name] else value for name, value in parts.items()},
        }


def event(
    opened: Opened,
    view: View,
    triggered: Mapping[str, Any],
    values: Mapping[str, Any],
    events: Mapping[str, Any],
    scheme: str | None,
) -> View:
    """The view after what triggered a callback; the same one where it changes nothing."""
    change = msgspec.structs.replace
    match ctx.triggered_prop_ids[triggered["prop_id"]]:
        case {"op": row}:
            is_click = triggered["value"] is not None  # else the row was drawn just now
            return show_op(opened, view, op_of_row(row)) if is_click else view
        case "timeline":
            return change(view, selected=clicked(opened, events["click"]))
        case "range":
            return zoomed(view, events["range"])
        case "cell":
            cell = events["cell"] or {}
            return show_op(opened, view, op_of_row(cell.get("rowId")))
        case "keys":
            return pressed(opened, view, (events["keys"] or {}).get("key", ""))
        case "previous":
            return stepped(opened, view, -1)
        case "next":
            return stepped(opened, view, 1)
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
        case str(knob) if knob.startswith("knob-"):
            name = knob.removeprefix("knob-")
            knob_value = what_if.slider_marks(what_if.starting_point(opened))[name].factor(values[name])
            others = {other: value for other, value in view.knobs.items() if other != name}
            return change(view, knobs=others if knob_value is None else others | {name: knob_value})
        case _:
            return view


def _theme(query: str | None, scheme: str | None) -> Theme:
    return theme_named(from_query(query or "").theme or scheme)


def _timelines(app: Dash, opened: Opened) -> None:
    @app.callback(
        Output("timeline", "figure"),
        Output("timeline", "style"),
        Output("step-label", "children"),
        Output("search-count", "children"),
        Input("timeline-view", "data"),
        Input("scheme", "data"),
        Input("width", "data"),
        prevent_initial_call=True,  # the page came with it
    )
    def draw(query: str, scheme: str, width: int) -> tuple[Any, ...]:
        drawn = timelines(opened, from_query(query), scheme, width)
        return drawn.figure, {"height": css_px(drawn.height_px)}, drawn.step, drawn.found

    @app.callback(Output("details", "children"), Input("timeline-view", "data"))
    def detail(query: str | None) -> Any:
        view = from_query(query or "")
        return details_panel(opened, view)


def _charts(app: Dash, opened: Opened) -> None:
    height_rem = charts.chart_rem(opened)

    @app.callback(
        Output("charts", "children"),
        Input("chart-view", "data"),
        Input("scheme", "data"),
        Input("width", "data"),
        Input("painted", "data"),
    )
    def draw(query: str | None, scheme: str | None, width: int, painted: bool | None) -> Any:
        if not painted:
            return no_update
        scale = scale_of(width)
        theme = _theme(query, scheme)
        return [
            chart("idle", charts.idle_figure(opened, theme), height_rem, scale),
            chart("durations", charts.durations_figure(opened, theme), height_rem, scale),
            chart("bound", charts.bound_figure(opened, theme), height_rem, scale),
        ]


def _model(app: Dash, opened: Opened) -> None:
    @app.callback(
        Output("model-charts", "children"),
        Output("readout", "children"),
        Input("model-view", "data"),
        Input("scheme", "data"),
        Input("width", "data"),
        Input("painted", "data"),
    )
    def draw(query: str | None, scheme: str | None, width: int, painted: bool | None) -> tuple[Any, ...]:
        if not painted:
            return (no_update,) * 2
        view, theme = from_query(query or ""), _theme(query, scheme)
        start, scale = what_if.starting_point(opened), scale_of(width)
        assert opened.baseline is not None
        head = html.Tr([html.Th(text) for text in ("", "measured", "predicted", "change")])
        rows = [
            html.Tr([html.Th(row.label, scope="row"), *(html.Td(t) for t in (row.measured, row.predicted, row.change))])
            for row in what_if.readout(start, view)
        ]
        return (
            [
                chart("what-if", what_if.what_if_figure(start, view, theme), MODEL_REM, scale),
                chart("sketch", what_if.sketch_figure(opened.baseline, start, view, theme), MODEL_REM, scale),
            ],
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
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("launchscope", "same"),
        Output("cell", "data"),
        Input("grid", "cellClicked"),
        prevent_initial_call=True,
    )

    @app.callback(
        Output("grid-frame", "children"),
        Output("table-note", "children"),
        Output("csv", "href"),
        Output("csv", "download"),
        Input("table", "value"),
        Input("bands", "value"),
        Input("can-grid", "data"),
    )
    def fill(name: str, keys: list[str] | None, can_grid: bool | None) -> tuple[Any, ...]:
        if not can_grid:
            return (no_update,) * 4
        bands = shown_bands(opened, View(bands=tuple(keys or ())))
        data = table(name, opened, bands)
        named = ",".join(band.key for band in bands)
        return layout.grid(data), data.note or "", f"download/{name}.csv?bands={named}", f"{name}.csv"
