"""A Trace as the bytes of one file, and back: an entry of the cache of opened traces.

- ``lstrace1``, then the header's length as 8 bytes, little-endian
- the header: MessagePack of ``_Header``
- each column as numpy holds it, in the order of tables and columns of trace.py, after zeros up to a multiple of 64
- CRC-32 of everything above, as 4 bytes, little-endian
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator
from dataclasses import fields
from typing import Annotated, Any, BinaryIO, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..model.trace import BlockingCalls, GpuOps, HostOps, Launches, Notice, Source, Table, Trace

_PREFIX: Final = struct.Struct("<8sQ")
_MAGIC: Final = b"lstrace1"
_CHECKSUM_BYTES: Final = 4
_ALIGNMENT: Final = 64  # bytes, of a column: a line of the processor's cache
_TABLES: Final[dict[str, type[Table]]] = {
    "gpu_ops": GpuOps,
    "launches": Launches,
    "blocking_calls": BlockingCalls,
    "host_ops": HostOps,
}
_DTYPES: Final = {
    dtype.str: dtype
    for dtype in map(np.dtype, (np.bool_, np.int8, np.int16, np.int32, np.int64, np.uint8, np.uint16, np.uint32))
}
"""What a column may be, in this machine's byte order."""


class _Shape(msgspec.Struct, frozen=True):
    """A table's length, and the type of each of its columns."""

    rows: Annotated[int, msgspec.Meta(ge=0)]
    dtypes: dict[str, str]


class _Header(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """All of a Trace but the columns; ``key`` tells which file it is of, as the cache sees it."""

    key: bytes
    tables: dict[str, _Shape]
    source: Source
    names: tuple[str, ...]
    events: int
    device_names: dict[int, str | None]
    rank: int | None
    whole_us: bool
    notices: tuple[Notice, ...]
    complete: bool
    shapes: tuple[str, ...]
    collectives: tuple[str, ...]
    world_size: int | None
    group_ranks: tuple[tuple[int, ...], ...]


_FACTS: Final = tuple(name for name in _Header.__struct_fields__ if name not in ("key", "tables"))
"""The fields of Trace that are no tables."""


def entry_bytes(key: bytes, trace: Trace) -> int:
    """How long the entry will be."""
    return sum(memoryview(part).nbytes for part in _parts(key, trace)) + _CHECKSUM_BYTES


def write_entry(file: BinaryIO, key: bytes, trace: Trace) -> None:
    """Write the trace, column by column: no more than one is held twice. OSError as the file raises it."""
    checksum = 0
    for part in _parts(key, trace):
        checksum = zlib.crc32(part, checksum)
        file.write(part)
    file.write(checksum.to_bytes(_CHECKSUM_BYTES, "little"))


def entry_trace(data: memoryview, key: bytes) -> Trace | None:
    """The trace that an entry holds, its columns being views of ``data``; None unless it is whole and has this key."""
    end = len(data) - _CHECKSUM_BYTES
    if end < _PREFIX.size or zlib.crc32(data[:end]) != int.from_bytes(data[end:], "little"):
        return None
    magic, header_bytes = _PREFIX.unpack_from(data)
    at = _PREFIX.size + header_bytes
    if magic != _MAGIC or at > end:
        return None
    try:
        header = msgspec.msgpack.decode(data[_PREFIX.size : at], type=_Header)
    except msgspec.MsgspecError:
        return None
    if header.key != key or not all(map(_is_shape_of, _TABLES.values(), map(header.tables.get, _TABLES))):
        return None
    tables: dict[str, Any] = {}
    for name, kind in _TABLES.items():
        columns: dict[str, NDArray[Any]] = {}
        for column, dtype in header.tables[name].dtypes.items():
            start = _aligned(at)
            at = start + header.tables[name].rows * _DTYPES[dtype].itemsize
            if at > end:
                return None
            columns[column] = np.frombuffer(data[start:at], _DTYPES[dtype])
        tables[name] = kind(**columns)
    return Trace(**tables, **{name: getattr(header, name) for name in _FACTS}) if at == end else None


def _is_shape_of(kind: type[Table], shape: _Shape | None) -> bool:
    """Whether the shape is one of such a table, in types that this machine has."""
    return (
        shape is not None
        and list(shape.dtypes) == [column.name for column in fields(kind)]
        and all(dtype in _DTYPES for dtype in shape.dtypes.values())
    )


def _parts(key: bytes, trace: Trace) -> Iterator[bytes | memoryview]:
    """What the file consists of, in order, but for the checksum."""
    facts: dict[str, Any] = {name: getattr(trace, name) for name in _FACTS}
    facts["device_names"] = dict(trace.device_names)
    header = msgspec.msgpack.encode(_Header(key=key, tables={n: _shape(getattr(trace, n)) for n in _TABLES}, **facts))
    yield _PREFIX.pack(_MAGIC, len(header))
    yield header
    at = _PREFIX.size + len(header)
    for column in _columns(trace):
        yield bytes(_aligned(at) - at)
        yield np.ascontiguousarray(column).data
        at = _aligned(at) + column.nbytes


def _columns(trace: Trace) -> Iterator[NDArray[Any]]:
    for name, kind in _TABLES.items():
        for column in fields(kind):
            yield getattr(getattr(trace, name), column.name)


def _shape(table: Table) -> _Shape:
    return _Shape(len(table), {column.name: getattr(table, column.name).dtype.str for column in fields(table)})


def _aligned(at: int) -> int:
    return -(-at // _ALIGNMENT) * _ALIGNMENT
