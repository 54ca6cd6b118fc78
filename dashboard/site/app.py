"""The app: page, callbacks, downloads and guard put together. Made once; requests only read."""

from __future__ import annotations

from collections.abc import Callable
from http import HTTPStatus
from typing import Final

import flask
from dash.development.base_component import Component

from ...analysis import report_story
from ...analysis.model.errors import LaunchscopeError
from ...analysis.render import perfetto
from .. import grid_table
from ..enlarged import STILL_PX
from ..opened_report import OpenedReport
from ..page import actions, callbacks, layout, tables
from ..page.index_page import IndexPage, first_response, index_page
from ..page.server import Access, guard
from ..timeline.lanes import prepare
from ..view import View, from_query
from ..watched import Watched
from .uploads import Uploads

LEAST_PX: Final = 300
MOST_PX: Final = 8_000


def build_app(
    opened: OpenedReport, access: Access, watched: Watched, uploads: Uploads | None = None, path: str = "/"
) -> IndexPage:
    """The page of one report, for those whom ``access`` admits; with ``uploads`` other files can be opened in it.

    What is asked of the server carries the ``path`` that the page has; the app itself is asked without it.
    """
    for key in opened.first:
        band = opened.band(key)
        assert band is not None
        prepare(band)  # else the first who looks waits for it
    app = index_page(lambda query: first_response(opened, from_query(query)), opened.title, path)
    most_bytes = None if uploads is None else uploads.most_bytes

    def page() -> Component:
        """For the view, the colour scheme and the width that assets/dashboard.js asks for."""
        request = flask.request if flask.has_request_context() else None
        if request is None:
            return layout.page(opened, View(), "light", STILL_PX, most_upload_bytes=most_bytes)
        width_px = min(max(request.args.get("width", STILL_PX, int), LEAST_PX), MOST_PX)
        scheme = request.args.get("scheme", "light")
        view = from_query(request.query_string.decode("ascii", "replace"))
        return layout.page(opened, view, scheme, width_px, most_upload_bytes=most_bytes)

    app.layout = page
    callbacks.register(app, opened, watched)
    _downloads(app.server, opened)
    if uploads is not None:
        uploads.register(app.server)
    guard(app.server, access, app.csp_hashes())
    return app


def _downloads(server: flask.Flask, opened: OpenedReport) -> None:
    def html_report() -> str:
        from ..one_file.html import render

        return render(opened.report)

    files: dict[str, tuple[Callable[[], str | bytes], str]] = {
        "report.json": (lambda: report_story.render_json(opened.report), "application/json"),
        "trace.pftrace": (lambda: b"".join(perfetto.render(opened.report)), "application/octet-stream"),
        "report.html": (html_report, "text/html"),
    }

    @server.get("/download/<name>")
    def download(name: str) -> flask.Response:
        if name in files:
            render, kind = files[name]
            try:
                content = render()
            except LaunchscopeError as error:
                flask.abort(HTTPStatus.CONFLICT, str(error))
        elif name.removesuffix(".csv") in tables.TABLES and name.endswith(".csv"):
            view: View = from_query(flask.request.query_string.decode("ascii", "replace"))
            content = grid_table.csv(tables.table(name.removesuffix(".csv"), opened, actions.shown_bands(opened, view)))
            kind = "text/csv"
        else:
            flask.abort(404)
        response = flask.Response(content, mimetype=kind)
        response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
        return response
