"""One file format each: bytes in, a Trace out.

``open_trace`` looks at a file's first bytes, never at its name: profilers name gzip files .json and the reverse.
"""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from ...model.errors import UnreadableInput
from ...model.paths import MAX_UNPACKED_BYTES
from ...model.trace import Notice, Source, Trace
from .foreign import SQLITE, recognized
from .unpacking import Unpacked, expected_bytes

Progress = Callable[[str, int | None, int], None]
"""Told of what has been read: (path, bytes of the file, bytes read since the last call). None: nobody knows."""

MAX_IN_MEMORY_BYTES: Final = 1 << 30
_LEAST_AHEAD_BYTES: Final = 1 << 20  # a file of fewer unpacks to nothing long


def open_trace(path: Path, *, progress: Progress | None = None) -> Trace:
    """Read a trace file of any known format. UnreadableInput says what is wrong with it and what to do."""
    try:
        with path.open("rb") as file:
            status = os.fstat(file.fileno())
            size = status.st_size if stat.S_ISREG(status.st_mode) else None  # a pipe has none
            if size is not None and file.peek(len(SQLITE)).startswith(SQLITE):
                from .nsys import FORMAT, read_nsys

                return read_nsys(path, Source(path=str(path), format=FORMAT, bytes=size), progress)
            return _read(file, size, str(path), progress)
    except IsADirectoryError as error:
        raise UnreadableInput(f"{path}: a folder, not a trace file; give a file inside it") from error
    except OSError as error:
        raise UnreadableInput(f"{path}: can't be read ({error.strerror}); check the path and its rights") from error


@contextlib.contextmanager
def opened_soon(path: Path) -> Iterator[None]:
    """Have ready what reads a trace file that is opened within the block. A file that can't be read costs nothing."""
    expected = 0
    with contextlib.suppress(OSError):
        if stat.S_ISREG((status := path.stat()).st_mode) and status.st_size > _LEAST_AHEAD_BYTES:
            with path.open("rb") as file:
                is_text = not file.peek(len(SQLITE)).startswith(SQLITE)
                expected = expected_bytes(file, status.st_size) if is_text else 0
    if not expected:
        yield
        return
    from .second_process import started_ahead

    with started_ahead(expected):
        yield


def read_trace(data: bytes, path: str, *, progress: Progress | None = None) -> Trace:
    """Read the bytes of a trace file of any known format; ``path`` names them in messages."""
    return _read(BytesIO(data), len(data), path, progress)


def _read(file: BinaryIO, size: int | None, path: str, progress: Progress | None) -> Trace:
    """Read a file; of a pipe, which has no size, as it comes in."""
    expected = 0 if size is None else expected_bytes(file, size)
    text = Unpacked(file, path, most_bytes=MAX_UNPACKED_BYTES, progress=progress and partial(progress, path, size))
    blocks = iter(text)
    first = next(blocks, b"")
    if not text.bytes_read:
        raise UnreadableInput(f"{path}: empty (0 bytes); the profiler never finished writing: record it again")
    source = Source(path=path, format="kineto-json", bytes=size or 0)
    if first.startswith(SQLITE):
        from .nsys import FORMAT, read_nsys_bytes

        trace = read_nsys_bytes(_in_memory(chain((first,), blocks), path), replace(source, format=FORMAT))
    else:
        trace = _read_text(first, blocks, source, expected)
        if text.has_zeros:  # a zero may stand for any part of a record, or for several: what was read may be fewer
            lost = "zeros stand in the file's text, where a disk lost a part: records may be lost"
            trace = _incomplete(trace, f"{lost}; copy or record it again")
    if size is None:
        trace = replace(trace, source=replace(trace.source, bytes=text.bytes_read))
    if text.is_intact:
        return trace
    return _incomplete(trace, "the compressed file is damaged, figures may be wrong; copy or record it again")


def _incomplete(trace: Trace, reason: str) -> Trace:
    """The trace with the notice that its file is damaged, where it does not say so already."""
    if not trace.complete:
        return trace
    return replace(trace, complete=False, notices=(*trace.notices, Notice("damaged_file", reason)))


def _read_text(first: bytes, blocks: Iterator[bytes], source: Source, expected: int) -> Trace:
    while not (head := first.lstrip()):
        if not (first := next(blocks, b"")):
            raise UnreadableInput(f"{source.path}: nothing but white space; record the trace again")
    if (what := recognized(first, source.path)) is not None:
        raise UnreadableInput(f"{source.path}: {what}")
    from .converted import is_perfetto_json, is_proton, read_perfetto_json, read_proton
    from .kineto import read_kineto

    blocks = chain((head,), blocks)
    if is_proton(head):
        return read_proton(blocks, source)
    reader = read_perfetto_json if is_perfetto_json(head) else read_kineto
    return reader(blocks, source, expected_bytes=expected)


def _in_memory(blocks: Iterable[bytes], path: str) -> bytes:
    """An SQLite file out of an archive, a compressed file or a pipe, which SQLite takes as a whole."""
    data = bytearray()
    for block in blocks:
        data += block
        if len(data) > MAX_IN_MEMORY_BYTES:
            raise UnreadableInput(f"{path}: an SQLite file of over {MAX_IN_MEMORY_BYTES >> 30} GiB; unpack it first")
    return bytes(data)
