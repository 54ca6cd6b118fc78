"""SQLite files of others, read safely: integers and text of real tables, within a bound of time, rows and text.

Follows https://www.sqlite.org/security.html ("untrusted SQLite database files"): nothing of the file's schema runs.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

import numpy as np

from ...model.errors import UnreadableInput
from ...model.trace import NONE, Ints

ABSENT: Final = -(2**63)
"""In a column of integers: the table has no such column, or the row no number there."""

_SECONDS: Final = 20.0
_BYTES_PER_SECOND: Final = 1 << 20
"""A file may take this long to read: 2 cores of 2020 read 30 times as fast."""

_INSTRUCTIONS: Final = 100_000  # of SQLite's machine between two looks at the clock
_CHUNK_ROWS: Final = 1 << 14
_CHUNK_TEXTS: Final = 1 << 8  # rows with text, of any length
_LEAST_ROW_BYTES: Final = 8  # of a row with the columns that a table of activities has
_LONGEST_TEXT: Final = 1 << 24
_LONGEST_SCHEMA: Final = 1 << 20  # of one table
_WAL_VERSION: Final = slice(18, 20)  # of the file's header: 2 asks for a write-ahead log beside it
_PAGE_BYTES, _CHANGES, _PAGES, _VALID_FOR = slice(16, 18), slice(24, 28), slice(28, 32), slice(92, 96)
_HEADER_BYTES: Final = 100
"""Of the file's header, with the places in it: https://www.sqlite.org/fileformat2.html#the_database_header"""

_MOST_CHECKED: Final = 1 << 30
"""Bytes of a file whose every page is checked; of a larger one the tables that are read. A core of 2020 checks 290 MB
a second, and reads 13."""

_MOST_COPIED: Final = 4 << 30
"""Bytes of a file and its log: a disk copies them in well under the time that reading them takes."""

_PRAGMAS: Final = (
    "trusted_schema=OFF",
    "ignore_check_constraints=ON",
    "cell_size_check=ON",
    "mmap_size=0",
    "query_only=ON",
)
_COMPUTED: Final = re.compile(r"\bAS\s*\(", re.IGNORECASE)
_REMEDY: Final = "copy it again or export it again: nsys export --type sqlite REPORT.nsys-rep"
_INTEGER: Final = "CASE typeof({0}) WHEN 'integer' THEN {0} WHEN 'real' THEN CAST({0} AS INTEGER) ELSE {1} END"
_TEXT: Final = "CASE typeof({0}) WHEN 'text' THEN {0} END"
_REASONS: Final = {
    "SQLITE_NOTADB": "not an SQLite file, in spite of its first bytes",
    "SQLITE_CORRUPT": "a damaged SQLite file",
    "SQLITE_TOOBIG": "an SQLite file with a text or a table definition longer than any export has",
    "SQLITE_INTERRUPT": "an SQLite file that takes far longer to read than one of its size should",
    "SQLITE_AUTH": "an SQLite file with views in place of tables",
    "SQLITE_CANTOPEN": "an SQLite file that is still being written, or that can't be opened",
    "SQLITE_BUSY": "an SQLite file that another program is writing",
    "SQLITE_READONLY": "an SQLite file whose last write was broken off",
    "MemoryError": "an SQLite file that is damaged, or too large for this machine's memory",
}


@dataclass(frozen=True, eq=False)
class Rows:
    """The rows of a table in file order: integer columns by name, and one column of text."""

    columns: dict[str, Ints]  # ABSENT where there is no number
    text: Ints  # index into texts, NONE where there is no text
    texts: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.text)

    def labels(self, column: str) -> Iterator[tuple[int, str | None]]:
        """Each row's number in a column, and its text."""
        known = (*self.texts, None)  # the last for NONE
        return zip(self.columns[column].tolist(), map(known.__getitem__, self.text.tolist()), strict=True)


@dataclass(frozen=True, eq=False)
class Database:
    """An open SQLite file and the columns of its real tables."""

    connection: sqlite3.Connection
    path: str  # in messages
    bytes: int
    tables: dict[str, tuple[str, ...]]
    tell: Callable[[int], None] = lambda rows: None  # rows that were read

    def with_progress(self, tables: Sequence[str], progress: Callable[[str, int, int], None]) -> Database:
        """The same, with ``progress`` told of the rows read out of these tables, as about that share of the file."""
        rows = max(1, sum(self._last_row(own) for table in tables if (own := self.named(table)) is not None))
        read = 0

        def tell(more: int) -> None:
            nonlocal read
            before, read = read, read + more
            share = [self.bytes * min(count, rows) // rows for count in (before, read)]
            progress(self.path, self.bytes, share[1] - share[0])

        return replace(self, tell=tell)

    def named(self, table: str) -> str | None:
        """The table of this name, else its latest version: ``NAME_V2``; None where there is none."""
        if table in self.tables:
            return table
        versions = {int(each[len(table) + 2 :]): each for each in self.tables if _is_version(each, table)}
        return versions[max(versions)] if versions else None

    def _last_row(self, table: str) -> int:
        """About how many rows a table has: the number of the last one, at most as many as fit into the file."""
        try:
            found = self.connection.execute(f'SELECT rowid FROM "{table}" NOT INDEXED ORDER BY rowid DESC LIMIT 1')
            last = found.fetchone()
        except sqlite3.Error:  # a table without row numbers; or damage, which reading it tells
            return 0
        return min(max(0, last[0]), self.bytes // _LEAST_ROW_BYTES) if last and isinstance(last[0], int) else 0

    def read(self, table: str, integers: Sequence[str], text: str | None = None) -> Rows:
        """All rows of a table; columns that it lacks hold ABSENT. No rows where the file has no such table."""
        table = self.named(table) or table
        there = [name for name in integers if name in self.tables.get(table, ())]
        picks = [_INTEGER.format(f'"{name}"', ABSENT) for name in there]
        picks.append(_TEXT.format(f'"{text}"') if text in self.tables.get(table, ()) else "NULL")
        chunks: list[list[Ints]] = [[np.zeros(0, np.int64)] * len(picks)]
        known: dict[str, int] = {}
        held = 0
        if table in self.tables:
            if self.bytes > _MOST_CHECKED:
                _check_pages(self.connection, self.path, f'("{table}")')
            # No index may stand in for the table: rows come in the file's order, and there is one thing less to trust.
            cursor = self.connection.execute(f'SELECT {", ".join(picks)} FROM "{table}" NOT INDEXED')
            while rows := cursor.fetchmany(_CHUNK_ROWS if text is None else _CHUNK_TEXTS):
                *numbers, words = zip(*rows, strict=True)
                held += len(words) * _LEAST_ROW_BYTES + sum(len(word) for word in words if word is not None)
                self._check_held(held, table)
                codes = [NONE if word is None else known.setdefault(word, len(known)) for word in words]
                chunks.append([np.array(column, np.int64) for column in (*numbers, codes)])
                self.tell(len(words))
        *read, text_at = (np.concatenate(parts) for parts in zip(*chunks, strict=True))
        absent = dict.fromkeys(integers, np.full(len(text_at), ABSENT))
        return Rows(absent | dict(zip(there, read, strict=True)), text_at, tuple(known))

    def _check_held(self, length: int, table: str) -> None:
        """A hostile tree may name one page many times, and so hold rows and text without end."""
        if length > self.bytes:
            raise UnreadableInput(f"{self.path}: a damaged SQLite file: {table} holds more than the file's size allows")


def _is_version(name: str, table: str) -> bool:
    return re.fullmatch(re.escape(table) + r"_[vV]\d{1,3}", name) is not None


@contextmanager
def open_file(path: Path, name: str) -> Iterator[Database]:
    """Open a file, changing nothing beside it. UnreadableInput, also inside the with, says what is wrong.

    A log beside it means that a program still writes, or broke off: SQLite then has to look at both, and writes
    an index beside what it looks at: that is a copy.
    """
    path = path.resolve()
    logs = [log for suffix in ("-wal", "-journal") if (log := path.with_name(path.name + suffix)).exists()]
    size, log_bytes = path.stat().st_size, sum(log.stat().st_size for log in logs)
    with path.open("rb") as file:  # also beside a log, which may be of another file, or of nothing
        _check_size(file.read(_HEADER_BYTES), size, name)
    with _copied(path, logs, name) if logs else nullcontext(path) as whole, _errors_in_words(name):
        uri = f"{whole.as_uri()}?mode=ro{'' if logs else '&immutable=1'}"
        with closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            yield _guarded(connection, name, size + log_bytes)


@contextmanager
def _copied(path: Path, logs: Sequence[Path], name: str) -> Iterator[Path]:
    """A file and its logs in a temporary folder. UnreadableInput where they are too large, or can't be copied."""
    shown = " and ".join(log.name for log in logs)
    if not all(log.is_file() for log in logs) or sum(each.stat().st_size for each in (path, *logs)) > _MOST_COPIED:
        raise UnreadableInput(
            f"{name}: {shown} beside it is of a program that writes, or broke off, and they are no plain files of "
            f"{_MOST_COPIED >> 30} GiB at most together: wait for its end, then {_REMEDY}"
        )
    with ExitStack() as stack:
        try:
            folder = stack.enter_context(tempfile.TemporaryDirectory(prefix="launchscope-"))
            for each in (path, *logs):
                shutil.copyfile(each, Path(folder, each.name))
        except OSError as error:
            raise UnreadableInput(f"{name}: can't be copied to be read with {shown} ({error.strerror})") from error
        yield Path(folder, path.name)


@contextmanager
def open_bytes(data: bytes, name: str) -> Iterator[Database]:
    """Open the bytes of a file, as unpacked from an archive."""
    _check_size(data[:_HEADER_BYTES], len(data), name)
    with _errors_in_words(name), closing(sqlite3.connect(":memory:", isolation_level=None)) as connection:
        connection.deserialize(data[: _WAL_VERSION.start] + b"\1\1" + data[_WAL_VERSION.stop :])
        yield _guarded(connection, name, len(data))


@contextmanager
def _errors_in_words(name: str) -> Iterator[None]:
    """SQLite's errors in words; its own text may quote the file."""
    try:
        yield
    except (sqlite3.Error, UnicodeDecodeError, MemoryError) as error:
        # UnicodeDecodeError: SQLite's words quote the file. MemoryError: also of a text whose encoding makes no sense.
        code = getattr(error, "sqlite_errorname", type(error).__name__)
        family = next((known for known in _REASONS if code.startswith(known)), None)
        reason = _REASONS[family] if family else "a damaged SQLite file"
        raise UnreadableInput(f"{name}: {reason} ({code}); {_REMEDY}") from error


def _check_size(header: bytes, size: int, name: str) -> None:
    """UnreadableInput for a file that is shorter than its header says: SQLite reads zeros where half a page is cut."""
    if len(header) < _HEADER_BYTES:  # SQLite says what is wrong with it
        return
    page = int.from_bytes(header[_PAGE_BYTES])
    page = 1 << 16 if page == 1 else page
    is_counted = header[_CHANGES] == header[_VALID_FOR]  # else by a program that does not keep the count
    whole = page * int.from_bytes(header[_PAGES]) if is_counted else 0
    if size < whole or (page and size % page):
        of = f"{size:,} of {whole:,} bytes" if size < whole else f"{size:,} bytes, not so many whole pages of {page:,}"
        raise UnreadableInput(f"{name}: an SQLite file that is cut: {of}; {_REMEDY}")


def _check_pages(connection: sqlite3.Connection, name: str, table: str = "") -> None:
    """UnreadableInput where SQLite finds faults in the file's pages, or in those of one table, ``("name")``."""
    found = connection.execute(f"PRAGMA quick_check{table or '(1)'}").fetchall()
    if found != [("ok",)]:
        what = f"its table {table[2:-2]}" if table else "its pages"
        raise UnreadableInput(f"{name}: a damaged SQLite file: {what} can't be as SQLite wrote them; {_REMEDY}")


def _guarded(connection: sqlite3.Connection, name: str, size: int) -> Database:
    """The connection with its limits set and its tables looked up."""
    connection.text_factory = lambda text: text.decode("utf-8", "replace")
    connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, _LONGEST_TEXT)
    connection.setlimit(sqlite3.SQLITE_LIMIT_SQL_LENGTH, _LONGEST_SCHEMA)
    connection.setlimit(sqlite3.SQLITE_LIMIT_ATTACHED, 0)
    deadline = time.monotonic() + _SECONDS + size / _BYTES_PER_SECOND
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _INSTRUCTIONS)
    for pragma in _PRAGMAS:
        connection.execute(f"PRAGMA {pragma}").close()
    connection.set_authorizer(_may)
    tables = _real_tables(connection, name)
    if size <= _MOST_CHECKED:
        _check_pages(connection, name)
    return Database(connection, name, size, tables)


def _may(action: int, what: str | None, detail: str | None, _: str | None, view: str | None) -> int:
    """Only plain reads: no view, no trigger, no function of the schema, nothing attached."""
    is_read = action in (sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ)
    is_look_up = action == sqlite3.SQLITE_PRAGMA and what in ("table_info", "quick_check")
    is_typeof = action == sqlite3.SQLITE_FUNCTION and detail == "typeof"
    allowed = view is None and (is_read or is_look_up or is_typeof)
    return sqlite3.SQLITE_OK if allowed else sqlite3.SQLITE_DENY


def _real_tables(connection: sqlite3.Connection, name: str) -> dict[str, tuple[str, ...]]:
    """Columns of every table; views are none, and a file with virtual tables or computed columns, which run code, is
    refused.
    """
    rows = connection.execute(f"SELECT {_TEXT.format('name')}, {_TEXT.format('sql')} FROM sqlite_master").fetchall()
    if any(sql is not None and re.match(r"\s*CREATE\s+VIRTUAL\b", sql, re.IGNORECASE) for _, sql in rows):
        raise UnreadableInput(f"{name}: an SQLite file with virtual tables, which no export has: export it again")
    if any(sql is not None and sql.startswith("CREATE TABLE ") and _COMPUTED.search(sql) for _, sql in rows):
        raise UnreadableInput(f"{name}: an SQLite file with computed columns, which no export has: export it again")
    tables = [table for table, sql in rows if table and sql and sql.startswith("CREATE TABLE ")]
    return {
        table: tuple(str(row[1]) for row in connection.execute(f'PRAGMA table_info("{table}")'))
        for table in tables
        if re.fullmatch(r"\w+", table)
    }
