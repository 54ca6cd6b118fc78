"""The files that the page shows: read once at the start, so it can tell when they are not the same any more."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Watched:
    """Each path with what told its state when it was read."""

    states: tuple[tuple[Path, tuple[int, int] | None], ...]

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Watched:
        """As they are now; a folder by itself and its manifest."""
        files = [file for path in paths for file in (path, path / "manifest.json") if file.exists()]
        return cls(tuple((file, _state(file)) for file in files))

    def problem(self) -> str | None:
        """What happened to them since, in words; None while they are the same."""
        for path, before in self.states:
            now = _state(path)
            if now is None:
                return f"{path} is gone; the page shows what was read from it before"
            if now != before:
                return f"{path} has changed since it was read; start launchscope dashboard again to see it as it is now"
        return None


def _state(path: Path) -> tuple[int, int] | None:
    try:
        status = path.stat()
    except OSError:
        return None
    return status.st_mtime_ns, status.st_size
