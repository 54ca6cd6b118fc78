"""One file format each: bytes in, a Trace out.

``open_trace`` looks at a file's first bytes, never at its name: profilers name gzip files .json and the reverse.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from io import BytesIO
from itertools import chain
from pathlib import Path
from typing import BinaryIO, Final

from ..errors import UnreadableInput
from ..trace import Notice, Source, Trace
from ..unpacked_size import MAX_UNPACKED_BYTES
from .foreign import recognized
from .unpacking import Unpacked, expected_bytes

Progress = Callable[[str, int, int], None]
"""Told of what has been read: (path, bytes of the file, bytes read since the last call)."""

_SQLITE: Final = b"SQLite format 3\0"


def open_trace(path: Path, *, progress: Progress | None = None) -> Trace:
    """Read a trace file of any known format. UnreadableInput says what is wrong with it and what to do."""
    try:
        with path.open("rb") as file:
            if file.peek(len(_SQLITE)).startswith(_SQLITE):
                from .nsys import FORMAT, read_nsys

                return read_nsys(path, Source(path=str(path), format=FORMAT, bytes=path.stat().st_size))
            if path.is_file():
                return _read(file, path.stat().st_size, str(path), progress)
            data = file.read()  # a pipe
    except IsADirectoryError as error:
        raise UnreadableInput(f"{path}: a folder, not a trace file; give a file inside it") from error
    except OSError as error:
        raise UnreadableInput(f"{path}: can't be read ({error.strerror}); check the path and its rights") from error
    return read_trace(data, str(path))


def read_trace(data: bytes, path: str) -> Trace:
    """Read the bytes of a trace file of any known format; ``path`` names them in messages."""
    return _read(BytesIO(data), len(data), path)


def _read(file: BinaryIO, size: int, path: str, progress: Progress | None = None) -> Trace:
    if not size:
        raise UnreadableInput(f"{path}: empty (0 bytes); the profiler never finished writing: record it again")
    source = Source(path=path, format="kineto-json", bytes=size)
    expected = expected_bytes(file, size)
    text = Unpacked(file, path, most_bytes=MAX_UNPACKED_BYTES, progress=progress and partial(progress, path, size))
    blocks = iter(text)
    first = next(blocks, b"")
    if first.startswith(_SQLITE):
        from .nsys import FORMAT, read_nsys_bytes

        return read_nsys_bytes(b"".join((first, *blocks)), replace(source, format=FORMAT))
    while not (head := first.lstrip()):
        if not (first := next(blocks, b"")):
            raise UnreadableInput(f"{path}: nothing but white space; record the trace again")
    if (what := recognized(first, path)) is not None:
        raise UnreadableInput(f"{path}: {what}")
    trace = _read_json(head, chain((head,), blocks), source, expected)
    if text.is_intact or not trace.complete:
        return trace
    notice = Notice("damaged_file", "the compressed file is damaged, figures may be wrong; copy or record it again")
    return replace(trace, complete=False, notices=(*trace.notices, notice))


def _read_json(head: bytes, blocks: Iterable[bytes], source: Source, expected: int) -> Trace:
    from .kineto import read_kineto
    from .perfetto_json import is_perfetto_json, read_perfetto_json
    from .proton import is_proton, read_proton

    if is_proton(head):
        return read_proton(blocks, source)
    if is_perfetto_json(head):
        return read_perfetto_json(blocks, source, expected_bytes=expected)
    return read_kineto(blocks, source, expected_bytes=expected)
