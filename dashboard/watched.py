"""The files that the page shows: read once at the start, so it can tell when they are not the same any more."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Final

from ..analysis.model.capture import MANIFEST, is_being_written
from ..analysis.model.errors import UnreadableInput, one_line
from ..analysis.model.paths import exists, is_file, is_folder
from ..analysis.model.trace import utf8_text

MOST_FILES: Final = 256
"""Files of one folder that are watched; a look at as many takes about a millisecond."""

State = tuple[int, ...] | None
"""What tells whether a file is the one it was; None where there is none."""


@dataclass(frozen=True)
class Watched:
    """Each file and folder with its state before it was read, and the captures that were still being written then."""

    states: tuple[tuple[Path, State], ...]
    unfinished: tuple[Path, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Watched:
        """As they are now; of a folder also what lies in it, and its manifest, which may be yet to come."""
        named = [path for path in paths if is_file(path) or is_folder(path)]  # a pipe changes as it is read
        states = tuple((file, _state(file)) for path in named for file in _files(path))
        return cls(states, tuple(path for path in named if is_being_written(path)))

    def problem(self) -> str | None:
        """What is wrong with them, in words; None while all is well."""
        for path, before in self.states:
            now = _state(path)
            if now is None and before is not None:
                return f"{_name(path)} is gone; the page shows what was read from it before"
            if now != before:
                again = "start launchscope dashboard again to see it as it is now"
                return f"{_name(path)} has changed since it was read; {again}"
        if self.unfinished:
            return (
                f"{_name(self.unfinished[0])} was still being written by launchscope profile: the page shows the traces"
                " that were there, without what else was measured"
            )
        return None


def _files(path: Path) -> Iterator[Path]:
    yield path
    if is_folder(path):
        yield path / MANIFEST
        yield from islice(_below(path), MOST_FILES)


def _below(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def _state(path: Path) -> State:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode) and exists(path / MANIFEST):
            return (status.st_ino,)  # a capture: a report may be written beside its own files
    except (OSError, UnreadableInput):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _name(path: Path) -> str:
    return one_line(utf8_text(str(path)))
