"""Files made to take a reader's time or memory, by name: each a function of about how many bytes it is to be."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

HEAD: Final = b'{"traceEvents":['
KERNEL: Final = b'{"ph":"X","cat":"kernel","name":"k","pid":0,"tid":7,"ts":%d,"dur":1,"args":{"correlation":%d}}'
CALL: Final = b'{"ph":"X","cat":"cuda_runtime","name":"c","pid":1,"tid":1,"ts":%d,"dur":1,"args":{"correlation":%d}}'
SOME: Final = 2000


def kernels(size: int, change: Callable[[bytes], bytes] = bytes) -> bytes:
    """Records, each of them changed, of so many bytes together."""
    return b",".join(_records(size, lambda at: change(KERNEL % (at, at))))


def every_second(size: int, change: Callable[[bytes], bytes]) -> bytes:
    """Records, every second of them changed."""
    return b",".join(_records(size, lambda at: change(KERNEL % (at, at)) if at % 2 else KERNEL % (at, at)))


def apart(size: int, old: bytes, new: bytes) -> bytes:
    """Calls and kernels of which each has a number of its own in one place."""
    return b",".join(
        _records(
            size, lambda at: b",".join(each.replace(old, new % at) for each in (CALL % (at, at), KERNEL % (at, at)))
        )
    )


def _records(size: int, record: Callable[[int], bytes]) -> Iterator[bytes]:
    at = 0
    while size > 0:
        text = record(at)
        yield text
        at, size = at + 1, size - len(text)


def _list(records: bytes) -> bytes:
    return HEAD + records + b"]}"


SLOW: Final[dict[str, Callable[[int], bytes]]] = {
    "escaped quotes": lambda size: HEAD + b'\\"' * (size // 2),
    "escaped quotes behind braces": lambda size: HEAD + b'{\\"' * (size // 3),
    "escaped quotes that one closes": lambda size: HEAD + b'{\\"' * (size // 3) + b'"',
    "escaped quotes between records": lambda size: HEAD + b'{"a":1},{"\\"' * (size // 12),
    "braces": lambda size: HEAD + b"{" * size,
    "nested objects": lambda size: HEAD + b'{"a":' * (size // 5),
    "nested lists": lambda size: HEAD + b"[" * size,
    "nested lists, closed": lambda size: _list(b"[" * (size // 2) + b"]" * (size // 2)),
    "every record lacks a brace": lambda size: _list(kernels(size, lambda record: record[:-1])),
    "every second record lacks a brace": lambda size: _list(every_second(size, lambda record: record[:-1])),
    "every record lacks a quote": lambda size: _list(kernels(size, lambda record: record.replace(b'"k"', b'"k'))),
    "every second record lacks a quote": lambda size: _list(
        every_second(size, lambda record: record.replace(b'"k"', b'"k'))
    ),
    "every record has a comma too many": lambda size: _list(kernels(size, lambda record: record + b",")),
    "every record has a bad escape": lambda size: _list(kernels(size, lambda record: record.replace(b"k", b"\\x"))),
    "every second entry is a list": lambda size: _list(b"[[]],{}," * (size // 8) + kernels(SOME)),
    "commas": lambda size: HEAD + b"," * size,
    "blanks between records": lambda size: _list(kernels(SOME) + b"," + b" " * size + kernels(SOME)),
    "blanks in the first record": lambda size: _list(kernels(SOME).replace(b",", b"," + b" " * size, 1)),
    "blanks at the end of the first record": lambda size: _list(kernels(SOME).replace(b"}},", b" " * size + b"}},", 1)),
    "blank lines between Proton's documents": lambda size: b'{"displayTimeUnit":"us","traceEvents":[]}' + b"\n" * size,
    "blanks behind braces": lambda size: _list((b"}" + b" " * 999) * (size // 1000)),
    "many beginnings": lambda size: b"{" + b'"traceEvents":[' * (size // 15),
    "beginnings behind a long head": lambda size: b'{"x":[' + b"0," * (size // 2) + b'"traceEvents":[' * 9,
    "a long number": lambda size: _list(
        kernels(SOME) + b',{"ph":"X","cat":"kernel","dur":1,"ts":' + b"1" * size + b"}"
    ),
    "a long fraction": lambda size: _list(
        kernels(SOME) + b',{"ph":"X","cat":"kernel","dur":1,"ts":1.' + b"1" * size + b"}"
    ),
    "many processes": lambda size: _list(apart(size, b'"pid":1', b'"pid":%d')),
    "many devices": lambda size: _list(apart(size, b'"pid":0', b'"pid":%d')),
    "many threads": lambda size: _list(apart(size, b'"tid":1', b'"tid":%d')),
    "many streams": lambda size: _list(apart(size, b'"tid":7', b'"tid":%d')),
    "many names": lambda size: _list(apart(size, b'"k"', b'"k%d"')),
}
"""Their time grows with the square of their size where something is searched for again and again."""

LARGE: Final[dict[str, Callable[[int], bytes]]] = {
    "numbers": lambda size: HEAD + b"0," * (size // 2) + b"0]}",
    "empty objects": lambda size: HEAD + b"{}," * (size // 3) + b"{}]}",
    "empty lists": lambda size: HEAD + b"[]," * (size // 3) + b"[]]}",
    "empty objects behind records": lambda size: _list(kernels(SOME) + b",{}" * (size // 3)),
    "numbers before the records": lambda size: b'{"x":[' + b"0," * (size // 2) + b'0],"traceEvents":[' + kernels(SOME),
    "devices behind the records": lambda size: (
        HEAD + kernels(SOME) + b'],"deviceProperties":[' + b"{}," * (size // 3) + b"{}]}"
    ),
    "a record without an end": lambda size: HEAD + kernels(SOME) + b',{"ph":"X","name":"' + b"k" * size,
    "zeros where the disk lost a block": lambda size: HEAD + kernels(SOME) + b"\0" * size,
    "one line that Perfetto never wrote": lambda size: (
        b'{"traceEvents":[\n{"args":{}},\n{"args":{"args":{' + b'"a":1,' * (size // 6) + b'"a":1}}}]}'
    ),
    "Proton's empty records": lambda size: b'{"displayTimeUnit":"us","traceEvents":[' + b"{}," * (size // 3) + b"{}]}",
}
"""A few bytes of each are many in memory: packed, they are a thousand times smaller."""
