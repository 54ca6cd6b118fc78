"""The workers of a Dask scheduler: the same function as on one machine, submitted; they read from storage themselves.

Nothing here schedules: Dask gives the files of a worker that is lost to the others, and says when one file has cost too
many of them (``distributed.scheduler.allowed-failures``).
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
from .pool import lost_row

if TYPE_CHECKING:
    from distributed import Client

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
