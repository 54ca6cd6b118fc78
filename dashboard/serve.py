"""Serving the page of one report, or of many ranks, until the user ends it."""

from __future__ import annotations

import logging
import socket
import webbrowser
from collections.abc import Callable, Iterable
from dataclasses import replace
from typing import TYPE_CHECKING

import flask
from werkzeug.serving import BaseWSGIServer, make_server

from ..analysis.errors import LaunchscopeError
from ..analysis.many.document import RanksDocument
from ..analysis.report import Report
from .app import build_app
from .many import app as many_app
from .many.rank_pages import RankPages
from .many.reading import Read
from .opened import open_bands
from .server import Access
from .uploads import Uploads
from .watched import Watched

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
        return uploads.beside(build_app(open_bands(report), access, watched, uploads).server)

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
        return pages.beside(many_app.build_app(doc, access, pages).server)

    _serve(site, host=host, ports=ports, browser=browser, say=say)


def _serve(
    site: Callable[[Access], WSGIApplication],
    *,
    host: str,
    ports: Iterable[int],
    browser: bool,
    say: Callable[[str], None],
) -> None:
    listening = _listen(host, ports)
    access = Access.of(host, listening.getsockname()[1])
    app = site(access)
    logging.getLogger("werkzeug").setLevel(logging.ERROR)  # else a line per request
    server: BaseWSGIServer = make_server(host, access.port, app, threaded=True, fd=listening.fileno())
    say(f"open {access.url} (Ctrl-C ends it)")
    if access.token is not None:
        say("others on the network can open it with this address and its token")
    if browser:
        webbrowser.open(access.url)
    server.serve_forever()  # it takes Ctrl-C as its end, and closes
    say("ended")


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
