"""The parent's side of the fork server: start it, give it jobs one at a time, end it and all its children."""

from __future__ import annotations

import os
import select
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Final, Self, TypeVar

import msgspec

from ...analysis.model.errors import MissingRequirement
from .server import STOP, Event, Request, stacks_of

_GRACE_S: Final = 10.0
_MEANWHILE_S: Final = 0.25  # how often a wait lets its caller look elsewhere

Found = TypeVar("Found")
Meanwhile = Callable[[], None]
"""Called again and again during a wait."""


class ProcessFailed(Exception):
    """A child process died, failed or was stopped; the message says how."""

    def __init__(self, message: str, kept: bytes | None = None, end: Event | None = None, stacks: str = "") -> None:
        super().__init__(message)
        self.kept = kept  # what it had found, as JSON
        self.timed_out = end is not None and end.timed_out
        self.stopped = end is not None and end.stopped  # by ForkServer.stop
        self.stacks = stacks  # of its threads, of one that outlived its time


class ForkServer:
    """Fresh processes on demand; a context manager that leaves none behind. ``preload`` names what they import,
    ``environment`` holds variables of theirs alone. ``meanwhile`` is called four times a second while it waits.

    Compiled kernels are cached in a folder of its own, so that a compile time is one from a cold cache.
    """

    def __init__(
        self, preload: Sequence[str], environment: Mapping[str, str] | None = None, meanwhile: Meanwhile | None = None
    ) -> None:
        self._preload = preload
        self._environment = dict(environment or {})
        self._meanwhile = meanwhile
        self.preload_s = 0.0

    def __enter__(self) -> Self:
        self._scratch = tempfile.TemporaryDirectory(prefix="launchscope-", ignore_cleanup_errors=True)
        caches = {
            "TORCHINDUCTOR_CACHE_DIR": str(Path(self._scratch.name, "inductor")),
            "TRITON_CACHE_DIR": str(Path(self._scratch.name, "triton")),
        }
        reading, writing = os.pipe()
        self._process = subprocess.Popen(
            # -P: the current folder's own modules must not take the place of installed ones
            [sys.executable, "-P", "-m", "launchscope.tracer.processes.server", str(writing), *self._preload],
            stdin=subprocess.PIPE,
            stdout=2,
            pass_fds=(writing,),
            start_new_session=True,  # Ctrl-C reaches us alone, and we decide
            env=os.environ | caches | self._environment,
        )
        os.close(writing)
        self._events = reading
        self._pending = b""
        self._jobs = 0
        try:
            event = self._next_event()
        except BaseException:  # Ctrl-C while torch is imported
            self._process.kill()
            self.__exit__()
            raise
        if event is None:
            self.__exit__()
            raise MissingRequirement("torch can't be imported; what it printed stands above")
        self.preload_s = event.seconds
        return self

    def run(
        self, function: str, argument: object, kind: type[Found], timeout_s: float, tell: Callable[[str], None]
    ) -> Found:
        """One job in a fresh process: its result as ``kind``. ProcessFailed when it left none."""
        self._jobs += 1
        result = Path(self._scratch.name, f"result-{self._jobs}.json")
        request = Request(
            function=function,
            argument=msgspec.Raw(msgspec.json.encode(argument)),
            result=str(result),
            timeout_s=timeout_s,
        )
        self._say(msgspec.json.encode(request))
        done = False
        while (event := self._next_event()) is not None:
            done |= event.done
            if event.phase is not None:
                tell(event.phase)
            if event.end:
                kept = result.read_bytes() if result.is_file() else None
                if event.error is not None:
                    raise ProcessFailed(event.error, kept, event, _read(stacks_of(result)))
                if not done or kept is None:  # os._exit(0), in the target or in a library of it
                    raise ProcessFailed("ended itself before it was done, with exit status 0", kept)
                return msgspec.json.decode(kept, type=kind)
        raise ProcessFailed(f"the process that starts the others is gone (exit status {self._process.poll()})")

    def stop(self) -> None:
        """End the job that runs; ``run`` raises ProcessFailed. To be called from ``meanwhile``."""
        self._say(STOP)

    def _say(self, line: bytes) -> None:
        """A server that is gone is noticed by its events, which end."""
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.write(line + b"\n")
            self._process.stdin.flush()

    def _next_event(self) -> Event | None:
        while b"\n" not in self._pending:
            while self._meanwhile is not None and not select.select([self._events], [], [], _MEANWHILE_S)[0]:
                self._meanwhile()
            received = os.read(self._events, 1 << 16)
            if not received:
                return None
            self._pending += received
        line, _, self._pending = self._pending.partition(b"\n")
        return msgspec.json.decode(line, type=Event)

    def __exit__(self, *exception: object) -> None:
        assert self._process.stdin is not None
        with suppress(BrokenPipeError):
            self._process.stdin.close()  # the server kills its child and ends
        try:
            with suppress(subprocess.TimeoutExpired):
                self._process.wait(_GRACE_S)
        finally:  # a signal to end may come meanwhile, and a coordinator of ranks leaves nothing to atexit
            if self._process.poll() is None:
                os.killpg(self._process.pid, signal.SIGKILL)
                self._process.wait()
            os.close(self._events)
            self._scratch.cleanup()


def _read(file: Path) -> str:
    with suppress(OSError):
        return file.read_text(errors="replace")
    return ""
