"""Worker processes of this machine: each finishes one file at a time; one that dies costs a row at most.

Not ``concurrent.futures``: there a process that is killed breaks the pool, and every file that waits is lost.
"""

from __future__ import annotations

import contextlib
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections import deque
from collections.abc import Iterator, Sequence
from types import TracebackType
from typing import BinaryIO, Final

import msgspec

from ..inputs.readers.second_process import leave_other_cores
from ..model.errors import LaunchscopeError
from .document import LOST_WORKER, RankRow
from .one_file import Finished, Job, bare_row, finish, from_bytes, to_bytes

_PIPE_BYTES: Final = 1 << 20
_ENDING_S: Final = 5.0
_SIZE_BYTES: Final = 8  # of a message's length, which goes before it


def available_cores() -> int:
    """How many cores this process may run on: the workers by default."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def finished_by_processes(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Finished]]:
    """Every job with its row, in the order in which they are finished. Closing the iterator ends the workers.

    A file whose worker dies is read once more when all others are finished, by one worker that has the machine to
    itself; if that one dies as well, its row says so.
    """
    waiting, again = deque(jobs), deque[Job]()
    with _Crew() as crew:
        while waiting or crew.busy:
            crew.start(min(workers, len(waiting) + len(crew.busy)))
            for worker in crew.idle:
                if waiting:
                    worker.give(waiting.popleft())
            for job, finished, _ in crew.results():
                if finished is None:
                    again.append(job)
                else:
                    yield job, finished
        while again or crew.busy:
            crew.start(1)
            if again and not crew.busy:
                crew.idle[0].give(again.popleft())
            for job, finished, why in crew.results():
                yield job, finished or Finished(row=lost_row(job, f"its worker {why}, twice{_likely(why)}"))


def lost_row(job: Job, why: str) -> RankRow:
    """The row of a file that nobody could finish."""
    return msgspec.structs.replace(bare_row(job.file), error=why, error_kind=LOST_WORKER)


def _likely(why: str) -> str:
    return ": probably for want of memory" if "SIGKILL" in why else ""


class _Crew:
    """The workers that live. Leaving the ``with`` block ends them, whatever they are doing."""

    def __init__(self) -> None:
        self.workers: list[_Worker] = []
        self._fruitless = 0  # workers in a row that died before they were ready

    def __enter__(self) -> _Crew:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for worker in self.workers:
            worker.end()

    @property
    def busy(self) -> list[_Worker]:
        """Those that have a job."""
        return [worker for worker in self.workers if worker.job is not None]

    @property
    def idle(self) -> list[_Worker]:
        """Those that have none."""
        return [worker for worker in self.workers if worker.job is None]

    def start(self, count: int) -> None:
        """Start so many that there are ``count``, or as many as can be. LaunchscopeError when none can."""
        while len(self.workers) < count:
            if self._fruitless > count:
                raise LaunchscopeError("worker processes die as they start: is there memory for them?")
            try:
                self.workers.append(_Worker())
            except OSError as error:
                if self.workers:
                    return
                raise LaunchscopeError(f"no worker process can be started: {error.strerror or error}") from error

    def results(self) -> Iterator[tuple[Job, Finished | None, str]]:
        """Wait, and take what has come: rows, and None with the reason for each worker that died over its job."""
        poll = select.poll()
        for worker in self.workers:
            poll.register(worker.pipe, select.POLLIN)
        ready = {pipe for pipe, _ in poll.poll()}
        for worker in [worker for worker in self.workers if worker.pipe in ready]:
            job = worker.job
            try:
                finished = worker.receive()
            except (EOFError, OSError, msgspec.DecodeError):
                self.workers.remove(worker)
                self._fruitless = 0 if worker.is_ready else self._fruitless + 1
                why = worker.last_words()
                if job is not None:
                    yield job, None, why
            else:
                if finished is not None and job is not None:
                    worker.job = None
                    yield job, finished, ""


class _Worker:
    """One process, and the job that it has."""

    def __init__(self) -> None:
        self.job: Job | None = None
        self.is_ready = False
        self._incoming = bytearray()
        self.pipe, its_end = os.pipe()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({its_end})"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.PIPE,
                stdout=subprocess.DEVNULL,
                pass_fds=(its_end,),
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        except OSError:
            os.close(self.pipe)
            raise
        finally:
            os.close(its_end)

    def give(self, job: Job) -> None:
        """Let it finish a job."""
        assert self._process.stdin is not None
        self.job = job
        with contextlib.suppress(OSError):  # it has died, which ``receive`` finds, too
            self._process.stdin.write(_framed(_to_bytes(job)))
            self._process.stdin.flush()

    def receive(self) -> Finished | None:
        """What came in whole, if anything has. EOFError when it has died."""
        data = os.read(self.pipe, _PIPE_BYTES)
        if not data:
            raise EOFError
        self._incoming += data
        for message in self._messages():
            if self.is_ready:
                return from_bytes(message, Finished)
            self.is_ready = True
        return None

    def _messages(self) -> Iterator[bytes]:
        """Those that came in whole."""
        while len(self._incoming) >= _SIZE_BYTES:
            end = _SIZE_BYTES + int.from_bytes(self._incoming[:_SIZE_BYTES], "little")
            if len(self._incoming) < end:
                return
            message = bytes(self._incoming[_SIZE_BYTES:end])
            del self._incoming[:end]
            yield message

    def last_words(self) -> str:
        """How it ended, of one whose pipe is closed: that happens a moment before."""
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(_ENDING_S)
        status = self._process.poll()
        self.end()
        if status is None:
            return "no longer answers"
        return f"was ended by {signal.Signals(-status).name}" if status < 0 else f"ended with exit code {status}"

    def end(self) -> None:
        """End it, whatever it is doing."""
        self._process.kill()
        self._process.wait()
        assert self._process.stdin is not None
        with contextlib.suppress(OSError):
            self._process.stdin.close()
        with contextlib.suppress(OSError):
            os.close(self.pipe)


def serve(pipe: int) -> None:
    """In a worker: finish jobs from stdin, one at a time. Rows go out by ``pipe``: anything may print on stdout.

    It was started afresh, not forked, since the caller may hold threads or a CUDA context, and ends with the caller.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told by the caller, who then ends this
    leave_other_cores()
    jobs: queue.SimpleQueue[bytes] = queue.SimpleQueue()
    threading.Thread(target=_take, args=(sys.stdin.buffer, jobs), daemon=True).start()
    with os.fdopen(pipe, "wb") as results:
        results.write(_framed(b""))  # ready
        results.flush()
        while True:
            finished = finish(_from_bytes(jobs.get()))
            results.write(_framed(to_bytes(finished)))
            results.flush()


def _take(stream: BinaryIO, jobs: queue.SimpleQueue[bytes]) -> None:
    """Take jobs as they come in; the end of the stream is the end of the process."""
    while size := int.from_bytes(stream.read(_SIZE_BYTES), "little"):
        jobs.put(stream.read(size))
    os._exit(0)


def _framed(message: bytes) -> bytes:
    return len(message).to_bytes(_SIZE_BYTES, "little") + message


def _to_bytes(job: Job) -> bytes:
    """A path may hold bytes that are no UTF-8."""
    file = msgspec.structs.replace(job.file, path="")
    return msgspec.msgpack.encode((os.fsencode(job.file.path), msgspec.structs.replace(job, file=file)))


def _from_bytes(message: bytes) -> Job:
    path, job = msgspec.msgpack.decode(message, type=tuple[bytes, Job])
    return msgspec.structs.replace(job, file=msgspec.structs.replace(job.file, path=os.fsdecode(path)))
