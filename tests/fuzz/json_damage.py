"""Changes to what a JSON trace or manifest says: odd values, records that are moved, doubled or gone."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable
from typing import Any, Final

from .bytes_damage import NUMBERS

_RAW: Final = "raw text:"  # before what stands in the file as it is
_MARKED: Final = re.compile(rf'"{_RAW}((?:[^"\\]|\\.)*)"')
NAMES: Final = (
    *("", " ", "\x1b[2J\x1b]0;title\x07", "<script>alert(1)</script>", "a|b`c`[d](javascript:e)", "=cmd|' /C calc'!A0"),
    *(
        "\u202egnp.exe",
        "\0",
        "line\nbreak",
        "{lambda}",
        "},{",
        '"',
        "\\",
        "k" * 5000,
        "\ud83d\ude00",
        "λ",
        "ProfilerStep#1",
    ),
    *("cudaGraphLaunch", "cudaMemcpy", "cudaStreamSynchronize", "step 99999999999999999999999", "((((((((((", "\u2028"),
)
ODD: Final[tuple[Callable[[random.Random], Any], ...]] = (
    lambda chance: _raw(chance.choice(NUMBERS).decode()),
    lambda chance: chance.choice(NAMES),
    lambda chance: chance.choice((None, True, [], {}, [1], {"a": 1}, -1, 0, 2**63, -(2**63), 10**30, 1e18, -0.001)),
    lambda chance: chance.randrange(-(10**6), 10**6),
    lambda chance: str(chance.randrange(100)),
    lambda chance: chance.random() * 1e4,
    lambda chance: chance.choice((1.7e15, 1.7e18, -9.3e15, 9.2e15, 4611686018427387.9, 1e-9)),
    lambda chance: _raw("[" * (depth := chance.choice((5, 60, 1200))) + "]" * depth),
    lambda chance: _raw('{"a":' * (depth := chance.choice((5, 60, 1200))) + "1" + "}" * depth),
)
HEAD_KEYS: Final = (
    "baseTimeNanoseconds",
    "deviceProperties",
    "distributedInfo",
    "WARNING",
    "traceEvents",
    "displayTimeUnit",
)


LAYOUTS: Final[tuple[dict[str, Any], ...]] = ({"separators": (",", ":")}, {}, {"indent": 1}, {"indent": 2})


def _raw(text: str) -> str:
    return _RAW + text


def changed(data: bytes, chance: random.Random, *, compact: bool = False) -> bytes:
    """A JSON document with a few changes, laid out anew or all in one line; what is no JSON stays as it is."""
    try:
        document = json.loads(data)
    except (ValueError, RecursionError):
        return data
    records = document.get("traceEvents") if isinstance(document, dict) else document
    for _ in range(chance.choice((1, 1, 2, 4, 12))):
        if isinstance(records, list) and records and chance.random() < 0.85:
            _change_records(records, chance)
        else:
            _change_anything(document, chance)
    return laid_out(document, chance, compact=compact)


def laid_out(document: Any, chance: random.Random, *, compact: bool) -> bytes:
    """The text of a document, in one of several layouts, with what can't be said but as text in place."""
    layout = LAYOUTS[0] if compact else chance.choice(LAYOUTS)
    text = json.dumps(document, ensure_ascii=chance.random() < 0.5, **layout)
    text = _MARKED.sub(lambda found: json.loads(f'"{found.group(1)}"'), text)
    if chance.random() < 0.1:  # a key twice
        text = re.sub(r'("(?!traceEvents)[\w ]+"):', r"\1: 1, \1:", text, count=chance.choice((1, 5)))
    return text.encode("utf-8", "surrogatepass")


def _change_records(records: list[Any], chance: random.Random) -> None:
    at = chance.randrange(len(records))
    record = records[at]
    match chance.randrange(10):
        case 0:
            records.insert(chance.randrange(len(records) + 1), record)
        case 1:
            del records[at]
        case 2:
            other = chance.randrange(len(records))
            records[at], records[other] = records[other], record
        case 3:
            records[at] = chance.choice(ODD)(chance)
        case 4 if isinstance(record, dict):
            record["dur"] = chance.choice((0, -5, _raw("1e15"), _raw("NaN"), 4e9, "7"))
        case 5 if isinstance(record, dict):
            record["ts"] = _raw(chance.choice(NUMBERS).decode())
        case 6 if isinstance(record, dict) and isinstance(record.get("args"), dict):
            key = chance.choice(("correlation", "device", "stream", "bytes", "graph id", "graph node id", "args"))
            record["args"][key] = chance.choice(ODD)(chance)
        case _ if isinstance(record, dict) and record:
            key = chance.choice((*record, "cat", "pid", "tid", "name"))
            if chance.random() < 0.2:
                record.pop(key, None)
            else:
                record[key] = chance.choice(ODD)(chance)


def _change_anything(document: Any, chance: random.Random) -> None:
    """A value somewhere in the document becomes an odd one, goes, or comes to be."""
    place = document
    while isinstance(place, (dict, list)) and place:
        key = chance.choice(list(place)) if isinstance(place, dict) else chance.randrange(len(place))
        below = place[key]
        if not isinstance(below, (dict, list)) or not below or chance.random() < 0.25:
            break
        place = below
    if isinstance(place, dict):
        key = chance.choice((*place, *HEAD_KEYS)) if place is document else chance.choice((*place, "x"))
        if chance.random() < 0.2:
            place.pop(key, None)
        else:
            place[key] = chance.choice(ODD)(chance)
    elif isinstance(place, list):
        place.insert(chance.randrange(len(place) + 1), chance.choice(ODD)(chance))
