"""Serving the page of one report, or of many ranks, until the user ends it."""

from __future__ import annotations

import contextlib
import logging
import socket
import webbrowser
from collections.abc import Callable, Iterable
from dataclasses import replace
from http import HTTPStatus
from ipaddress import ip_address
from typing import TYPE_CHECKING

import flask
from dash.development.base_component import Component
from werkzeug.serving import BaseWSGIServer, make_server

from ...analysis import report_story
from ...analysis.many.document import RanksDocument
from ...analysis.model.errors import LaunchscopeError
from ...analysis.render import perfetto
from ...analysis.report import Report
from .. import grid_table
from ..many import app as many_app
from ..many.rank_pages import RankPages, Read
from ..opened_report import OpenedReport, Watched, open_bands
from ..page import actions, callbacks, layout, tables
from ..page.index_page import IndexPage, attachment, first_response, index_page, page_request
from ..page.server import Access, guard
from ..timeline.lanes import prepare
from ..view import from_query
from .uploads import Uploads

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication


def serve(
    report: Report, watched: Watched, *, host: str, ports: Iterable[int], browser: bool, say: Callable[[str], None]
) -> None:
    """Serve on the first of the ports that is free, until Ctrl-C. LaunchscopeError where none is."""

    def site(access: Access) -> WSGIApplication:
        def page_of(uploaded: Report, path: str) -> flask.Flask:
            page: flask.Flask = build_app(open_bands(uploaded), access, Watched(()), uploads, path).server
            return page

        uploads = Uploads(page_of)
        return uploads.mounted_on(build_app(open_bands(report), access, watched, uploads).server)

    _serve(site, host=host, ports=ports, browser=browser, say=say)


def serve_many(
    doc: RanksDocument, read: Read, *, host: str, ports: Iterable[int], browser: bool, say: Callable[[str], None]
) -> None:
    """Serve the page of many ranks, and those of the ranks that are opened in it; ``read`` makes a report of rows."""

    def site(access: Access) -> WSGIApplication:
        def page_of(report: Report, path: str) -> flask.Flask:
            opened = replace(open_bands(report), within="/")
            page: flask.Flask = build_app(opened, access, Watched(()), None, path).server
            return page

        pages = RankPages(doc, read, page_of)
        return pages.mounted_on(many_app.build_app(doc, access, pages).server)

    _serve(site, host=host, ports=ports, browser=browser, say=say)


def _serve(
    site: Callable[[Access], WSGIApplication],
    *,
    host: str,
    ports: Iterable[int],
    browser: bool,
    say: Callable[[str], None],
) -> None:
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line per request
    with _listen(host, ports) as listening:  # of which the server has a copy
        bound, port = listening.getsockname()[:2]
        access = Access.of(host, port)
        server: BaseWSGIServer = make_server(host, port, site(access), threaded=True, fd=listening.fileno())
    here, elsewhere = _hosts(host, bound)
    say(f"open {access.url_at(elsewhere or here)} (Ctrl-C ends it)")
    if access.token is not None:
        say(_for_others(access, here, elsewhere))
    if browser:
        webbrowser.open(access.url_at(here))
    server.serve_forever()  # it takes Ctrl-C as its end, and closes
    say("ended")


def _hosts(host: str, bound: str) -> tuple[str, str | None]:
    """By which name or address this machine's browser reaches the page, and by which that of another machine.

    Who serves on all addresses (0.0.0.0, ::) has named none of them; null where this machine has none for others.
    """
    if not ip_address(bound.partition("%")[0]).is_unspecified:
        return host, host
    return "localhost", address_for_others(of_version_6=":" in bound)


def _for_others(access: Access, here: str, elsewhere: str | None) -> str:
    if elsewhere is None:
        return "no address that others could open is known: put this machine's own in the place of localhost"
    text = "others on the network can open it with this address and its token"
    return text if here == elsewhere else f"{text}; on this machine {access.url_at(here)} opens it, too"


def address_for_others(*, of_version_6: bool) -> str | None:
    """The address of this machine that its way to other networks begins at; None without one. Nothing is sent."""
    documentation = [(socket.AF_INET, "192.0.2.1")]  # RFC 5737
    if of_version_6:  # which takes both
        documentation.append((socket.AF_INET6, "2001:db8::1"))  # RFC 3849
    for family, address in documentation:
        with contextlib.suppress(OSError), socket.socket(family, socket.SOCK_DGRAM) as unsent:
            unsent.connect((address, 9))
            found: str = unsent.getsockname()[0]
            if not ip_address(found).is_loopback:
                return found
    return None


def _listen(host: str, ports: Iterable[int]) -> socket.socket:
    problem: OSError | None = None
    for port in ports:
        try:
            family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
            listening = socket.socket(family, socket.SOCK_STREAM)
            listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            listening.bind((host, port))
            listening.listen(128)
        except (OSError, UnicodeError) as error:
            problem = error if isinstance(error, OSError) else OSError(f"{host!r} is no address")
        else:
            return listening
    assert problem is not None
    raise LaunchscopeError(
        f"can't serve on {host}: {problem.strerror or problem}; choose another with --host or --port"
    ) from problem


def build_app(
    opened: OpenedReport, access: Access, watched: Watched, uploads: Uploads | None = None, path: str = "/"
) -> IndexPage:
    """The page of one report, for those whom ``access`` admits; with ``uploads`` other files can be opened in it.

    What is asked of the server carries the ``path`` that the page has; the app itself is asked without it.
    """
    for band in opened.shown_first:
        prepare(band)  # else the first who looks waits for it
    app = index_page(lambda query: first_response(opened, from_query(query)), opened.title, path)
    most_bytes = None if uploads is None else uploads.most_bytes

    def page() -> Component:
        asked = page_request()
        view = from_query(asked.query)
        return layout.page(opened, view, asked.scheme, asked.width_px, most_upload_bytes=most_bytes)

    app.layout = page
    callbacks.register(app, opened, watched)
    _downloads(app.server, opened)
    if uploads is not None:
        uploads.register(app.server)
    guard(app.server, access, app.csp_hashes())
    return app


def _downloads(server: flask.Flask, opened: OpenedReport) -> None:
    def html_report() -> str:
        from ..page.one_file import render

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
                return attachment(render(), kind, name)
            except LaunchscopeError as error:
                flask.abort(HTTPStatus.CONFLICT, str(error))
        shown = name.removesuffix(".csv")
        if shown == name or shown not in tables.TABLES:
            flask.abort(HTTPStatus.NOT_FOUND)
        view = from_query(page_request().query)
        return attachment(
            grid_table.csv(tables.table(shown, opened, actions.shown_bands(opened, view))), "text/csv", name
        )
