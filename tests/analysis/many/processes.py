"""The worker processes that a test has started."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable
from pathlib import Path

PATIENCE_S = 30.0


def workers_of(process: int | None = None) -> list[int]:
    """Process ids of the workers below a process, by default this one."""
    children = list[str]()
    for task in Path(f"/proc/{process or os.getpid()}/task").iterdir():
        with contextlib.suppress(OSError):  # threads and processes end meanwhile
            children += (task / "children").read_text().split()
    return [int(child) for child in children if b"many.worker" in _command(child)]


def _command(process: str) -> bytes:
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


def wait_for(what: Callable[[], object]) -> None:
    """Until it holds; AssertionError after half a minute."""
    until = time.monotonic() + PATIENCE_S
    while not what():
        assert time.monotonic() < until, "it never came to that"
        time.sleep(0.02)


def reader_of(path: Path, processes: Callable[[], list[int]]) -> int:
    """The one of these that reads the pipe, as soon as one does."""
    wait_for(lambda: any(is_reading(process, path) for process in processes()))
    return next(process for process in processes() if is_reading(process, path))


def is_reading(process: int, path: Path) -> bool:
    """Whether the process waits for a pipe to be written to, or has it open."""
    try:
        held = [str(entry.readlink()) for entry in Path(f"/proc/{process}/fd").iterdir()]
        waits_at = [(task / "wchan").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
        return str(path) in held or any("wait_for_partner" in where for where in waits_at)
    except OSError:
        return False
