"""One file format each: bytes in, a Trace out.

``open_trace`` looks at a file's first bytes, never at its name: profilers name gzip files .json and the reverse.
"""

from __future__ import annotations

import zlib
from dataclasses import replace
from pathlib import Path
from typing import Final

from ..errors import UnreadableInput
from ..trace import Notice, Source, Trace

_GZIP: Final = b"\x1f\x8b"
_SQLITE: Final = b"SQLite format 3\0"
_BYTE_ORDER_MARKS: Final = {b"\xef\xbb\xbf": "utf-8-sig", b"\xff\xfe": "utf-16", b"\xfe\xff": "utf-16"}
_CHUNK_BYTES: Final = 1 << 20
MAX_UNPACKED_BYTES: Final = 8 << 30  # as for a capture
_OTHERS: Final = {
    b"PK\x03\x04": "a .zip that holds no launchscope capture: unpack it and give the trace inside",
    b"\x28\xb5\x2f\xfd": "compressed with zstd: unpack it first (unzstd)",
    b"BZh": "compressed with bzip2: unpack it first (bunzip2)",
    b"\xfd7zXZ": "compressed with xz: unpack it first (unxz)",
    b"<": "HTML or XML, perhaps an error page instead of the download: fetch the raw trace file again",
}


def open_trace(path: Path) -> Trace:
    """Read a trace file of any known format. UnreadableInput says what is wrong with it and what to do."""
    try:
        with path.open("rb") as file:
            if file.peek(len(_SQLITE)).startswith(_SQLITE):
                from .nsys import FORMAT, read_nsys

                return read_nsys(path, Source(path=str(path), format=FORMAT, bytes=path.stat().st_size))
            data = file.read()
    except IsADirectoryError as error:
        raise UnreadableInput(f"{path}: a folder, not a trace file; give a file inside it") from error
    except OSError as error:
        raise UnreadableInput(f"{path}: can't be read ({error.strerror}); check the path and its rights") from error
    return read_trace(data, str(path))


def read_trace(data: bytes, path: str) -> Trace:
    """Read the bytes of a trace file of any known format; ``path`` names them in messages."""
    source = Source(path=path, format="kineto-json", bytes=len(data))
    if not data:
        raise UnreadableInput(f"{path}: empty (0 bytes); the profiler never finished writing: record it again")
    is_intact = True
    if data.startswith(_GZIP):
        data, is_intact = _gunzip(data, path)
    if data.startswith(_SQLITE):
        from .nsys import FORMAT, read_nsys_bytes

        return read_nsys_bytes(data, replace(source, format=FORMAT))
    data = _to_utf8(data)
    head = data[:64].lstrip()
    if not head and not data.strip():
        raise UnreadableInput(f"{path}: nothing but white space; record the trace again")
    for magic, what in _OTHERS.items():
        if head.startswith(magic):
            raise UnreadableInput(f"{path}: {what}")
    from .kineto import read_kineto

    trace = read_kineto(data, source)
    if is_intact or not trace.complete:
        return trace
    notice = Notice("damaged_file", "the compressed file is damaged, figures may be wrong; copy or record it again")
    return replace(trace, complete=False, notices=(*trace.notices, notice))


def _gunzip(data: bytes, path: str) -> tuple[bytes, bool]:
    """The content, and whether it is intact: a cut or damaged file gives what comes before the damage."""
    from isal import isal_zlib

    parts: list[bytes] = []
    size = 0
    is_intact = True
    while data.startswith(_GZIP) and is_intact:  # gzip files may be strung together
        stream = isal_zlib.decompressobj(wbits=16 + zlib.MAX_WBITS)
        try:
            for begin in range(0, len(data), _CHUNK_BYTES):
                parts.append(stream.decompress(data[begin : begin + _CHUNK_BYTES]))
                size += len(parts[-1])
                if size > MAX_UNPACKED_BYTES:
                    raise UnreadableInput(f"{path}: unpacks to over {MAX_UNPACKED_BYTES >> 30} GiB; no trace does")
                if stream.eof:
                    data = stream.unused_data + data[begin + _CHUNK_BYTES :]
                    break
        except isal_zlib.IsalError:  # type: ignore[misc]  # its stub has no base
            is_intact = False
        is_intact = is_intact and stream.eof
    content = b"".join(parts)
    if not content and not is_intact:
        raise UnreadableInput(f"{path}: a gzip file cut before its first byte of content; copy or record it again")
    return content, is_intact


def _to_utf8(data: bytes) -> bytes:
    """The text without a byte order mark, in UTF-8."""
    for mark, encoding in _BYTE_ORDER_MARKS.items():
        if data.startswith(mark):
            return data.decode(encoding, errors="replace").encode()
    return data
