"""Damage to the bytes of a file, whatever they mean; the same for the same random numbers."""

from __future__ import annotations

import random
import re
from collections.abc import Callable
from typing import Final

Damage = Callable[[bytearray, random.Random], None]

TOKENS: Final = (
    *(
        b'"',
        b"\\",
        b'\\"',
        b"{",
        b"}",
        b"[",
        b"]",
        b",",
        b":",
        b"},{",
        b"]}",
        b"}}",
        b"\n",
        b" ",
        b"\0",
        b"\x1b[31m",
        b"\xff",
    ),
    *(b"null", b"true", b"NaN", b"-Infinity", b"1e999", b"-0", b"1e-400", b"0.1e1", b"\\u0000", b"\\ud83d", b"\\x"),
    *(
        b'"traceEvents":[',
        b'"ph":"X"',
        b'"args":{',
        b'"cat":"kernel"',
        b'"correlation":1',
        b"\xef\xbb\xbf",
        b"\xc3\xa9",
    ),
)
NUMBERS: Final = (
    *(b"0", b"-1", b"1", b"-0.5", b"4294967295", b"2147483648", b"9223372036854775807", b"-9223372036854775808"),
    *(b"18446744073709551615", b"1e18", b"4611686018427387.904", b"1e308", b"NaN", b"null", b'"7"', b"7.0", b"1.0005"),
)
_NUMBER: Final = re.compile(rb"-?[0-9]+(?:\.[0-9]+)?")


def _at(data: bytearray, chance: random.Random) -> int:
    return chance.randrange(len(data) + 1)


def _part(data: bytearray, chance: random.Random) -> slice:
    """A place in the data; most are short."""
    begin = _at(data, chance)
    return slice(begin, min(len(data), begin + chance.choice((1, 2, 8, 40, 200, 2000))))


def flip(data: bytearray, chance: random.Random) -> None:
    for _ in range(chance.choice((1, 1, 1, 4, 16))):
        if data:
            data[chance.randrange(len(data))] ^= 1 << chance.randrange(8)


def overwrite(data: bytearray, chance: random.Random) -> None:
    part = _part(data, chance)
    data[part] = bytes([chance.choice((0, 0x20, 0xFF, chance.randrange(256)))]) * (part.stop - part.start)


def cut(data: bytearray, chance: random.Random) -> None:
    del data[_at(data, chance) :]


def drop(data: bytearray, chance: random.Random) -> None:
    del data[_part(data, chance)]


def repeat(data: bytearray, chance: random.Random) -> None:
    part = _part(data, chance)
    data[part.stop : part.stop] = data[part] * chance.choice((1, 1, 2, 10))


def swap(data: bytearray, chance: random.Random) -> None:
    one, other = sorted((_part(data, chance), _part(data, chance)), key=lambda part: part.start)
    if one.stop <= other.start:
        data[other], data[one] = data[one], data[other]


def insert(data: bytearray, chance: random.Random) -> None:
    at = _at(data, chance)
    data[at:at] = chance.choice(TOKENS)


def renumber(data: bytearray, chance: random.Random) -> None:
    found = _NUMBER.search(data, _at(data, chance))
    if found is not None:
        data[found.start() : found.end()] = chance.choice(NUMBERS)


def put_before(data: bytearray, chance: random.Random) -> None:
    data[:0] = chance.choice((b" ", b"\n", b"\xef\xbb\xbf", b"\0", b"[", b"{", b"\x1f\x8b"))


KINDS: Final[tuple[Damage, ...]] = (
    flip,
    overwrite,
    cut,
    drop,
    repeat,
    swap,
    insert,
    insert,
    renumber,
    renumber,
    put_before,
)


def damaged(data: bytes, chance: random.Random) -> bytes:
    """The data with one to a few kinds of damage."""
    changed = bytearray(data)
    for _ in range(chance.choice((1, 1, 1, 2, 3, 6))):
        chance.choice(KINDS)(changed, chance)
    return bytes(changed)
