"""The cache of opened traces: a large file that was read once is not read again.

Below the user's cache folder lies one entry for each file, by its path. It is used where the file's path, size, times,
inode and samples of its content are what they were, and the readers too; and it is checked as a whole before that.
Whatever is wrong with the folder or an entry, the trace comes out of its own file. An entry consists of

- ``lstrace1``, then the header's length as 8 bytes, little-endian
- the header: MessagePack of ``_Header``
- each column as numpy holds it, in the order of tables and columns of trace.py, after zeros up to a multiple of 64
- CRC-32 of everything above, as 4 bytes, little-endian
"""

from __future__ import annotations

import hashlib
import os
import re
import stat
import struct
import tempfile
import time
import zlib
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import fields, replace
from pathlib import Path
from typing import Annotated, Any, BinaryIO, Final, NamedTuple

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..model.paths import user_cache
from ..model.trace import BlockingCalls, GpuOps, HostOps, Launches, Notice, Source, Table, Trace
from .readers import Progress, open_trace

LEAST_EVENTS: Final = 50_000
"""Smaller traces are read in 0.2 s."""

MOST_BYTES: Final = 4 << 30  # of all entries together
MOST_OF_FREE: Final = 0.1  # of the disk's free space
SETTLED_NS: Final = 3_000_000_000
"""A file that changed later than this before it was read could change once more with the same time: FAT counts 2 s."""

_BROKEN_OFF_S: Final = 3600.0  # after that long nobody writes an entry any more
_SAMPLES: Final = 16  # the head, the tail, and places between
_SAMPLE_BYTES: Final = 1 << 14
_OURS: Final = re.compile(r"[0-9a-f]{32}\.trace(\.\w+\.partial)?")
_LOGS: Final = ("-wal", "-journal")  # what SQLite has to read beside a file

_ROOM: Final = Path(__file__).parent
_MODEL: Final = _ROOM.parent / "model"
_READ_WITH: Final = ("__init__", "columns", "errors", "freed_memory", "paths", "trace")
READER_SOURCES: Final = (
    *sorted((_ROOM / "readers").glob("*.py")),
    _ROOM / "__init__.py",
    Path(__file__),
    *(_MODEL / f"{name}.py" for name in _READ_WITH),
    _ROOM.parent / "__init__.py",
    _ROOM.parents[1] / "__init__.py",
)
"""All that decides what a file is read as."""


def _reader_version() -> bytes | None:
    """A digest of the code that reads, so that no change of it can leave an old entry in use. None without sources."""
    with suppress(OSError):
        return hashlib.blake2b(b"".join(source.read_bytes() for source in READER_SOURCES)).digest()
    return None


_VERSION: Final = _reader_version()  # of the code as it was loaded, not as it may be when a file is opened


class _Stamp(NamedTuple):
    """What a file is known by, without looking into it."""

    path: str  # without symbolic links
    size: int
    mtime_ns: int
    ctime_ns: int  # nobody can set it back
    inode: int


def open_cached(path: Path, *, progress: Progress | None = None) -> Trace:
    """As ``open_trace``, out of the cache where the same file was read before; ``progress`` is then told nothing."""
    begun_ns = time.time_ns()
    stamp, folder = _stamp(path), _folder()
    if stamp is None or folder is None:
        return open_trace(path, progress=progress)
    entry = _entry(folder, stamp)
    with suppress(OSError):
        if (kept := _load(entry, stamp)) is not None:
            return replace(kept, source=replace(kept.source, path=str(path)))
    trace = open_trace(path, progress=progress)
    settled = max(stamp.mtime_ns, stamp.ctime_ns) < begun_ns - SETTLED_NS and _stamp(path) == stamp
    if settled and trace.events >= LEAST_EVENTS:
        with suppress(OSError):
            _keep(entry, stamp, trace)
    return trace


def is_kept(path: Path) -> bool:
    """Whether there is an entry of the file, be it out of date."""
    stamp, folder = _stamp(path), _folder()
    return stamp is not None and folder is not None and os.path.lexists(_entry(folder, stamp))


def _entry(folder: Path, stamp: _Stamp) -> Path:
    return folder / f"{hashlib.blake2b(os.fsencode(stamp.path), digest_size=16).hexdigest()}.trace"


def _stamp(path: Path) -> _Stamp | None:
    """None for what is no plain file, or not all of a file."""
    with suppress(OSError, RuntimeError):  # RuntimeError: links in a circle
        resolved = path.resolve()
        found = resolved.stat()
        if stat.S_ISREG(found.st_mode) and not any(os.path.lexists(f"{resolved}{suffix}") for suffix in _LOGS):
            return _Stamp(str(resolved), found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)
    return None


def _folder() -> Path | None:
    """Where the entries lie or would lie; None where there can be none."""
    with suppress(RuntimeError):
        return user_cache() / "traces" if os.name == "posix" and _VERSION is not None else None
    return None


def _is_private(folder: Path) -> bool:
    """Whether it is the user's own folder, and nobody else's. OSError where there is none."""
    found = folder.stat()
    return stat.S_ISDIR(found.st_mode) and found.st_uid == os.getuid() and not stat.S_IMODE(found.st_mode) & 0o077


def _load(entry: Path, stamp: _Stamp) -> Trace | None:
    """What is kept of the file; None unless it is sound and of the file as it is now. OSError where nothing is kept."""
    found = entry.lstat()
    if not stat.S_ISREG(found.st_mode) or found.st_size > MOST_BYTES or not _is_private(entry.parent):
        return None
    with entry.open("rb") as file:
        trace = entry_trace(np.fromfile(file, np.uint8).data, _key(stamp))
    if trace is not None:
        with suppress(OSError):
            os.utime(entry)  # the entry used longest ago goes first
    return trace


def _keep(entry: Path, stamp: _Stamp, trace: Trace) -> None:
    """Write the entry, whole or not at all. OSError where it can't be written."""
    entry.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    key = _key(stamp)
    if not _is_private(entry.parent) or not _make_room(entry, entry_bytes(key, trace)):
        return
    descriptor, partial = tempfile.mkstemp(dir=entry.parent, prefix=f"{entry.name}.", suffix=".partial")
    try:
        with os.fdopen(descriptor, "wb") as file:
            write_entry(file, key, trace)
        Path(partial).replace(entry)
    finally:
        Path(partial).unlink(missing_ok=True)


def _make_room(entry: Path, needed: int) -> bool:
    """Delete what was used longest ago, and what writers that were killed left, until a new entry fits; whether it
    does. Another process may do the same at the same time.
    """
    disk = os.statvfs(entry.parent)
    most = min(MOST_BYTES, int(disk.f_bavail * disk.f_frsize * MOST_OF_FREE))
    if needed > most:
        return False
    kept: list[tuple[float, int, Path]] = []
    for each in entry.parent.iterdir():
        with suppress(FileNotFoundError):
            found = each.lstat()
            if _OURS.fullmatch(each.name) is None or not stat.S_ISREG(found.st_mode):
                continue
            if each.suffix == ".partial" and time.time() - found.st_mtime > _BROKEN_OFF_S:
                each.unlink()
            elif each != entry:
                kept.append((found.st_mtime, found.st_size, each))
    total = needed + sum(size for _, size, _ in kept)
    for _, size, each in sorted(kept):
        if total <= most:
            break
        each.unlink(missing_ok=True)
        total -= size
    return True


def _key(stamp: _Stamp) -> bytes:
    """A digest of what an entry depends on: the file, by its stamp and samples of its content, and the readers."""
    assert _VERSION is not None
    digest = hashlib.blake2b(_VERSION)
    digest.update(repr(stamp).encode("utf-8", "surrogateescape"))
    with Path(stamp.path).open("rb", buffering=0) as file:
        for sample in range(_SAMPLES):
            file.seek(max(0, stamp.size - _SAMPLE_BYTES) * sample // (_SAMPLES - 1))
            digest.update(file.read(_SAMPLE_BYTES))
    return digest.digest()


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
    grid_ns: int
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
    tables: dict[str, Any] = {}
    with suppress(msgspec.MsgspecError, KeyError, TypeError):  # tables, columns or types that there are not here
        header = msgspec.msgpack.decode(data[_PREFIX.size : at], type=_Header)
        for name, kind in _TABLES.items():
            columns: dict[str, NDArray[Any]] = {}
            for column, dtype in header.tables[name].dtypes.items():
                start = _aligned(at)
                at = start + header.tables[name].rows * _DTYPES[dtype].itemsize
                if at > end:
                    return None
                columns[column] = np.frombuffer(data[start:at], _DTYPES[dtype])
            tables[name] = kind(**columns)
        if at == end and header.key == key:
            return Trace(**tables, **{name: getattr(header, name) for name in _FACTS})
    return None


def _parts(key: bytes, trace: Trace) -> Iterator[bytes | memoryview]:
    """What the file consists of, in order, but for the checksum."""
    facts: dict[str, Any] = {name: getattr(trace, name) for name in _FACTS}
    facts["device_names"] = dict(trace.device_names)
    header = msgspec.msgpack.encode(_Header(key=key, tables={n: _shape(getattr(trace, n)) for n in _TABLES}, **facts))
    yield _PREFIX.pack(_MAGIC, len(header))
    yield header
    at = _PREFIX.size + len(header)
    for table in (getattr(trace, name) for name in _TABLES):
        for each in fields(table):
            column: NDArray[Any] = getattr(table, each.name)
            yield bytes(_aligned(at) - at)
            yield np.ascontiguousarray(column).data
            at = _aligned(at) + column.nbytes


def _shape(table: Table) -> _Shape:
    return _Shape(len(table), {column.name: getattr(table, column.name).dtype.str for column in fields(table)})


def _aligned(at: int) -> int:
    return -(-at // _ALIGNMENT) * _ALIGNMENT
