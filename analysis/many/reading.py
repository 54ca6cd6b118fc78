"""One file's row: fetched, read, its figures found. Every worker calls this, wherever it runs."""

from __future__ import annotations

import contextlib
import os
import socket
import sys
import time
from pathlib import Path
from typing import Any, Final

import msgspec

from ..inputs.sources import Source
from ..model import __version__
from ..model.errors import LaunchscopeError, one_line
from ..model.freed_memory import no_collection
from ..model.trace import Trace, utf8_text
from ..profile.bare_traces import require_whole
from .carried import CarriedCollectives, carried
from .document import INTERNAL, LOST_WORKER, NOT_FETCHED, UNREADABLE, RankRow
from .figures import find_figures

_KIB: Final = 1 << 10


class Job(msgspec.Struct, frozen=True):
    """What a worker has to know to make a row; ``launchscope`` is the version of who asks."""

    file: Source
    step_regex: str | None = None
    strict: bool = False
    launchscope: str = __version__


class Finished(msgspec.Struct, frozen=True):
    """What comes back."""

    row: RankRow
    collectives: CarriedCollectives | None = None  # to compare with other ranks'


def finish(job: Job) -> Finished:
    """The row of one file. Whatever goes wrong with it is the row's error: nothing is raised."""
    file, own = job.file, None
    begun, begun_cpu = time.perf_counter(), time.process_time()
    row = bare_row(file)
    if job.launchscope != __version__:
        told = f"the worker has launchscope {__version__}, this is {job.launchscope}: install the same on both"
        return Finished(row=msgspec.structs.replace(row, error=told, error_kind=NOT_FETCHED))
    try:
        with no_collection(), file.at_hand() as here:
            fetch_seconds = None if here is file else time.perf_counter() - begun
            row, own = _read(job, row, here, fetch_seconds)
    except LaunchscopeError as error:  # of fetching it; the package may be absent where a worker runs
        row = _failed(row, str(error), NOT_FETCHED)
    except MemoryError:
        row = _failed(row, "out of memory: fewer workers leave more for each", LOST_WORKER)
    except OSError as error:  # of the temporary file
        row = _failed(row, f"can't be kept while it is read ({error.strerror or error})", NOT_FETCHED)
    row = msgspec.structs.replace(
        row,
        seconds=time.perf_counter() - begun,
        cpu_seconds=time.process_time() - begun_cpu,
        worker=_own_name(),
        worker_peak_bytes=peak_bytes(),
    )
    return Finished(row=row, collectives=own)


def _read(
    job: Job, row: RankRow, file: Source, fetch_seconds: float | None
) -> tuple[RankRow, CarriedCollectives | None]:
    """The row of a file at hand, and its collectives."""
    try:
        trace = file.open(cache=False)
        found = find_figures(_known(row, trace, fetch_seconds), trace, step_regex=job.step_regex)
        if job.strict:
            require_whole(trace, found.row.warnings)
        return found.row, carried(found)
    except LaunchscopeError as error:
        kind = NOT_FETCHED if isinstance(error.__cause__, OSError) else UNREADABLE  # a right may be given next time
        return _failed(row, str(error), kind), None
    except (MemoryError, OSError):
        raise
    except Exception as error:  # a bug here must not cost the other files' rows
        return _failed(row, f"internal error, {type(error).__name__}: {error} (please report it)", INTERNAL), None


def bare_row(file: Source) -> RankRow:
    """What is known of a file that nobody has read."""
    return RankRow(path=utf8_text(file.where), name=file.name, rank=file.rank, host=file.host, bytes=file.bytes)


def _known(row: RankRow, trace: Trace, fetch_seconds: float | None) -> RankRow:
    known: dict[str, Any] = {"fetch_seconds": fetch_seconds, "world_size": trace.world_size}
    if trace.rank is not None:
        known["rank"] = trace.rank
    return msgspec.structs.replace(row, **known)


def _failed(row: RankRow, why: str, kind: str) -> RankRow:
    return msgspec.structs.replace(row, error=utf8_text(one_line(why)).removeprefix(f"{row.path}: "), error_kind=kind)


def _own_name() -> str:
    return f"{socket.gethostname()}:{os.getpid()}"


def peak_bytes() -> int | None:
    """The most memory that this process has held so far; None where the system doesn't tell.

    Not ``ru_maxrss`` on Linux: a process begins with that of the one that started it.
    """
    with contextlib.suppress(OSError, ValueError, StopIteration):
        lines = Path("/proc/self/status").read_text().splitlines()
        return int(next(line for line in lines if line.startswith("VmHWM:")).split()[1]) * _KIB
    try:
        import resource
    except ImportError:  # Windows
        return None
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * _KIB
