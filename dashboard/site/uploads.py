"""Files that are opened in the page: each is read as `launchscope analyze` reads it and becomes a page of its own.

A page's path can't be guessed, and its report never changes. The file itself is kept only while it is read.
"""

from __future__ import annotations

import contextlib
import gc
import secrets
import socket
import tempfile
import threading
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import flask
from werkzeug.exceptions import RequestEntityTooLarge
from werkzeug.wsgi import get_input_stream

from ...analysis.inputs.sources import copy_of
from ...analysis.model.errors import LaunchscopeError
from ...analysis.report import Report, analyze_sources
from ..page.turns import Turns

if TYPE_CHECKING:
    from wsgiref.types import StartResponse, WSGIApplication, WSGIEnvironment

    from werkzeug.wrappers import Response

MAX_BYTES: Final = 256 << 20
"""Of one file. A gzipped trace of 10 million events is about as large."""
KEPT: Final = 8
KEPT_BYTES: Final = 512 << 20
"""Of the files whose pages are kept: what is read of one takes several times its size."""
PATIENCE_S: Final = 60.0
"""How long a sender may take for a block, as nobody else's file is read meanwhile."""
MOST_WAITING: Final = 8
"""Files that may wait while another is read. Nothing of them is taken before, so that they need no memory."""
LONGEST_WAIT_S: Final = 600.0
BELOW: Final = "/r/"
_LONGEST_LABEL: Final = 100  # characters
_BLOCK_BYTES: Final = 256 << 10


@dataclass(frozen=True)
class _Page:
    app: WSGIApplication
    file_bytes: int


class Uploads:
    """The pages of the last few uploaded files. One file is read at a time; others wait for their turn."""

    def __init__(
        self,
        page_of: Callable[[Report, str], WSGIApplication],
        *,
        most_bytes: int = MAX_BYTES,
        kept: int = KEPT,
        kept_bytes: int = KEPT_BYTES,
        most_waiting: int = MOST_WAITING,
        longest_wait_s: float = LONGEST_WAIT_S,
    ) -> None:
        """``page_of`` makes the page of a report under a path, as '/r/…/'."""
        self.most_bytes = most_bytes
        self._page_of = page_of
        self._kept = kept
        self._kept_bytes = kept_bytes
        self._turns = Turns(most_waiting, longest_wait_s)
        self._pages: dict[str, _Page] = {}  # by token, the oldest first; changed only while a file is read

    def beside(self, first: WSGIApplication) -> WSGIApplication:
        """An app that answers with the page whose path a request is below, and else with the first page."""

        def dispatch(environ: WSGIEnvironment, start_response: StartResponse) -> Iterable[bytes]:
            path: str = environ.get("PATH_INFO", "")
            token, slash, rest = path.removeprefix(BELOW).partition("/")
            page = self._pages.get(token) if slash and path.startswith(BELOW) else None
            if page is None:
                return first(environ, start_response)
            root = environ.get("SCRIPT_NAME", "") + BELOW + token
            return page.app(environ | {"SCRIPT_NAME": root, "PATH_INFO": f"/{rest}"}, start_response)

        return dispatch

    def register(self, server: flask.Flask) -> None:
        """Let a page take files, and say what became of pages that are not kept any more."""

        @server.post("/upload")
        def upload() -> flask.Response:
            label, ticket = label_of(flask.request.args.get("name", "")), flask.request.args.get("ticket", "")
            with self._turns.waited_for(ticket) as problem:
                if problem is not None:
                    return _said(f"{label}: {problem}", HTTPStatus.SERVICE_UNAVAILABLE)
                return self._open(flask.request.environ, label)

        @server.get("/upload/before")
        def before() -> flask.Response:
            """How many files are read before that of a ticket."""
            response = _said(str(self._turns.before(flask.request.args.get("ticket", ""))), HTTPStatus.OK)
            response.headers["Cache-Control"] = "no-store"
            return response

        @server.route(f"{BELOW}<path:rest>", methods=["GET", "POST"])
        def gone(rest: str) -> Response:
            if rest in self._pages:  # its slash is missing, without which the page's links lead elsewhere
                return flask.redirect(f"{BELOW}{rest}/")
            text = (
                f"This page is gone: of the files that are opened in the page, launchscope keeps the last {self._kept}"
                " at most, until it ends. Open the file again."
            )
            link = '<a href="/">to the first page</a>'
            head = '<!doctype html><html lang="en"><title>gone · launchscope</title>'
            return flask.Response(f"{head}<p>{text}</p><p>{link}</p></html>", HTTPStatus.GONE)

    def _open(self, environ: WSGIEnvironment, label: str) -> flask.Response:
        """Read the body of a request as a file of this name; where its page is, or why there is none."""
        with tempfile.TemporaryDirectory(prefix="launchscope-upload-") as folder:
            file = Path(folder, secrets.token_hex(16))
            try:
                _receive(environ, file, self.most_bytes)
                report = _read(file, label)
            except RequestEntityTooLarge:
                text = f"{label}: over {self.most_bytes >> 20:,} MiB; give it to launchscope dashboard instead"
                return _said(text, HTTPStatus.REQUEST_ENTITY_TOO_LARGE)
            except LaunchscopeError as error:
                return _said(str(error), HTTPStatus.UNPROCESSABLE_ENTITY)
            except MemoryError:
                text = f"{label}: takes more memory than there is; open a smaller trace"
                return _said(text, HTTPStatus.UNPROCESSABLE_ENTITY)
            except OSError as error:
                text = f"{label}: can't be kept while it is read ({error.strerror})"
                return _said(text, HTTPStatus.INSUFFICIENT_STORAGE)
            path = self._keep(report, file.stat().st_size)
        response = _said(path, HTTPStatus.CREATED)
        response.headers["Location"] = path
        return response

    def _keep(self, report: Report, file_bytes: int) -> str:
        """The path of a new page; older ones go where it would be too many."""
        token = secrets.token_urlsafe(16)
        path = f"{BELOW}{token}/"
        page = _Page(self._page_of(report, path), file_bytes)
        pages = {**self._pages, token: page}
        while len(pages) > self._kept or (len(pages) > 1 and _bytes_of(pages) > self._kept_bytes):
            del pages[next(iter(pages))]
        is_one_gone = len(pages) <= len(self._pages)
        self._pages = pages
        if is_one_gone:
            gc.collect()  # a page refers to itself, and its report is large
        return path


def label_of(name: str) -> str:
    """What a file is called in its page: the last part of the name that it was given, of characters that show."""
    last = name.replace("\\", "/").rsplit("/", 1)[-1]
    return "".join(c for c in last if c.isprintable()).strip()[:_LONGEST_LABEL] or "upload"


def _bytes_of(pages: dict[str, _Page]) -> int:
    return sum(page.file_bytes for page in pages.values())


def _receive(environ: WSGIEnvironment, file: Path, most_bytes: int) -> None:
    """Write a request's body to a file, block by block. RequestEntityTooLarge as soon as it is known to be."""
    body = get_input_stream(environ, max_content_length=most_bytes)
    connection: socket.socket | None = environ.get("werkzeug.socket")  # a test has none
    with file.open("wb") as copy:
        while block := _next_block(body, connection):
            copy.write(block)


def _next_block(body: IO[bytes], connection: socket.socket | None) -> bytes:
    """What comes next; of a sender that is too slow no more is taken, as if it had hung up."""
    if connection is None:
        return body.read(_BLOCK_BYTES)
    waiting = threading.Timer(PATIENCE_S, _take_no_more, (connection,))  # a socket's own timeout would break its file
    waiting.daemon = True
    waiting.start()
    try:
        return body.read(_BLOCK_BYTES)
    finally:
        waiting.cancel()


def _take_no_more(connection: socket.socket) -> None:
    with contextlib.suppress(OSError):  # it has hung up by itself
        connection.shutdown(socket.SHUT_RD)


def _read(file: Path, label: str) -> Report:
    report = analyze_sources(copy_of(file, label, label))
    report.require_gpu_ops()
    return report


def _said(text: str, status: HTTPStatus) -> flask.Response:
    return flask.Response(f"{text}\n", status, mimetype="text/plain")
