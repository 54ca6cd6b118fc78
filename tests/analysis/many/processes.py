"""The worker processes that a test has started."""

from __future__ import annotations

import contextlib
import os
import signal
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
    return [int(child) for child in children if b"many.pool" in _command(child)]


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


def kill_reader(path: Path, processes: Callable[[], list[int]]) -> None:
    """Kill the one of these that reads the pipe, as soon as one does, and wait until it has let go of the pipe.

    A kill takes a moment: what is written before that goes to the one that dies, and nobody reads it.
    """
    wait_for(lambda: any(is_reading(process, path) for process in processes()))
    reader = next(process for process in processes() if is_reading(process, path))
    os.kill(reader, signal.SIGKILL)
    wait_for(lambda: _has_ended(reader))


def _has_ended(process: int) -> bool:
    """Whether none of its threads runs any more, though nobody may have waited for it."""
    tasks = Path(f"/proc/{process}/task")
    with contextlib.suppress(OSError):  # threads end meanwhile
        states = [(task / "stat").read_text().rpartition(")")[2].split()[0] for task in tasks.iterdir()]
        return all(state in "ZX" for state in states)
    return not tasks.exists()


def is_reading(process: int, path: Path) -> bool:
    """Whether the process waits for a pipe to be written to, or has it open."""
    try:
        held = [str(entry.readlink()) for entry in Path(f"/proc/{process}/fd").iterdir()]
        waits_at = [(task / "wchan").read_text() for task in Path(f"/proc/{process}/task").iterdir()]
        return str(path) in held or any("wait_for_partner" in where for where in waits_at)
    except OSError:
        return False
