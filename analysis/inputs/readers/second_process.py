"""Decoding on two cores: a second process takes every piece that it has time for, this one the others.

A process of its own, not a thread, since making Python objects holds the interpreter's lock; started afresh, not
forked, since the caller may hold threads or a CUDA context. Without it (no second core, no Python to start, killed)
everything is decoded here, and the result is the same.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

import msgspec

from .kineto_records import Records, decode_piece

_AT_ONCE: Final = 2  # pieces that the other has: the one it decodes, and the next in the pipe
_MOST_WAITING: Final = 64  # pieces decoded here while one is still with the other
_PATIENCE_S: Final = 20.0  # for one piece: a thousand times what it takes
_SIZE_BYTES: Final = 8
_PIPE_BYTES: Final = 1 << 20  # the most that Linux allows everyone
_SET_PIPE_BYTES: Final = 1031  # F_SETPIPE_SZ: fcntl names it on Linux alone
_LARGEST_ANSWER: Final = 1 << 30
_READY: Final = bytes(_SIZE_BYTES)

LONG_BYTES: Final = 128 << 20
"""Text from which a second process saves more time than its start takes."""

_RESULT: Final = msgspec.msgpack.Decoder(Records | None)

_has_company = False
_ahead: list[SecondProcess] = []  # started, and of no use yet


def leave_other_cores() -> None:
    """From now on this process decodes alone: it is one of several that read a file each, and they have the cores."""
    global _has_company
    _has_company = True


def _cores() -> int:
    """How many cores this process may run on."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def _is_worth_it(expected_bytes: int) -> bool:
    return expected_bytes >= LONG_BYTES and _cores() > 1 and not _has_company


@contextlib.contextmanager
def started_ahead(expected_bytes: int) -> Iterator[None]:
    """Let a second process start now, for a text of that length that is read within the block: until it is ready the
    caller loads what else it needs.
    """
    if not _is_worth_it(expected_bytes):
        yield
        return
    other = SecondProcess()
    _ahead.append(other)
    try:
        yield
    finally:
        with contextlib.suppress(ValueError):  # it was of use
            _ahead.remove(other)
            other.close()


@contextlib.contextmanager
def second_process(expected_bytes: int) -> Iterator[SecondProcess | None]:
    """The one that was started ahead, or a new one; None for a text of a length that one process reads as soon."""
    if not _is_worth_it(expected_bytes):
        yield None
        return
    with contextlib.closing(_ahead.pop() if _ahead else SecondProcess()) as other:
        yield other


@dataclass(eq=False)
class Piece:
    """A list of records as text, and decoded as soon as that is done."""

    text: bytes
    records: Records | None = None  # also when the text is no list of records
    is_decoded: bool = False

    def decode(self) -> None:
        """Decode it here and now."""
        self.settle(decode_piece(self.text))

    def settle(self, records: Records | None) -> None:
        """Take what decoding gave."""
        self.records, self.is_decoded = records, True


def decoded(texts: Iterable[bytes], other: SecondProcess | None = None) -> Iterator[Piece]:
    """The pieces in order, decoded here and, where there is one, by the other process."""
    waiting = deque[Piece]()
    for text in texts:
        waiting.append(Piece(text))
        if other is not None:
            other.exchange(wait=len(waiting) > _MOST_WAITING)
        if other is not None and other.has_room:
            other.give(waiting[-1])
        else:
            waiting[-1].decode()
        while waiting and waiting[0].is_decoded:
            yield waiting.popleft()
    while waiting:
        if other is not None and not waiting[0].is_decoded:
            other.exchange(wait=True)
        yield waiting.popleft()


class SecondProcess:
    """Another process that decodes pieces."""

    def __init__(self) -> None:
        self._process = _start()
        self._is_ready = False
        self._given = deque[Piece]()
        self._outgoing = deque[memoryview]()
        self._incoming = bytearray()

    @property
    def has_room(self) -> bool:
        """Whether it takes a piece now: not before it has started, nor once it can't go on."""
        return self._is_ready and self._process is not None and len(self._given) < _AT_ONCE

    def give(self, piece: Piece) -> None:
        """Let it decode a piece."""
        self._outgoing += (memoryview(len(piece.text).to_bytes(_SIZE_BYTES, "little")), memoryview(piece.text))
        self._given.append(piece)
        self.exchange()

    def exchange(self, *, wait: bool = False) -> None:
        """Send and take what goes without waiting; or wait for a piece. What it can't finish is decoded here."""
        until = time.monotonic() + _PATIENCE_S
        while self._process is not None:
            assert self._process.stdin is not None
            assert self._process.stdout is not None
            try:
                before = len(self._given)
                while self._send(self._process.stdin.fileno()) or self._receive(self._process.stdout.fileno()):
                    self._take_results()
                if len(self._given) < before or not wait or not self._given:
                    return
                if time.monotonic() > until:
                    raise TimeoutError
                select.select([self._process.stdout], [self._process.stdin] if self._outgoing else [], [], 1.0)
            except (OSError, EOFError, ValueError, msgspec.DecodeError):
                self.close()
        while self._given:
            self._given.popleft().decode()

    def close(self) -> None:
        """End it, whatever it is doing."""
        process, self._process = self._process, None
        if process is not None:
            process.kill()
            for stream in (process.stdin, process.stdout):
                assert stream is not None
                with contextlib.suppress(OSError):
                    stream.close()
            process.wait()

    def _send(self, pipe: int) -> bool:
        with contextlib.suppress(BlockingIOError, IndexError):  # IndexError: there is nothing to send
            sent = os.write(pipe, self._outgoing[0])
            if rest := self._outgoing.popleft()[sent:]:
                self._outgoing.appendleft(rest)
            return True
        return False

    def _receive(self, pipe: int) -> bool:
        with contextlib.suppress(BlockingIOError):
            data = os.read(pipe, _PIPE_BYTES)
            if not data:
                raise EOFError
            self._incoming += data
            return True
        return False

    def _take_results(self) -> None:
        """Settle the pieces whose records have come in whole. ValueError: that is no answer."""
        at = 0
        while len(self._incoming) >= at + _SIZE_BYTES:
            begin = at + _SIZE_BYTES
            size = int.from_bytes(self._incoming[at:begin], "little")
            if size > _LARGEST_ANSWER or (self._is_ready and not self._given):
                raise ValueError("not the other process that was started")
            if len(self._incoming) < begin + size:
                break
            if self._is_ready:
                self._given.popleft().settle(_RESULT.decode(self._incoming[begin : begin + size]))
            self._is_ready = True
            at = begin + size
        del self._incoming[:at]


def _start() -> subprocess.Popen[bytes] | None:
    if os.name != "posix" or not sys.executable or getattr(sys, "frozen", False):
        return None
    import fcntl

    code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve()"
    with contextlib.suppress(OSError, ValueError):
        process = subprocess.Popen(
            [sys.executable, "-c", code],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
            env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
        )
        for stream in (process.stdin, process.stdout):
            assert stream is not None
            os.set_blocking(stream.fileno(), False)
            with contextlib.suppress(OSError):  # where a pipe can't hold a piece it takes more turns
                fcntl.fcntl(stream.fileno(), _SET_PIPE_BYTES, _PIPE_BYTES)
        return process
    return None


def serve() -> None:
    """The second process: pieces come in on stdin, records go out on stdout, until nobody sends any more."""
    import gc
    import signal

    signal.signal(signal.SIGINT, signal.SIG_DFL)  # Ctrl-C is told by the other process
    gc.disable()  # nothing here refers to itself
    pieces, results = sys.stdin.buffer, os.fdopen(os.dup(sys.stdout.fileno()), "wb")
    with contextlib.suppress(BrokenPipeError):
        results.write(_READY)
        results.flush()
        while size := int.from_bytes(pieces.read(_SIZE_BYTES), "little"):
            result = msgspec.msgpack.encode(decode_piece(pieces.read(size)))
            results.write(len(result).to_bytes(_SIZE_BYTES, "little"))
            results.write(result)
            results.flush()
    os._exit(0)  # no need to take down the interpreter
