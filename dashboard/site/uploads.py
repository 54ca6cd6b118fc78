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
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from http import HTTPStatus
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

import flask
from werkzeug.exceptions import ClientDisconnected, RequestEntityTooLarge
from werkzeug.wsgi import get_input_stream

from ...analysis.inputs.sources import copy_of
from ...analysis.model.errors import LaunchscopeError
from ...analysis.model.units import plural, seconds
from ...analysis.report import Report, analyze_sources
from ..page.server import with_pages

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication, WSGIEnvironment

    from werkzeug.wrappers import Response

MAX_BYTES: Final = 256 << 20
"""Of one file. A gzipped trace of 10 million events is about as large."""
KEPT: Final = 8
KEPT_BYTES: Final = 512 << 20
"""Of the files whose pages are kept: what is read of one takes several times its size."""
PATIENCE_S: Final = 60.0
"""How long a sender may take for a block, as nobody else's file is read meanwhile."""
UPLOAD_S: Final = 300.0
"""How long a sender may take for a whole file: for one of MAX_BYTES, 0.9 MB a second."""
MOST_WAITING: Final = 64
"""Files that may wait while another is read. Nothing of them is taken before: each costs a thread, 27 KB."""
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
        self._waiting_line = WaitingLine(most_waiting, longest_wait_s)
        self._pages: dict[str, _Page] = {}  # by token, the oldest first; changed only while a file is read

    def mounted_on(self, first: WSGIApplication) -> WSGIApplication:
        """An app that answers with the page whose path a request is below, and else with the first page."""

        def page_of(token: str) -> WSGIApplication | None:
            page = self._pages.get(token)
            return None if page is None else page.app

        return with_pages(first, BELOW, page_of)

    def register(self, server: flask.Flask) -> None:
        """Let a page take files, and say what became of pages that are not kept any more."""

        @server.post("/upload")
        def upload() -> flask.Response:
            label, ticket = label_of(flask.request.args.get("name", "")), flask.request.args.get("ticket", "")
            with self._waiting_line.turn_of(ticket) as problem:
                if problem is not None:
                    return _said(f"{label}: {problem}", HTTPStatus.SERVICE_UNAVAILABLE)
                return self._open(flask.request.environ, label)

        @server.get("/upload/before")
        def before() -> flask.Response:
            """How many files are read before that of a ticket."""
            response = _said(str(self._waiting_line.before(flask.request.args.get("ticket", ""))), HTTPStatus.OK)
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
            except ClientDisconnected:
                text = f"{label}: it did not come whole, or took over {seconds(UPLOAD_S)} to come; send it again"
                return _said(text, HTTPStatus.BAD_REQUEST)
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
    until = time.monotonic() + UPLOAD_S
    with file.open("wb") as copy:
        while block := _next_block(body, connection, min(PATIENCE_S, until - time.monotonic())):
            copy.write(block)


def _next_block(body: IO[bytes], connection: socket.socket | None, longest_s: float) -> bytes:
    """What comes next; of a sender that is too slow no more is taken, as if it had hung up."""
    if connection is None:
        return body.read(_BLOCK_BYTES)
    waiting = threading.Timer(longest_s, _take_no_more, (connection,))  # a socket's own timeout would break its file
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


@dataclass(frozen=True, eq=False)
class _Turn:
    ticket: str


class WaitingLine:
    """A line, the first of which has its turn."""

    def __init__(self, most_waiting: int, longest_wait_s: float) -> None:
        self._most_waiting = most_waiting
        self._longest_wait_s = longest_wait_s
        self._line: list[_Turn] = []
        self._moved = threading.Condition()

    @contextlib.contextmanager
    def turn_of(self, ticket: str) -> Iterator[str | None]:
        """One's turn until the block ends; yields null, or why it did not come. The ticket is what one is known by."""
        turn = _Turn(ticket)
        with self._moved:
            problem = self._wait(turn)
        try:
            yield problem
        finally:
            with self._moved:
                if turn in self._line:
                    self._line.remove(turn)
                    self._moved.notify_all()

    def _wait(self, turn: _Turn) -> str | None:
        if len(self._line) > self._most_waiting:
            waiting = plural(self._most_waiting, "file is", "files are")
            return f"{waiting} waiting to be read already; try again later"
        self._line.append(turn)
        if self._moved.wait_for(lambda: self._line[0] is turn, self._longest_wait_s):
            return None
        self._line.remove(turn)
        self._moved.notify_all()
        return f"waited {seconds(self._longest_wait_s)} for the files before it; try again later"

    def before(self, ticket: str) -> int:
        """How many turns come before that of the ticket; 0 as well where it has none."""
        with self._moved:
            return next((place for place, turn in enumerate(self._line) if turn.ticket == ticket), 0)
