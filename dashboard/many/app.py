"""The page of many ranks: made once; requests only read. What it shows is in its URL."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Annotated, Any

import flask
import msgspec
from dash import Dash, Input, Output, State, ctx, no_update
from dash.development.base_component import Component
from markupsafe import Markup

from ...analysis.many.document import RanksDocument
from ...analysis.many.many_story import render_json
from .. import grid_table
from ..page.actions import Click
from ..page.index_page import IndexPage, attachment, index_page, page_request, to_html
from ..page.layout import grid
from ..page.panels import in_browser, still_graph
from ..page.server import Access, Width, guard
from ..plotting import theme_named
from ..rank_heat import cell_at, heat_figure, heat_words
from . import layout
from .charts import distribution_figure, heat_of, order, step_in_timeline, steps_are_numbered
from .layout import table
from .rank_pages import RankPages
from .view import ManyView, from_query, path_of, title, to_query

Row = Annotated[str, msgspec.Meta(pattern="^[0-9]{1,9}$")]
"""As the lists name it."""


def build_app(doc: RanksDocument, access: Access, pages: RankPages) -> IndexPage:
    """The page, for those whom ``access`` admits; ``pages`` are those of its ranks."""

    def view_of(query: str | None) -> ManyView:
        return from_query(query or "", [each.figure for each in doc.distributions])

    def first(query: str) -> Markup:
        del query  # the answer is the same whatever is sorted
        parts = [layout.header(doc), *layout.outliers_section(doc)]
        return Markup('<div id="first">{}</div>').format(to_html(parts, {}))

    app = index_page(first, title(doc), "/")

    def page() -> Component:
        asked = page_request()
        return layout.page(doc, view_of(asked.query), asked.scheme, asked.width_px)

    app.layout = page
    _navigation(app, view_of)
    _charts(app, doc, view_of)
    _opening(app, doc, view_of)
    _table(app, doc)
    _downloads(app.server, doc)
    pages.register(app.server)
    guard(app.server, access, app.csp_hashes())
    return app


def _navigation(app: Dash, view_of: Callable[[str | None], ManyView]) -> None:
    @app.callback(
        Output("url", "search"),
        Output("heat-of", "value"),
        Output("sort", "value"),
        Input("url", "search"),
        Input("heat-of", "value"),
        Input("sort", "value"),
        Input("theme", "n_clicks"),
        State("scheme", "data"),
        prevent_initial_call=True,
    )
    def navigate(query: str | None, heat: str, sort: str, clicks: int | None, scheme: str | None) -> tuple[Any, ...]:
        del clicks
        view = view_of(query)
        if "url" in {each["prop_id"].partition(".")[0] for each in ctx.triggered}:
            return no_update, view.heat, view.sort
        theme = view.theme
        if ctx.triggered_id == "theme":
            theme = "light" if (view.theme or scheme) == "dark" else "dark"
        after = view_of(to_query(ManyView(heat="busy" if heat == "busy" else "period", sort=sort, theme=theme)))
        return to_query(after), no_update, no_update


def _charts(app: Dash, doc: RanksDocument, view_of: Callable[[str | None], ManyView]) -> None:
    @app.callback(
        Output("heat-frame", "children"),
        Output("ranks-note", "children"),
        Input("url", "search"),
        Input("scheme", "data"),
        Input("width", "data"),
        Input("painted", "data"),
    )
    def heat(query: str | None, scheme: str | None, width: Width, painted: bool | None) -> tuple[Any, ...]:
        if not painted:
            return no_update, no_update
        view = view_of(query)
        cells = heat_of(doc, view)
        figure = heat_figure(cells, theme_named(view.theme or scheme), width)
        words = ["A click on a cell opens that rank's timeline at that step.", *heat_words(cells, width)]
        if not steps_are_numbered(doc):
            words.append("The ranks' steps have other numbers: the n-th of one stands below the n-th of another.")
        label = "Heat map of ranks and steps; the lists below it open a rank by keyboard"
        return still_graph("heat", figure, width, label), " ".join(words)

    @app.callback(
        Output("spread-frame", "children"),
        Input("url", "search"),
        Input("scheme", "data"),
        Input("width", "data"),
        Input("painted", "data"),
    )
    def spread(query: str | None, scheme: str | None, width: Width, painted: bool | None) -> Any:
        if not painted:
            return no_update
        figure = distribution_figure(doc, theme_named(view_of(query).theme or scheme), width)
        return still_graph("spread", figure, width, "A histogram of each figure over the ranks")


def _opening(app: Dash, doc: RanksDocument, view_of: Callable[[str | None], ManyView]) -> None:
    in_browser(app, "same", Output("heat-click", "data"), Input("heat", "clickData"))

    in_browser(app, "go", Output("gone", "data"), Input("go", "data"))

    @app.callback(Output("go", "data"), Input("heat-click", "data"), State("url", "search"), prevent_initial_call=True)
    def follow(click: Click | None, query: str | None) -> Any:
        view = view_of(query)
        cells = heat_of(doc, view)
        cell = cell_at(cells, click)
        if cell is None:
            return no_update
        row = order(doc, view.sort)[cell[0]]
        step = step_in_timeline(doc, row, cells.steps[cell[1]])
        return path_of(row) + _query(view, step)

    @app.callback(
        Output("open-rank", "href"), Input("rank-a", "value"), Input("rank-b", "value"), Input("url", "search")
    )
    def link(first: Row | None, second: Row | None, query: str | None) -> str:
        if first is None:
            return ""
        return path_of(int(first), None if second is None else int(second)) + _query(view_of(query), 0)


def _query(view: ManyView, step: int) -> str:
    """Of a rank's page: the step, and the theme that was chosen here."""
    parts = [*([f"step={step}"] if step else []), *([f"theme={view.theme}"] if view.theme else [])]
    return "?" + "&".join(parts) if parts else ""


def _table(app: Dash, doc: RanksDocument) -> None:
    @app.callback(Output("grid-frame", "children"), Input("can-grid", "data"))
    def fill(can_grid: bool | None) -> Any:
        if not can_grid:
            return no_update
        return grid(table(doc, links=True))


def _downloads(server: flask.Flask, doc: RanksDocument) -> None:
    @server.get("/download/<name>")
    def download(name: str) -> flask.Response:
        if name not in ("ranks.json", "ranks.csv"):
            flask.abort(HTTPStatus.NOT_FOUND)
        if name == "ranks.json":
            return attachment(render_json(doc), "application/json", name)
        return attachment(grid_table.csv(table(doc, links=False)), "text/csv", name)
