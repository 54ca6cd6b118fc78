"""The table of ranks of many files: each one's row, how the figures lie, and what stands out."""

from __future__ import annotations

import hashlib
import os
import tempfile
import time
from collections.abc import Callable, Generator, Sequence
from contextlib import closing, suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from ..inputs.sources import Sources
from ..model import __version__
from ..model.errors import LaunchscopeError, UnreadableInput
from ..model.paths import is_file, natural_order
from ..model.secrets import comparable
from ..model.trace import utf8_text
from ..profile.analysed_traces import skipped_files
from .across import compared
from .document import UNREADABLE, RankRow, RanksDocument
from .one_file import Finished, Job, bare_row, from_bytes, to_bytes
from .outliers import distributions, outliers
from .pool import available_cores, finished_by_processes

Progress = Callable[[int, int, RankRow], None]
"""Told of each row as it is finished: (rows so far, of how many, the row)."""

_UNKNOWN_RANK: Final = 1 << 62


class Stopped(KeyboardInterrupt):
    """Ctrl-C in the middle; ``finished`` of ``total`` rows had been made."""

    def __init__(self, finished: int, total: int) -> None:
        super().__init__()
        self.finished, self.total = finished, total


def analyze_ranks(
    found: Sources,
    *,
    step_regex: str | None = None,
    strict: bool = False,
    workers: int | None = None,
    dask: str | None = None,
    resume: Path | None = None,
    progress: Progress | None = None,
) -> RanksDocument:
    """Read every trace that was found, and put their rows side by side.

    ``workers`` processes of this machine, one for each core by default, or those of the Dask scheduler at ``dask``,
    read one file at a time each. ``resume`` is a folder that keeps finished rows for the next run. UnreadableInput for
    a capture; what is wrong with a file is its row's error.
    """
    begun = time.perf_counter()
    jobs = [Job(file, step_regex=step_regex, strict=strict) for file in found.traces]
    count = min(workers or available_cores(), max(len(jobs), 1))
    kept = None if resume is None else KeptRows(resume)
    done: dict[Job, Finished] = {}
    if kept is not None:
        done = {job: row for job in jobs if (row := kept.find(job)) is not None}
    resumed = set(done)
    try:
        with closing(_finished([job for job in jobs if job not in done], count, dask)) as results:
            for job, finished in results:
                if kept is not None:
                    kept.keep(job, finished)
                done[job] = finished
                if progress is not None:
                    progress(len(done), len(jobs), finished.row)
    except KeyboardInterrupt as error:
        raise Stopped(len(done), len(jobs)) from error
    ordered = sorted((done[job] for job in jobs), key=lambda each: _order(each.row))
    collectives = {place: each.collectives for place, each in enumerate(ordered) if each.collectives is not None}
    rows, alignment = compared([each.row for each in ordered], collectives)
    world_size, known = _world_size(rows), distributions(rows)
    return RanksDocument(
        launchscope=__version__,
        inputs=list(found.named),
        seconds=time.perf_counter() - begun,
        workers=len({each.row.worker for job, each in done.items() if job not in resumed}),
        resumed=len(resumed),
        skipped=skipped_files(found.skipped),
        world_size=world_size,
        missing_ranks=_missing(rows, world_size),
        alignment=alignment,
        distributions=known,
        odd=outliers(rows, known),
        rows=rows,
    )


def _finished(jobs: Sequence[Job], workers: int, dask: str | None) -> Generator[tuple[Job, Finished]]:
    """Each job and its row, by whoever is to make it."""
    if dask is not None:
        from .pool import finished_by_dask

        yield from finished_by_dask(jobs, dask)
        return
    yield from finished_by_processes(jobs, workers)


def _order(row: RankRow) -> tuple[int, list[tuple[int, str]]]:
    """By rank, those without one behind."""
    return (_UNKNOWN_RANK if row.rank is None else row.rank, natural_order(row.path))


def _world_size(rows: Sequence[RankRow]) -> int | None:
    """What the files agree on."""
    sizes = {row.world_size for row in rows if row.world_size is not None}
    return sizes.pop() if len(sizes) == 1 else None


def _missing(rows: Sequence[RankRow], world_size: int | None) -> list[int]:
    """Ranks without a file, as far as the world's size, else the highest rank, tells."""
    there = {row.rank for row in rows if row.rank is not None}
    if not there:
        return []
    return sorted(set(range(world_size or max(there) + 1)) - there)


_SUFFIX: Final = ".row"
_ANALYSIS: Final = Path(__file__).parents[1]


class _Kept(msgspec.Struct, frozen=True):
    """One entry: ``key`` as text, so that a person can see what it is of."""

    key: list[str | int | bool | None]
    finished: Finished


class KeptRows:
    """The folder, made where there is none. LaunchscopeError when it can't be."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=folder):
                pass
        except OSError as error:
            raise LaunchscopeError(
                f"{folder}: can't be written: {error.strerror}; name another for --resume"
            ) from error

    def find(self, job: Job) -> Finished | None:
        """The row of the file as it is now, where an earlier run finished it."""
        key = _key(job)
        with suppress(OSError, UnreadableInput, msgspec.DecodeError):
            place = self._place(key)
            if not is_file(place):  # a pipe that somebody put there has no end
                return None
            kept = from_bytes(place.read_bytes(), _Kept)
            if kept.key == key and _names(kept.finished.row) == _names(bare_row(job.file)):
                return kept.finished
        return None

    def keep(self, job: Job, finished: Finished) -> None:
        """Keep it, unless another try may go better. LaunchscopeError when it can't be written."""
        if finished.row.error is not None and finished.row.error_kind != UNREADABLE:
            return
        key = _key(job)
        try:
            self._write(self._place(key), to_bytes(_Kept(key, finished)))
        except OSError as error:
            raise LaunchscopeError(
                f"{self._folder}: finished rows can't be kept: {error.strerror}; give --resume a folder with room"
            ) from error

    def _place(self, key: list[str | int | bool | None]) -> Path:
        digest = hashlib.blake2b(msgspec.msgpack.encode(key), digest_size=16).hexdigest()
        return self._folder / f"{digest}{_SUFFIX}"

    def _write(self, place: Path, content: bytes) -> None:
        descriptor, partial = tempfile.mkstemp(dir=self._folder, suffix=".partial")
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            Path(partial).replace(place)
        finally:
            Path(partial).unlink(missing_ok=True)


def _names(row: RankRow) -> tuple[str, str]:
    """What of a row leads to its file: that is known, and not for the folder to say."""
    return row.path, row.name


def _key(job: Job) -> list[str | int | bool | None]:
    """All that a row depends on."""
    file = job.file
    path = comparable(file.path) if file.kind == "stored" else os.path.realpath(file.path)
    return [
        utf8_text(path),
        file.member,
        file.name,
        file.bytes,
        file.version,
        job.step_regex,
        job.strict,
        __version__,
        _code(),
    ]


@cache
def _code() -> str:
    """A digest of the code that makes rows: a version under development changes without a new number."""
    digest = hashlib.blake2b(digest_size=8)
    for source in sorted(_ANALYSIS.rglob("*.py")):
        with suppress(OSError):
            digest.update(source.read_bytes())
    return digest.hexdigest()
