"""Damage that chance alone seldom does: what full disks, killed jobs and large runs make of a file."""

from __future__ import annotations

import json
import random
from typing import Any, Final

from .json_damage import laid_out

GROUPS: Final = (9_000, 12_288, 40_000)
"""Ranks of a process group: their list is longer than what of a file is looked at first."""

DEPTHS: Final = (10, 300, 5_000)
BRACKETS: Final = (("a<", ">"), ("f(", ")"), ("{", "}"), ("[", "]"), ("std::x<", ""), ("", ">"))
_SECTOR: Final = 512  # bytes that a disk writes at a time
_TRAILER: Final = 8  # of a gzip file: checksum and length


def reworked(data: bytes, chance: random.Random, *, compact: bool) -> bytes:
    """A JSON trace with a large head, with times below zero, or with names that nest deep; else as it is."""
    try:
        document = json.loads(data)
        records = [each for each in document["traceEvents"] if isinstance(each, dict)]
    except (ValueError, TypeError, KeyError, RecursionError):
        return data
    if records:
        match chance.randrange(3):
            case 0:
                document = _with_large_head(document, chance)
            case 1:
                _turn_negative(records, chance)
            case _:
                for record in chance.sample(records, min(len(records), chance.choice((1, 5)))):
                    record["name"] = _nested(chance)
    return laid_out(document, chance, compact=compact)


def _with_large_head(document: dict[str, Any], chance: random.Random) -> dict[str, Any]:
    """The ranks of a large process group, before the records or behind them."""
    ranks = list(range(chance.choice(GROUPS)))
    head = {"distributedInfo": {"rank": 3, "world_size": len(ranks), "pg_config": [{"ranks": ranks}]}}
    rest = {key: value for key, value in document.items() if key != "distributedInfo"}
    return {**head, **rest} if chance.random() < 0.7 else {**rest, **head}


def _turn_negative(records: list[dict[str, Any]], chance: random.Random) -> None:
    kind = chance.choice(records).get("cat")
    chosen = (
        [each for each in records if each.get("cat") == kind] if chance.random() < 0.5 else chance.sample(records, 1)
    )
    key, by = chance.choice(("ts", "dur")), chance.choice((0, 1, 50, 1e6, 1e9))
    for record in chosen:
        if isinstance(record.get(key), (int, float)):
            record[key] = -abs(record[key]) - by


def _nested(chance: random.Random) -> str:
    begin, end = chance.choice(BRACKETS)
    depth = chance.choice(DEPTHS)
    return begin * depth + "k" + end * depth


def rest_of_a_file(data: bytes, chance: random.Random) -> bytes:
    """Zeros in place of a file, of its end or of a sector; a file cut behind its list of records."""
    match chance.randrange(4):
        case 0:
            return bytes(len(data))
        case 1:
            kept = chance.randrange(len(data))
            return data[:kept] + bytes(len(data) - kept)
        case 2:
            return without_sector(data, chance)
        case _:
            end = data.rfind(b"]")
            return data[: chance.randrange(end, len(data))] if 0 < end < len(data) else data[:-1]


def without_sector(data: bytes, chance: random.Random) -> bytes:
    """A sector or a few, at their places, hold zeros."""
    at = _SECTOR * chance.randrange(len(data) // _SECTOR + 1)
    end = min(len(data), at + _SECTOR * chance.choice((1, 1, 2, 8)))
    return data[:at] + bytes(end - at) + data[end:]


def gzip_rest(packed: bytes, chance: random.Random) -> bytes:
    """A gzip file of which little is left, or whose checksum or length alone is wrong, or with more behind it."""
    match chance.randrange(5):
        case 0:
            return packed[: chance.choice((3, 10, 11, 18, 40, 100))]
        case 1:
            return packed[:-_TRAILER] + chance.randbytes(4) + packed[-4:]
        case 2:
            return packed[:-4] + chance.randbytes(4)
        case 3:
            return packed[: -chance.randrange(1, _TRAILER + 1)]
        case _:
            return packed + chance.choice((b"more", bytes(600), b"\0\0x", b"\x1f\x8b", packed[:30]))


def cut_database(data: bytes, chance: random.Random) -> bytes:
    """An SQLite file less its tail: up to a page, inside one, or a few bytes."""
    page = int.from_bytes(data[16:18]) or 1024
    pages = len(data) // page
    match chance.randrange(3):
        case 0:
            return data[: page * chance.randrange(1, max(2, pages))]
        case 1:
            return data[: chance.randrange(100, len(data))]
        case _:
            return data[: -chance.randrange(1, page)]
