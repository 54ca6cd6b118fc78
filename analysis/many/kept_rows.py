"""A folder of finished rows: a run that was stopped, however that was, goes on where it was.

One file per row, there whole or not at all, by a digest of what the row depends on: the file's path, size and version,
how it is read, and the code that reads it. Whatever is not sound is read anew.
"""

from __future__ import annotations

import hashlib
import os
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

import msgspec

from ..model import __version__
from ..model.errors import LaunchscopeError, UnreadableInput
from ..model.paths import is_file
from ..model.secrets import comparable
from ..model.trace import utf8_text
from .document import UNREADABLE, RankRow
from .one_file import Finished, Job, bare_row, from_bytes, to_bytes

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
