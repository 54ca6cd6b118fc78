"""Slow readers to hold the fast ones against, one for each format, and whether two traces say the same."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import zlib
from collections.abc import Iterator
from dataclasses import fields, replace
from decimal import Decimal
from typing import Any, Final

import numpy as np
from launchscope.analysis.model.trace import NONE, Notice, Source, Table, Trace

from ..analysis.inputs.readers.whole_file_kineto import read_kineto
from .slow_nsys import read_nsys

NAMES: Final = ("name", "api")
IDS: Final = ("process", "thread", "device", "stream")
DEEPEST: Final = 900
"""Deeper records are lost with every parser that recurses, which is told."""


def read_slowly(data: bytes, format: str) -> Trace | None:
    """The trace that a file holds, by other means; None where there is no slow reader for such a one.

    UnreadableInput where the slow reader refuses it.
    """
    text, is_intact = unpacked(data)
    trace = _read(text, format, len(data))
    has_zeros = format != "nsys-sqlite" and b"\0" in utf8(text)
    if trace is None or not trace.complete or (is_intact and not has_zeros):
        return trace
    return replace(trace, complete=False, notices=(*trace.notices, Notice("damaged_file", "")))


def _read(text: bytes, format: str, size: int) -> Trace | None:
    match format:
        case "nsys-sqlite":
            with contextlib.suppress(sqlite3.DatabaseError):  # it reads all columns, also damaged ones of no use
                return read_nsys(text, Source("x", format, size))
            return None
        case "proton-json":
            records = _proton(text)
            return None if records is None else read_kineto(records, Source("x", format, size))
        case "perfetto-json":
            flat = b"\n".join(map(_flat_line, utf8(text).split(b"\n")))
            trace = read_kineto(flat, Source("x", format, size))
            return replace(trace, notices=(*trace.notices, Notice("perfetto_json", "")))
    return read_kineto(utf8(text), Source("x", format, size))


def unpacked(data: bytes) -> tuple[bytes, bool]:
    """What is whole of the gzip members that a file is made of, and whether that is all; another file as it is."""
    if not data.startswith(b"\x1f\x8b"):
        return data, True
    parts = []
    while data.startswith(b"\x1f\x8b"):
        member = zlib.decompressobj(wbits=31)
        try:
            for at in range(len(data)):
                parts.append(member.decompress(data[at : at + 1]))
                if member.eof:
                    break
        except zlib.error:
            return b"".join(parts), False
        if not member.eof:
            return b"".join(parts), False
        data = data[at + 1 :]
    return b"".join(parts), not data.strip(b"\0")


def utf8(text: bytes) -> bytes:
    if text.startswith((b"\xff\xfe", b"\xfe\xff")):
        return text.decode("utf-16", "replace").encode()
    return text.removeprefix(b"\xef\xbb\xbf").lstrip()


def _flat_line(line: bytes) -> bytes:
    """Records of Perfetto's with their args where Kineto has them."""
    begin, at = b'{"args":{"args":', 0
    while (at := line.find(begin + b"{", at)) >= 0:
        inner, outer = _object_end(line, at + len(begin)), _object_end(line, at + len(b'{"args":'))
        if line[outer - 1 : outer] == b"}" and _are_members(line[inner : outer - 1], line):
            line = line[:at] + b'{"args":' + line[at + len(begin) : inner] + line[outer:]
        at += 1
    return line


def _are_members(text: bytes, line: bytes) -> bool:
    """Whether nothing but further members of an object stands there: numbers and texts, or any in a whole line."""
    try:
        members = _loads(b'{"":0' + text + b"}")
        if any(isinstance(value, dict | list) for value in members.values()):
            _loads(line.rstrip(b",]\r"))
    except (ValueError, RecursionError):
        return False
    return True


def _loads(text: bytes) -> Any:
    return json.loads(text, strict=False, parse_int=str, parse_float=str, parse_constant=_refused)


def _object_end(text: bytes, at: int) -> int:
    """Behind the brace that closes the one at ``at``, or behind the text."""
    depth, is_string, is_escaped = 0, False, False
    for place in range(at, len(text)):
        character = text[place : place + 1]
        if is_string:
            is_string = is_escaped or character != b'"'
            is_escaped = character == b"\\" and not is_escaped
        elif character == b'"':
            is_string = True
        elif character in b"{}":
            depth += 1 if character == b"{" else -1
            if not depth or depth > DEEPEST:
                return place + 1 if not depth else len(text) + 1
    return len(text) + 1


def _refused(constant: str) -> None:
    raise ValueError(constant)


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    if len(found := dict(pairs)) < len(pairs):
        raise ValueError("a key twice")
    return found


class _Number(str):
    """A number's own text."""


def _proton(text: bytes) -> bytes | None:
    """The Kineto file that says the same as a whole file of Proton, None for a damaged one or one with a key twice."""
    events: list[str] = []
    how: dict[str, Any] = {"parse_int": _Number, "parse_float": _Number, "parse_constant": _refused}
    try:
        for line in utf8(text).decode().split("\n"):
            if line.strip():
                document = json.loads(line, object_pairs_hook=_once, **how)
                assert next(iter(document)) == "displayTimeUnit"
                assert isinstance(document["traceEvents"], list)
                events += [made for record in document["traceEvents"] for made in _event(record)]
    except (ValueError, RecursionError, TypeError, KeyError, AttributeError, AssertionError):
        return None
    return f'{{"traceEvents":[{",".join(events)}]}}'.encode()


def _event(record: dict[str, Any]) -> Iterator[str]:
    kind, category, name = (record.get(key, "") for key in ("ph", "cat", "name"))
    lane = record.get("tid", _Number("0"))
    if {type(kind), type(category), type(name)} != {str} or type(lane) is not _Number:
        raise TypeError
    number = int(lane)
    times = ", ".join(f'"{key}": {_microseconds(record.get(key))}' for key in ("ts", "dur"))
    if kind == "X" and category == "kernel":
        stream = number - 200_000 if number >= 200_000 else number
        about = {
            "ph": "X",
            "cat": "kernel",
            "name": name,
            "pid": 0,
            "tid": stream,
            "args": {"device": 0, "stream": stream},
        }
        yield f"{json.dumps(about)[:-1]}, {times}}}"
    elif kind == "X" and category == "scope" and number < 100_000:
        about = {"ph": "X", "cat": "user_annotation", "name": name, "pid": 1, "tid": number}
        yield f"{json.dumps(about)[:-1]}, {times}}}"


def _microseconds(time: Any) -> str:
    if type(time) is _Number:
        return str(Decimal(time) / 1000) if time.isdigit() else str(time)
    return json.dumps(time)


def differences(found: Trace, wanted: Trace) -> Iterator[str]:
    """What two traces say differently; how they number their names, and their sentences, does not matter."""
    if _by_device(found) != _by_device(wanted):
        yield f"device_names: {found.device_names!r}, not {wanted.device_names!r}"
    for name in ("events", "rank", "grid_ns", "complete"):
        if getattr(found, name) != getattr(wanted, name):
            yield f"{name}: {getattr(found, name)!r}, not {getattr(wanted, name)!r}"
    codes = [sorted((notice.code, notice.count) for notice in trace.notices) for trace in (found, wanted)]
    if codes[0] != codes[1]:
        yield f"notices: {codes[0]}, not {codes[1]}"
    for table in fields(Trace):
        ours, theirs = getattr(found, table.name), getattr(wanted, table.name)
        if not isinstance(ours, Table):
            continue
        if len(ours) != len(theirs):
            yield f"{table.name}: {len(ours)} rows, not {len(theirs)}"
            continue
        for column in fields(ours):
            mine, other = getattr(ours, column.name), getattr(theirs, column.name)
            if column.name in NAMES:
                mine = np.array([found.names[index] for index in mine.tolist()], object)
                other = np.array([wanted.names[index] for index in other.tolist()], object)
            if column.name in IDS:
                mine, other = _by_appearance(mine), _by_appearance(other)
            if not np.array_equal(mine, other):
                row = int(np.flatnonzero(mine != other)[0])
                yield f"{table.name}.{column.name}[{row}]: {mine[row]!r}, not {other[row]!r}"


def _by_device(trace: Trace) -> list[tuple[int, str]]:
    """The devices' names; a number that stands for a text is as good as another."""
    return sorted((max(device, NONE - 1), str(name)) for device, name in trace.device_names.items())


def _by_appearance(ids: Any) -> Any:
    """The same with the numbers that stand for texts, below NONE, by their first appearance."""
    own = list(dict.fromkeys(id for id in ids.tolist() if id < NONE))
    return np.array([id if id >= NONE else NONE - 1 - own.index(id) for id in ids.tolist()], np.int64)
