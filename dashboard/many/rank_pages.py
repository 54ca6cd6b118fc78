"""Pages of single ranks and of two side by side: their files are read when somebody opens the page, one page at a time.

A page is what `launchscope dashboard` of these files would be. Those opened last are kept; the others are read anew.
"""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable, Sequence
from http import HTTPStatus
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING, Final

import flask
import msgspec
from markupsafe import Markup

from ...analysis.inputs.places import TablePlaces
from ...analysis.inputs.sources import Source, Sources, check_is_there, copy_of, expanded, sources
from ...analysis.inputs.storage import allowed_protocol, local_path
from ...analysis.many.document import SCHEMA, RankRow, RanksDocument
from ...analysis.model.capture import is_zip
from ...analysis.model.errors import LaunchscopeError, UnreadableInput
from ...analysis.model.paths import is_file
from ...analysis.model.units import byte_size, one_line, printable
from ...analysis.report import Report, analyze_sources
from ..page.server import with_pages
from .view import BELOW, labels, path_of, rows_in

if TYPE_CHECKING:
    from wsgiref.types import WSGIApplication

    from werkzeug.wrappers import Response

KEPT: Final = 2
"""A report takes several times its file's size."""
_AGAIN_S: Final = 1

Rows = tuple[int, ...]


class RankPages:
    """The pages of the rows of one table of ranks."""

    def __init__(
        self, doc: RanksDocument, read: Read, page_of: Callable[[Report, str], WSGIApplication], *, kept: int = KEPT
    ) -> None:
        """``page_of`` makes the page of a report under a path, as '/rows/3/'."""
        self._doc = doc
        self._labels = labels(doc)
        self._read = read
        self._page_of = page_of
        self._kept = kept
        self._lock = threading.Lock()
        self._reading: Rows | None = None
        self._pages: dict[Rows, WSGIApplication] = {}  # the one opened last is the last
        self._problems: dict[Rows, str] = {}

    def mounted_on(self, first: WSGIApplication) -> WSGIApplication:
        """An app that answers with the page whose path a request is below, and else with the first page."""

        def page_of(name: str) -> WSGIApplication | None:
            rows = rows_in(name, len(self._doc.rows))
            return None if rows is None else self._kept_page(rows)

        return with_pages(first, BELOW, page_of)

    def register(self, server: flask.Flask) -> None:
        """Let a page open those of ranks."""

        @server.get(f"{BELOW}<name>/")
        def opening(name: str) -> Response:
            rows = rows_in(name, len(self._doc.rows))
            if rows is None:
                flask.abort(HTTPStatus.NOT_FOUND)
            if flask.request.headers.get("Sec-Fetch-Dest", "document") != "document":
                flask.abort(HTTPStatus.FORBIDDEN, "open it as a page")  # another site's picture must not start a read
            return self._answer(rows)

        @server.route(f"{BELOW}<name>/<path:rest>", methods=["GET", "POST"])
        def gone(name: str, rest: str) -> Response:
            del rest
            if rows_in(name, len(self._doc.rows)) is None:
                flask.abort(HTTPStatus.NOT_FOUND)
            return flask.Response(f"This page is kept no more: of those opened, the last {self._kept} are.", 410)

    def _kept_page(self, rows: Rows) -> WSGIApplication | None:
        with self._lock:
            page = self._pages.pop(rows, None)
            if page is not None:
                self._pages[rows] = page
            return page

    def _answer(self, rows: Rows) -> flask.Response:
        """A page that asks again, or says why there will be none."""
        named = " and ".join(self._labels[row] for row in rows)
        with self._lock:
            problem = self._problems.pop(rows, None)
            if problem is None and self._reading is None:
                self._reading = rows
                threading.Thread(target=self._open, args=(rows,), daemon=True).start()
            waits_for = self._reading if self._reading not in (None, rows) else None
        if problem is not None:
            again = Markup('<p><a href="">try again</a></p>')
            return _page(named, Markup('<p role="alert" class="failure">{}</p>').format(problem) + again)
        if waits_for is not None:
            other = " and ".join(self._labels[row] for row in waits_for)
            return _page(named, Markup("<p role=status>{} is being read first …</p>").format(other), asks_again=True)
        files = Markup().join(Markup("<li>{}</li>").format(_file_words(self._doc.rows[row])) for row in rows)
        return _page(named, Markup("<p role=status>reading …</p><ul>{}</ul>").format(files), asks_again=True)

    def _open(self, rows: Rows) -> None:
        """Read the files and keep their page; older ones go where it would be too many."""
        page, problem = None, ""
        try:
            page = self._page_of(self._read([self._doc.rows[row] for row in rows]), path_of(*rows))
        except LaunchscopeError as error:
            problem = str(error)
        except MemoryError:
            problem = "takes more memory than there is"
        except OSError as error:
            problem = f"can't be read ({error.strerror or error})"
        except Exception as error:  # else the page would wait for ever
            problem = f"internal error, {type(error).__name__}: {error} (please report it)"
        with self._lock:
            self._reading = None
            if page is None:
                self._problems[rows] = printable(one_line(problem))
            else:
                self._pages[rows] = page
                while len(self._pages) > self._kept:
                    del self._pages[next(iter(self._pages))]
        gc.collect()  # a page refers to itself, and its report is large


def _file_words(row: RankRow) -> str:
    size = "" if row.bytes is None else f", {byte_size(row.bytes)}"
    return f"{printable(one_line(row.path))}{size}"


def _page(named: str, inside: Markup, *, asks_again: bool = False) -> flask.Response:
    """A page without a script; ``asks_again``: after a second, until the rank's own page is there."""
    again = Markup('<meta http-equiv="refresh" content="{}">').format(_AGAIN_S) if asks_again else Markup()
    text = Markup(
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>{named} · launchscope</title>'
        '<meta name="viewport" content="width=device-width, initial-scale=1">{again}'
        '<link rel="stylesheet" href="/assets/dashboard.css"></head>'
        '<body class="plain"><main><h1>{named}</h1>{inside}<p><a href="/">all ranks</a></p></main></body></html>'
    ).format(named=named, again=again, inside=inside)
    status = HTTPStatus.ACCEPTED if asks_again else HTTPStatus.UNPROCESSABLE_ENTITY
    response = flask.Response(str(text), status, mimetype="text/html")
    response.headers["Cache-Control"] = "no-store"
    return response


Read = Callable[[Sequence[RankRow]], Report]

_HEAD_BYTES: Final = 400
_TABLE: Final = b'"launchscope.ranks/'


def kept_table(paths: Sequence[Path | str]) -> RanksDocument | None:
    """The document of `launchscope analyze -o ranks.json`, where the first path is such a file.

    The others are where its rows may be read from.
    """
    if not isinstance(paths[0], Path) or not _is_table(paths[0]):
        return None
    try:
        doc = msgspec.json.decode(paths[0].read_bytes(), type=RanksDocument)
    except (msgspec.DecodeError, OSError, RecursionError) as error:
        raise UnreadableInput(f"{paths[0]}: a table of ranks, but it can't be read ({error}); make it anew") from error
    if doc.schema != SCHEMA:
        raise UnreadableInput(f"{paths[0]}: {doc.schema}, this launchscope reads {SCHEMA}; make it anew")
    if not doc.rows or any(not 0 <= odd.row < len(doc.rows) for odd in doc.odd):
        raise UnreadableInput(f"{paths[0]}: a table of ranks without the rows that it tells of; make it anew")
    return doc


def _is_table(path: Path) -> bool:
    try:
        if not is_file(path):  # a pipe can be read once
            return False
        with path.open("rb") as file:
            return _TABLE in file.read(_HEAD_BYTES)
    except (OSError, UnreadableInput):  # who reads it as a trace tells what is wrong
        return False


def places_of(paths: Sequence[Path | str], doc: RanksDocument) -> TablePlaces:
    """Where rows of the table at the first path may be read from. UnreadableInput for another that can't be a place."""
    table, *others = paths
    for each in others:
        here = local_path(each)
        if here is not None:
            for path in expanded([here]):
                check_is_there(path)
        else:
            allowed_protocol(str(each))
    return TablePlaces.of(Path(table), doc.inputs, others)


def report_of(
    rows: Sequence[RankRow], *, places: TablePlaces | None = None, step_regex: str | None = None, cache: bool = True
) -> Report:
    """UnreadableInput, with where it was looked for, of a file that can't be read any more, or may not be.

    ``places`` are those of a table that was opened as a file; None where this run found the rows itself.
    """
    found = Sources(tuple(each for row in rows for each in _sources(row.path, places)))
    with found.at_hand() if places is None else found.at_hand(may_lead_to=places.may_lead_to) as here:
        report = analyze_sources(here, step_regex=step_regex, cache=cache)
    report.require_gpu_ops()
    return report


def _sources(path: str, places: TablePlaces | None) -> tuple[Source, ...]:
    """The file of a row, or what it holds now, known by the row's path."""
    found = (local_path(path) or path) if places is None else places.allowed(path)
    if isinstance(found, str):
        return (Source(found, PurePosixPath(path).name, kind="stored"),)
    if is_file(found):
        return (sources([found]) if str(found) == path else copy_of(found, path, found.name)).each
    archive = next((parent for parent in found.parents if is_file(parent) and is_zip(parent)), None)
    if archive is None:
        relative = "" if Path(path).is_absolute() else f", looked for below {Path.cwd()}"
        raise UnreadableInput(f"{path}: gone since it was read{relative}; put it back, or make the table anew")
    member = PurePosixPath(os.path.relpath(found, archive)).as_posix()
    return (Source(str(archive), PurePosixPath(member).name, member=member, shown=path),)
