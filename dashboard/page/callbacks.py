"""What an event makes of the view, and what the view makes of the page. No state: all of it is in the URL."""

from __future__ import annotations

from typing import Any

from dash import ALL, Dash, Input, Output, State, ctx, html, no_update

from ..charts.bound_chart import bound_figure, chart_rem
from ..charts.durations_chart import durations_figure
from ..charts.idle_chart import idle_figure
from ..charts.sketch_chart import sketch_figure
from ..charts.starting_point import slider_marks, starting_point
from ..charts.what_if_chart import Row, readout, what_if_figure
from ..opened_report import OpenedReport, Watched
from ..plotting import Theme, css_px, scale_of, theme_named
from ..view import View, from_query, to_query
from . import layout
from .actions import BUTTONS, control_values, op_of_row, show_op, shown_bands, stores, timelines, value_type, view_after
from .panels import MODEL_REM, chart, comparison_panel, details_panel, in_browser
from .rank_section import RANK_CONTROLS, register_ranks
from .server import Width, refuse, require
from .tables import TABLES, table


def register(app: Dash, opened: OpenedReport, watched: Watched) -> None:
    """All callbacks of the page."""
    _changes(app, watched)
    _navigation(app, opened)
    _timelines(app, opened)
    _charts(app, opened)
    if starting_point(opened).step is not None:
        _model(app, opened)
    if len(opened.bands) > 1:
        _compare(app, opened)
    if opened.rank_sets:
        register_ranks(app, opened)
    _tables(app, opened)


def _changes(app: Dash, watched: Watched) -> None:
    @app.callback(Output("changed", "children"), Input("url", "search"))
    def tell(_: str | None) -> Any:
        problem = watched.problem()
        return [] if problem is None else html.P(problem, className="warning")


def _navigation(app: Dash, opened: OpenedReport) -> None:
    has_ranks = bool(opened.rank_sets)
    names = [*stores(View(), with_ranks=has_ranks)]
    has_model = starting_point(opened).step is not None
    controls = {
        **{name: name for name in ("align", "overlays", "search", "bands")},
        **({"compare_a": "compare-a", "compare_b": "compare-b"} if len(opened.bands) > 1 else {}),
        **{name: f"knob-{name}" for name in slider_marks(starting_point(opened))},
        **(RANK_CONTROLS if opened.rank_sets else {}),
    }
    events = {
        "click": Input("timeline", "clickData"),
        "cell": Input("cell", "data"),
        "keys": Input("keys", "data"),
        **({"heat_click": Input("heat-click", "data")} if opened.rank_sets else {}),
        **{name: Input(name, "n_clicks") for name in BUTTONS if name != "reset" or has_model},
    }

    @app.callback(
        output={
            "url": Output("url", "search"),
            "answered": Output("answered", "data"),
            **{name: Output(component, "value") for name, component in controls.items()},
            **{name: Output(name, "data") for name in names},
        },
        inputs={
            "url": Input("url", "search"),
            "values": {name: Input(component, "value") for name, component in controls.items()},
            "events": events,
            "rows": Input({"op": ALL, "row": ALL}, "n_clicks"),
            "answered": State("answered", "data"),
            "scheme": State("scheme", "data"),
            "known": {name: State(name, "data") for name in names},
        },
    )
    def navigate(
        url: str | None,
        values: dict[str, Any],
        events: dict[str, Any],
        rows: Any,
        answered: dict[str, Any],
        scheme: str | None,
        known: dict[str, Any],
    ) -> dict[str, Any]:
        del rows
        inputs = values | events
        for name in inputs:
            require(inputs[name], value_type(name))
            require(answered.get(name), value_type(name) | None)
        given = ctx.args_grouping["values"] | ctx.args_grouping["events"]
        changed = [name for name in inputs if given[name]["triggered"] or inputs[name] != answered.get(name)]
        after = from_query(url or "")
        for name in changed:
            after = view_after(opened, after, name, inputs, answered, scheme)
        for row in ctx.args_grouping["rows"]:
            if row["triggered"] and row["value"] is not None:  # else it was drawn just now
                after = show_op(opened, after, op_of_row(row["id"]["op"]))
        query = to_query(after)
        state, parts = control_values(opened, after), stores(after, with_ranks=has_ranks)
        answer = {name: state[name] for name in values} | events
        return {
            "url": no_update if query == (url or "") else query,
            "answered": no_update if answer == answered else answer,
            **{name: no_update if state[name] == value else state[name] for name, value in values.items()},
            **{name: no_update if value == known[name] else value for name, value in parts.items()},
        }


def _theme(query: str | None, scheme: str | None) -> Theme:
    return theme_named(from_query(query or "").theme or scheme)


def _timelines(app: Dash, opened: OpenedReport) -> None:
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
    def draw(query: str, scheme: str, width: Width) -> tuple[Any, ...]:
        drawn = timelines(opened, from_query(query), scheme, width)
        return drawn.figure, {"height": css_px(drawn.height_px)}, drawn.step, drawn.found

    @app.callback(Output("details", "children"), Input("timeline-view", "data"))
    def detail(query: str | None) -> Any:
        view = from_query(query or "")
        return details_panel(opened, view)


def _charts(app: Dash, opened: OpenedReport) -> None:
    height_rem = chart_rem(opened)

    @app.callback(
        Output("charts", "children"),
        Input("chart-view", "data"),
        Input("scheme", "data"),
        Input("width", "data"),
        Input("painted", "data"),
    )
    def draw(query: str | None, scheme: str | None, width: Width, painted: bool | None) -> Any:
        if not painted:
            return no_update
        scale = scale_of(width)
        theme = _theme(query, scheme)
        return [
            chart("idle", idle_figure(opened, theme), height_rem, scale),
            chart("durations", durations_figure(opened, theme), height_rem, scale),
            chart("bound", bound_figure(opened, theme), height_rem, scale),
        ]


def _model(app: Dash, opened: OpenedReport) -> None:
    @app.callback(
        Output("model-charts", "children"),
        Output("readout", "children"),
        Input("model-view", "data"),
        Input("scheme", "data"),
        Input("width", "data"),
        Input("painted", "data"),
    )
    def draw(query: str | None, scheme: str | None, width: Width, painted: bool | None) -> tuple[Any, ...]:
        if not painted:
            return (no_update,) * 2
        view, theme = from_query(query or ""), _theme(query, scheme)
        start, scale = starting_point(opened), scale_of(width)
        assert opened.baseline is not None
        head = html.Tr([html.Th(text) for text in ("", "measured", "predicted", "change")])
        rows = [html.Tr([html.Th(row.label, scope="row"), *_cells(row)]) for row in readout(start, view)]
        return (
            [
                chart("what-if", what_if_figure(start, view, theme), MODEL_REM, scale),
                chart("sketch", sketch_figure(opened.baseline, start, view, theme), MODEL_REM, scale),
            ],
            html.Table([html.Thead(head), html.Tbody(rows)]),
        )


def _cells(row: Row) -> list[html.Td]:
    """The figures of a row of the readout; a sentence has the room of all of them."""
    if not row.measured and not row.change:
        return [html.Td(row.predicted, colSpan=3, className="text")]
    return [html.Td(text) for text in (row.measured, row.predicted, row.change)]


def _compare(app: Dash, opened: OpenedReport) -> None:
    @app.callback(Output("comparison", "children"), Input("compare-view", "data"))
    def compare(query: str | None) -> Any:
        pair = from_query(query or "").compare
        if not all(pair):
            return html.P("Choose two: kernels that came, went, merged or changed, and what it did to the step.")
        return comparison_panel(opened, *pair)


def _tables(app: Dash, opened: OpenedReport) -> None:
    in_browser(app, "same", Output("cell", "data"), Input("grid", "cellClicked"))

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
        if name not in TABLES:
            refuse(f"there is no table {name!r}")
        bands = shown_bands(opened, View(bands=tuple(keys or ())))
        data = table(name, opened, bands)
        named = ",".join(band.key for band in bands)
        return layout.grid(data), data.note or "", f"download/{name}.csv?bands={named}", f"{name}.csv"
