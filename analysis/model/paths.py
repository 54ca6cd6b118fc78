"""What lies at a path that a person gave, and how much it may hold: the one way to ask, for every command.

``Path.is_dir()`` and its kind answer no where they can't tell, or raise, by the version of Python. Here whatever keeps
a path from being looked at is an UnreadableInput: no right to, a name too long, links in a circle, a null character.
"""

from __future__ import annotations

import os
import re
import stat
from pathlib import Path
from typing import Final

from .errors import UnreadableInput

SMALL_BYTES: Final = 64 << 20  # of a configuration, a baseline, a list of batch sizes: a few KB each

_NUMBER: Final = re.compile(r"([0-9]+)")


def natural_order(name: str) -> list[tuple[int, str]]:
    """A key that sorts rank_2 before rank_10."""
    return [(int(part), "") if part.isdecimal() and part.isascii() else (-1, part) for part in _NUMBER.split(name)]


def status(path: Path) -> os.stat_result | None:
    """Of what the path leads to, through links; None where there is nothing."""
    try:
        return path.stat()
    except (FileNotFoundError, NotADirectoryError):
        return None
    except (OSError, ValueError) as error:
        raise unreadable(path, error) from error


def exists(path: Path) -> bool:
    """Whether anything is there."""
    return status(path) is not None


def is_folder(path: Path) -> bool:
    """Whether a folder is there."""
    found = status(path)
    return found is not None and stat.S_ISDIR(found.st_mode)


def is_file(path: Path) -> bool:
    """Whether a regular file is there: no folder, pipe or device."""
    found = status(path)
    return found is not None and stat.S_ISREG(found.st_mode)


def is_device(path: Path) -> bool:
    """Whether a device is there, which may give bytes without end."""
    found = status(path)
    return found is not None and (stat.S_ISCHR(found.st_mode) or stat.S_ISBLK(found.st_mode))


def listed(folder: Path) -> list[Path]:
    """What lies in a folder, in no order."""
    try:
        return list(folder.iterdir())
    except OSError as error:
        raise unreadable(folder, error) from error


def content(path: Path, most: int = SMALL_BYTES) -> bytes:
    """All of a file or pipe of at most so many bytes. UnreadableInput for nothing, a device and what is larger, too."""
    if not exists(path):
        raise UnreadableInput(f"{path}: no such file; check the path")
    if is_device(path):
        raise UnreadableInput(f"{path}: a device; give a file or a pipe")
    try:
        with path.open("rb") as file:
            found = file.read(most + 1)
    except OSError as error:
        raise unreadable(path, error) from error
    if len(found) > most:
        raise UnreadableInput(f"{path}: over {most >> 20:,} MiB, more than any such file has; check the path")
    return found


def unreadable(path: Path | str, error: OSError | ValueError) -> UnreadableInput:
    """What a path can't be looked at for. A ValueError is of a path that no system takes."""
    reason = getattr(error, "strerror", None) or error
    return UnreadableInput(f"{path}: can't be read ({reason}); check the path and its rights")


MAX_UNPACKED_BYTES: Final = 8 << 30
_ANY_RATIO_BYTES: Final = 64 << 20
_MOST_RATIO: Final = 200
"""Deflate can reach 1,032. Kineto files pack 8 to 35 times, the same indented by four up to 52 times."""


def most_unpacked(packed_bytes: int) -> int:
    """The most bytes that a file of this size may unpack to."""
    return min(max(_MOST_RATIO * packed_bytes, _ANY_RATIO_BYTES), MAX_UNPACKED_BYTES)


def user_cache() -> Path:
    """``$XDG_CACHE_HOME/launchscope``, else ``~/.cache/launchscope``; it may not exist. RuntimeError without a home.

    A relative XDG_CACHE_HOME counts as none: https://specifications.freedesktop.org/basedir-spec/latest/
    """
    named = Path(os.environ.get("XDG_CACHE_HOME", ""))
    return (named if named.is_absolute() else Path.home() / ".cache") / "launchscope"
