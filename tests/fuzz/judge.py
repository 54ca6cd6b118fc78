"""Whether a file is proven to be whole, with Python's own gzip, json and sqlite3 and nothing of a reader.

A file that is not proven whole may be read, but its trace may not be reliable, and ``--strict`` has to refuse it.
"""

from __future__ import annotations

import gzip
import json
import re
import sqlite3
import sys
import zlib
from collections.abc import Iterator
from itertools import islice
from typing import Any, Final

from launchscope.analysis.model.trace import Trace

from .slow_readers import unpacked, utf8

_DECODER: Final = json.JSONDecoder(strict=False, parse_int=str, parse_float=str)
_BLANKS: Final = re.compile(r"[ \t\r\n]*")
_DEEPEST: Final = 5_000  # nested values; a reader's own limit is lower
_ESCAPE: Final = re.compile(r"\\(u[0-9a-fA-F]{4}|.)", re.DOTALL)
_NO_NUMBER: Final = re.compile(r"(?<=[:\[,\s])-?(?:nan|inf)\b")
_OF_INDEX: Final = re.compile(r"(row \d+ missing from index|wrong # of entries in index|non-unique entry in index)")
"""What an index is no good for: none is read."""


def is_proven_whole(data: bytes, trace: Trace) -> bool:
    """Whether all that the file was is in it, as far as its format can tell, and as many records are in the trace."""
    try:
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error):
        return False
    if trace.source.format == "nsys-sqlite":
        return _is_whole_database(text)
    whole = utf8(text).decode("utf-8", "replace")
    if "\0" in whole:  # may stand for the end of one record, all of others and the beginning of a third
        return False
    codes = {notice.code for notice in trace.notices}
    if "raw_quotes" in codes:  # what counts is that no record is lost
        return whole.count('"ph"') == trace.events
    lists = _lists(whole, 1 if "second_document" in codes else None)
    if trace.source.format == "proton-json":  # older ones: several documents
        return len(lists) > 0
    return len(lists) == 1 and len(lists[0]) == trace.events


def is_other_json(data: bytes) -> bool:
    """Whether it is JSON, packed or not, that holds no list of trace events."""
    try:
        text = gzip.decompress(data) if data.startswith(b"\x1f\x8b") else data
    except (OSError, EOFError, zlib.error):
        text = unpacked(data)[0]
    try:
        document = json.loads(utf8(text).decode("utf-8", "replace"), strict=False, parse_int=str)
    except (ValueError, RecursionError):
        return False
    return not isinstance(document, dict) or "traceEvents" not in document


def _lists(text: str, most: int | None = None) -> list[list[Any]]:
    """The records of each document, or of the first so many; none where one is no JSON, odd characters and numbers
    apart, or has no records.
    """
    for mended in (text, _NO_NUMBER.sub("null", _ESCAPE.sub(_escape, text))):
        limit = sys.getrecursionlimit()
        sys.setrecursionlimit(_DEEPEST)
        try:
            documents = list(islice(_decoded(mended), most))
        except (ValueError, RecursionError):
            continue
        finally:
            sys.setrecursionlimit(limit)
        lists: list[Any] = [each.get("traceEvents") if isinstance(each, dict) else each for each in documents]
        return lists if all(isinstance(each, list) for each in lists) else []
    return []


def _decoded(text: str) -> Iterator[Any]:
    """The documents that a text strings together. ValueError for what is none."""
    at = _BLANKS.match(text, 0).end()  # type: ignore[union-attr]  # it matches nothing, too
    while at < len(text):
        document, at = _DECODER.raw_decode(text, at)
        yield document
        at = _BLANKS.match(text, at).end()  # type: ignore[union-attr]


def _escape(found: re.Match[str]) -> str:
    is_one = len(found[1]) > 1 or found[1] in '"\\/bfnrt'
    return found[0] if is_one else f"\\\\{found[1]}"


def _is_whole_database(data: bytes) -> bool:
    page = 65536 if data[16:18] == b"\0\1" else int.from_bytes(data[16:18])
    if len(data) % page or (data[24:28] == data[92:96] and len(data) < page * int.from_bytes(data[28:32])):
        return False
    connection = sqlite3.connect(":memory:")
    connection.text_factory = bytes
    try:
        connection.deserialize(data[:18] + b"\1\1" + data[20:])
        found = connection.execute("PRAGMA integrity_check").fetchall()
    except sqlite3.Error:
        return False
    finally:
        connection.close()
    return all(said == b"ok" or _OF_INDEX.match(said.decode("utf-8", "replace")) for (said,) in found)
