"""The text of a trace file, block by block: decompressed, in UTF-8, without a byte order mark."""

from __future__ import annotations

import codecs
import contextlib
import re
import sys
import zlib
from collections.abc import Callable, Iterator
from itertools import chain
from typing import Any, BinaryIO, Final, Protocol

from ...model.errors import UnreadableInput
from ...model.paths import most_unpacked

GZIP: Final = b"\x1f\x8b"
ZSTD: Final = re.compile(rb"\x28\xb5\x2f\xfd|[\x50-\x5f]\x2a\x4d\x18")
"""A frame, or one to be skipped, as parallel writers put first (RFC 8878)."""

BLOCK_BYTES: Final = 7 << 17
"""Somewhat below a MiB: a Linux pipe holds it, and a core's cache its records while they are sorted into columns."""

_PACKED_BYTES: Final = 1 << 16
_UTF16_MARKS: Final = (b"\xff\xfe", b"\xfe\xff")
_TYPICAL_RATIO: Final = 8
"""Kineto files pack 8 to 12 times."""

_DEFLATE: Final = 8  # the only method of RFC 1952, of which the flags and sizes below are as well
_CHECKSUM, _EXTRA, _NAME, _COMMENT, _RESERVED = 2, 4, 8, 16, 0xE0
_LEAST_HEADER: Final = 10
_LONGEST_MAGIC: Final = 4
_LONGEST_HEADER: Final = 1 << 18  # bytes: two texts and 64 KiB of extra data
_TRAILER_BYTES: Final = 8


class Unpacked:
    """The blocks of one file, to be read once. ``is_intact``, ``has_zeros`` and ``bytes_read`` tell of what was read so
    far.
    """

    def __init__(self, file: BinaryIO, path: str, *, most_bytes: int, progress: Callable[[int], None] | None = None):
        self.is_intact = True  # False: the compressed file is cut or damaged, what comes before that was given
        self.has_zeros = False  # no text has a zero byte: they stand where a disk lost what was written
        self.bytes_read = 0  # of the file itself
        self._file = file
        self._path = path
        self._most_bytes = most_bytes
        self._progress = progress

    def __iter__(self) -> Iterator[bytes]:
        """Blocks of at most about a MiB, none of them empty. UnreadableInput when no trace of its size is as long."""
        size = 0
        for block in _gathered(_to_utf8(self._inflated())):
            size += len(block)
            if size > min(self._most_bytes, most_unpacked(self.bytes_read)):
                raise UnreadableInput(
                    f"{self._path}: unpacks to over {size - 1 >> 20:,} MiB; no trace of its size does"
                )
            self.has_zeros = self.has_zeros or b"\0" in block
            yield block

    def _read(self, size: int) -> bytes:
        data = self._file.read(size)
        self.bytes_read += len(data)
        if self._progress is not None:
            self._progress(len(data))
        return data

    def _inflated(self) -> Iterator[bytes]:
        data = self._read(_PACKED_BYTES)
        if (packer := _packer(data)) is None:
            yield data
            while block := self._read(BLOCK_BYTES):
                yield block
            return
        has_content, kind = False, packer.kind
        while packer is not None and self.is_intact:  # such files may be strung together
            for block in packer.blocks(lambda: self._read(_PACKED_BYTES)):
                has_content = True
                yield block
            self.is_intact, data = packer.is_intact, packer.behind
            data = data if len(data) >= _LONGEST_MAGIC else data + self._read(_PACKED_BYTES)
            packer = _packer(data)
        while data:  # what stands behind is not packed, and counts to its bytes; zeros are a tape's or a disk's
            self.is_intact = self.is_intact and not data.strip(b"\0")
            data = self._read(BLOCK_BYTES)
        if not has_content and not self.is_intact:
            raise UnreadableInput(
                f"{self._path}: a {kind} file cut before its first byte of content; copy or record it again"
            )


class _Packer(Protocol):
    """One compressed part of a file."""

    kind: str
    is_intact: bool
    behind: bytes  # of what was read, the bytes behind the part

    def blocks(self, read: Callable[[], bytes]) -> Iterator[bytes]:
        """Its content, up to the damage where there is some."""


def _packer(data: bytes) -> _Packer | None:
    """What unpacks a file that begins so; None where it is not packed."""
    if data.startswith(GZIP):
        return _Inflater(data)
    return _Frame(data) if ZSTD.match(data) else None


class _Frame:
    """One frame of zstd. One that asks for over 128 MiB of memory counts as damaged."""

    kind = "zstd"

    def __init__(self, data: bytes) -> None:
        self.is_intact = False
        self.behind = b""
        self._data = data

    def blocks(self, read: Callable[[], bytes]) -> Iterator[bytes]:
        """Its content, up to the damage where there is some."""
        zstd = zstd_module()
        frame, data = zstd.ZstdDecompressor(), self._data
        while not frame.eof:
            try:
                block = frame.decompress(data, BLOCK_BYTES)
            except zstd.ZstdError:
                return
            if block:
                yield block
            data = b"" if frame.eof or not frame.needs_input else read()
            if not data and not frame.eof and frame.needs_input:
                return
        self.is_intact, self.behind = True, frame.unused_data


def zstd_module() -> Any:
    """Python's own from 3.14 on, its backport before."""
    if sys.version_info >= (3, 14):
        from compression import zstd
    else:
        from backports import zstd
    return zstd


class _Inflater:
    """One gzip member (RFC 1952). Its checksum is looked at last, so that a wrong one costs none of the content."""

    kind = "gzip"

    def __init__(self, data: bytes) -> None:
        self.is_intact = False
        self.behind = b""
        self._data = data

    def blocks(self, read: Callable[[], bytes]) -> Iterator[bytes]:
        """Its content, up to the damage where there is some."""
        from isal import isal_zlib

        inflate = isal_zlib.decompressobj(wbits=-zlib.MAX_WBITS)
        data, parts, size, length, checksum = self._behind_header(read), list[bytes](), 0, 0, 0
        while not inflate.eof:
            try:
                part = inflate.decompress(data, BLOCK_BYTES - size)
            except isal_zlib.IsalError:  # type: ignore[misc]  # its stub has no base
                break
            if part:
                parts.append(part)
                size += len(part)
                length, checksum = length + len(part), isal_zlib.crc32(part, checksum)
            if size >= BLOCK_BYTES:
                yield b"".join(parts)
                parts, size = [], 0
            data = inflate.unconsumed_tail
            if not data and not part and not inflate.eof and not (data := read()):
                break
        if parts:
            yield b"".join(parts)
        if inflate.eof:
            end = inflate.unused_data
            while len(end) < _TRAILER_BYTES and (more := read()):
                end += more
            stated = checksum.to_bytes(4, "little") + (length & 0xFFFFFFFF).to_bytes(4, "little")
            self.is_intact, self.behind = end[:_TRAILER_BYTES] == stated, end[_TRAILER_BYTES:]

    def _behind_header(self, read: Callable[[], bytes]) -> bytes:
        """What was read of the content; nothing where no header of a gzip file stands before it."""
        data = self._data
        while (begin := _header_bytes(data)) > len(data) and (more := read()) and len(data) <= _LONGEST_HEADER:
            data += more
        return data[begin:] if begin else b""


def _header_bytes(data: bytes) -> int:
    """How long a member's header is, more than the data where that ends in it; 0 for one that makes no sense."""
    more = len(data) + 1
    if len(data) < _LEAST_HEADER:
        return more
    flags, at = data[3], _LEAST_HEADER
    if data[2] != _DEFLATE or flags & _RESERVED:
        return 0
    if flags & _EXTRA:
        at += 2 + int.from_bytes(data[at : at + 2], "little")
    for flag in (_NAME, _COMMENT):
        if flags & flag and at < more:
            at = data.find(b"\0", at) + 1 or more
    if flags & _CHECKSUM and at < more:
        stated = int.from_bytes(data[at : at + 2], "little")
        if at + 2 < more and stated != zlib.crc32(data[:at]) & 0xFFFF:
            return 0
        at += 2
    return at


def expected_bytes(file: BinaryIO, size: int) -> int:
    """About how many bytes a file of this size unpacks to; by what it says where it is compressed."""
    head = file.read(_LONGEST_HEADER) if size >= 18 else b""
    if ZSTD.match(head):
        expected = _stated_by_frame(head) or size * _TYPICAL_RATIO
    elif not head.startswith(GZIP):
        expected = size
    else:
        file.seek(-4, 2)
        stated = int.from_bytes(file.read(4), "little")  # modulo 4 GiB, and of the last member alone
        expected = stated if stated > size else size * _TYPICAL_RATIO
    file.seek(0)
    return expected


def _stated_by_frame(head: bytes) -> int | None:
    """What the first frame of a zstd file says that it unpacks to."""
    zstd = zstd_module()
    with contextlib.suppress(zstd.ZstdError):
        stated: int | None = zstd.get_frame_info(head).decompressed_size
        return stated
    return None


def _to_utf8(blocks: Iterator[bytes]) -> Iterator[bytes]:
    first = next(blocks, b"")
    if first.startswith(_UTF16_MARKS):
        decoder = codecs.getincrementaldecoder("utf-16")("replace")
        for block in chain((first,), blocks):
            if text := decoder.decode(block):
                yield text.encode()
        if text := decoder.decode(b"", final=True):
            yield text.encode()
        return
    yield from filter(None, chain((first.removeprefix(codecs.BOM_UTF8),), blocks))


def _gathered(blocks: Iterator[bytes]) -> Iterator[bytes]:
    """Small blocks joined: a gzip file may begin with members of a byte, and the first block tells the format."""
    parts: list[bytes] = []
    size = 0
    for block in blocks:
        parts.append(block)
        size += len(block)
        if size >= _PACKED_BYTES:
            yield b"".join(parts) if len(parts) > 1 else block
            parts, size = [], 0
    if parts:
        yield b"".join(parts)
