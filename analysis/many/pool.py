"""Worker processes of this machine, or the workers of a Dask scheduler: each finishes one file at a time.

One that dies costs a row at most. Not ``concurrent.futures``: there a process that is killed breaks the pool, and every
file that waits is lost. Dask's workers read from storage themselves, and nothing here schedules them: Dask gives the
files of a worker that is lost to the others, and says when one file has cost too many of them
(``distributed.scheduler.allowed-failures``).
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Iterator, Sequence
from concurrent.futures import CancelledError, ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

from ..model.errors import LaunchscopeError, MissingRequirement
from ..model.secrets import message_without_secrets, without_secrets
from .one_file import Finished, Job, finish

if TYPE_CHECKING:
    from distributed import Client

import os
import queue
import signal
import subprocess
import sys
import threading
from collections import deque
from multiprocessing.connection import Pipe, wait
from typing import TYPE_CHECKING

import msgspec

from ..inputs.readers.second_process import leave_other_cores
from .document import LOST_WORKER, RankRow
from .one_file import bare_row, from_bytes, to_bytes

if TYPE_CHECKING:
    from multiprocessing.connection import Connection  # Windows has none

_ENDING_S: Final = 5.0


def available_cores() -> int:
    """How many cores this process may run on: the workers by default."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def finished_by_processes(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, Finished]]:
    """Every job with its row, in the order in which they are finished. Closing the iterator ends the workers.

    A file whose worker dies is read once more when all others are finished, by one worker that has the machine to
    itself; if that one dies as well, its row says so.
    """
    waiting, again = deque(jobs), deque[Job]()
    with contextlib.closing(_Crew()) as crew:
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
                likely = ": probably for want of memory" if "SIGKILL" in why else ""
                yield job, finished or Finished(row=lost_row(job, f"its worker {why}, twice{likely}"))


def lost_row(job: Job, why: str) -> RankRow:
    """The row of a file that nobody could finish."""
    return msgspec.structs.replace(bare_row(job.file), error=why, error_kind=LOST_WORKER)


class _Crew:
    """The workers that live."""

    def __init__(self) -> None:
        self.workers: list[_Worker] = []
        self._fruitless = 0  # workers in a row that died before they were ready

    def close(self) -> None:
        """End them, whatever they are doing."""
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
        ready = wait([worker.connection for worker in self.workers])
        for worker in [worker for worker in self.workers if worker.connection in ready]:
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
        self.connection, its_end = Pipe()
        code = f"import sys; sys.path[:] = {sys.path!r}; from {__name__} import serve; serve({its_end.fileno()})"
        try:
            self._process = subprocess.Popen(
                [sys.executable, "-c", code],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                pass_fds=(its_end.fileno(),),
                env={**os.environ, "OPENBLAS_NUM_THREADS": "1", "OMP_NUM_THREADS": "1"},
            )
        except OSError:
            self.connection.close()
            raise
        finally:
            its_end.close()

    def give(self, job: Job) -> None:
        """Let it finish a job."""
        self.job = job
        with contextlib.suppress(OSError):  # it has died, which ``receive`` finds, too
            self.connection.send_bytes(_to_bytes(job))

    def receive(self) -> Finished | None:
        """The row that came in; null for the word that it is ready. EOFError or OSError when it has died."""
        message = self.connection.recv_bytes()
        if self.is_ready:
            return from_bytes(message, Finished)
        self.is_ready = True
        return None

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
        self.connection.close()


def serve(descriptor: int) -> None:
    """In a worker: finish jobs, one at a time, until the caller ends, however it does.

    It was started afresh, not forked, since the caller may hold threads or a CUDA context. Jobs and rows have a
    connection of their own: anything may print on stdout.
    """
    from multiprocessing.connection import Connection

    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is told by the caller, who then ends this
    leave_other_cores()
    connection, jobs = Connection(descriptor), queue.SimpleQueue[bytes]()
    threading.Thread(target=_take, args=(connection, jobs), daemon=True).start()
    connection.send_bytes(b"ready")
    while True:
        connection.send_bytes(to_bytes(finish(_from_bytes(jobs.get()))))


def _take(connection: Connection, jobs: queue.SimpleQueue[bytes]) -> None:
    """Take jobs as they come in; the end of the connection is the end of the process."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            jobs.put(connection.recv_bytes())
    os._exit(0)


def _to_bytes(job: Job) -> bytes:
    """A path may hold bytes that are no UTF-8."""
    file = msgspec.structs.replace(job.file, path="")
    return msgspec.msgpack.encode((os.fsencode(job.file.path), msgspec.structs.replace(job, file=file)))


def _from_bytes(message: bytes) -> Job:
    path, job = msgspec.msgpack.decode(message, type=tuple[bytes, Job])
    return msgspec.structs.replace(job, file=msgspec.structs.replace(job.file, path=os.fsdecode(path)))


_CONNECTING_S: Final = 20.0


def finished_by_dask(jobs: Sequence[Job], address: str) -> Iterator[tuple[Job, Finished]]:
    """Every job with its row, in the order in which they are finished. Closing the iterator gives up the rest.

    MissingRequirement without Dask here, LaunchscopeError where no scheduler answers, its workers lack launchscope, or
    it goes away in the middle.
    """
    with _connected(address) as client, _errors_of_the_cluster(address):
        from distributed import KilledWorker, as_completed

        waiting = {client.submit(finish, job, pure=False): job for job in jobs}
        again: list[Job] = []
        for future in as_completed(list(waiting), loop=client.loop):  # type: ignore[no-untyped-call]
            job = waiting.pop(future)
            try:
                yield job, future.result()
            except KilledWorker:  # over it, or over the file before it in the same worker
                again.append(job)
            future.release()  # the row's own memory on its worker
        for job in again:  # each by itself, so that no other file is blamed
            try:
                yield job, client.submit(finish, job, pure=False).result()
            except KilledWorker as error:
                why = f"{error.allowed_failures + 1} workers died over it, twice: probably for want of memory"
                yield job, Finished(row=lost_row(job, why))


@contextlib.contextmanager
def _errors_of_the_cluster(address: str) -> Iterator[None]:
    """LaunchscopeError where a worker lacks launchscope, or the scheduler goes away.

    Its futures are cancelled then, and its connections break.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        raise LaunchscopeError(
            f"{address}: a worker lacks the package {error.name}: install launchscope where its workers run"
        ) from error
    except (CancelledError, OSError) as error:
        raise LaunchscopeError(
            f"{without_secrets(address)}: the Dask cluster closed before every file was read; start one again (with "
            "--resume FOLDER the rows that are finished are kept)"
        ) from error


@contextlib.contextmanager
def _without_tracebacks() -> Iterator[None]:
    """Dask's client logs those of its reconnecting on stderr."""
    handlers = [(handler, handler.level) for handler in logging.getLogger("distributed").handlers]
    for handler, _ in handlers:
        handler.setLevel(logging.CRITICAL)
    try:
        yield
    finally:
        for handler, level in handlers:
            handler.setLevel(level)


@contextlib.contextmanager
def _connected(address: str) -> Iterator[Client]:
    try:
        from distributed import Client
    except ModuleNotFoundError as error:
        raise MissingRequirement(f"Dask needs the package {error.name}: pip install 'launchscope[cluster]'") from error
    try:
        with ThreadPoolExecutor(1) as apart:  # from a loop that runs in this thread, as in a notebook
            apart.submit(lambda: asyncio.run(asyncio.wait_for(_greet(address), _CONNECTING_S))).result()
        client = Client(address, timeout=_CONNECTING_S, set_as_default=False)  # type: ignore[no-untyped-call]
    except TimeoutError as error:
        raise LaunchscopeError(
            f"{without_secrets(address)}: no Dask scheduler answers within {_CONNECTING_S:g} s"
        ) from error
    except (OSError, ValueError, RuntimeError) as error:
        why = message_without_secrets(str(error), address)
        raise LaunchscopeError(f"{without_secrets(address)}: no Dask scheduler answers: {why}") from None
    with _without_tracebacks(), client:
        yield client


async def _greet(address: str) -> None:
    """Have the scheduler say what it is: a Client waits without end for one that takes a connection and is none."""
    from distributed.comm import connect  # type: ignore[attr-defined]
    from distributed.security import Security

    how = Security().get_connection_args("client")  # type: ignore[no-untyped-call]
    comm = await connect(address, timeout=_CONNECTING_S, **how)  # type: ignore[no-untyped-call]
    try:
        await comm.write({"op": "identity", "reply": True})
        await comm.read()
    finally:
        comm.abort()
