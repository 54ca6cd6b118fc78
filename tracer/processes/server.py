"""A process that has imported torch once and forks a fresh child per job, before CUDA starts in any of them.

    python -P -m launchscope.tracer.processes.server EVENTS_FD [MODULE:NAME ...]

Jobs come as JSON lines on standard input; events go as JSON lines to EVENTS_FD. When standard input closes, however
the parent ended, every child's process group is killed. A child that outlives its time, or that a line ``stop`` ends,
is killed likewise. What a child leaves running in a group of its own becomes the server's child
(PR_SET_CHILD_SUBREAPER) and is killed too. If the server itself is killed, the kernel kills its children
(PR_SET_PDEATHSIG).
"""

from __future__ import annotations

import ctypes
import faulthandler
import os
import selectors
import signal
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from importlib import import_module
from pathlib import Path
from typing import Final, NoReturn

import msgspec

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_PR_SET_CHILD_SUBREAPER: Final = 36
_ASK_NVML: Final = "PYTORCH_NVML_BASED_CUDA_CHECK"
_POLL_S: Final = 0.05
_DUMP_S: Final = 0.5  # for a child to write its stacks
_OUTLIVED: Final = -1
_STOPPED: Final = -2
STOP: Final = b"stop"
"""The line that ends the child that runs; without one it is passed over."""


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """One job: ``function`` ('module:name') gets ``argument``, undecoded JSON, and a Channel.

    What it returns is written as JSON.
    """

    function: str
    argument: msgspec.Raw
    result: str  # file to write, whole or not at all
    timeout_s: float


class Event(msgspec.Struct, frozen=True, kw_only=True):
    """What the parent is told: first that the server is ready, then of each child what it does, until its end."""

    phase: str | None = None  # what the child does now
    done: bool = False  # its result is there, and all of it
    end: bool = False  # it ended; ``error`` says what went wrong, if anything
    error: str | None = None
    timed_out: bool = False
    stopped: bool = False  # by the parent
    seconds: float = 0.0  # that the preload took


class Channel:
    """How a job speaks to the parent: by phases, and by what it has found so far."""

    def __init__(self, events: int, result: str) -> None:
        self._events = events
        self._result = Path(result)

    def __call__(self, phase: str) -> None:
        _send(self._events, Event(phase=phase))

    def keep(self, found: object) -> None:
        """This is the result, should the process die now; written whole or not at all."""
        partial = self._result.with_suffix(".partial")
        partial.write_bytes(msgspec.json.encode(found))
        partial.rename(self._result)

    def done(self, found: object) -> None:
        """This is the result, and all of it."""
        self.keep(found)
        _send(self._events, Event(done=True))


def stacks_of(result: Path) -> Path:
    """The file beside a result with the stacks of a child that outlived its time."""
    return result.with_suffix(".stacks")


def serve(events: int, preload: list[str]) -> None:
    """Preload, then fork one child per request until standard input closes."""
    os.set_inheritable(events, False)
    ctypes.CDLL(None).prctl(_PR_SET_CHILD_SUBREAPER, 1)
    os.dup2(2, 1)  # whatever a target prints, at file-descriptor level too, must not reach the report on stdout
    began = time.perf_counter()
    with cuda_not_started():
        _preload(preload)
    _send(events, Event(seconds=time.perf_counter() - began))
    decode = msgspec.json.Decoder(Request).decode
    pending = b""
    while True:
        while b"\n" not in pending:
            received = os.read(0, 1 << 16)
            if not received:
                return
            pending += received
        line, _, pending = pending.partition(b"\n")
        if line == STOP:  # it came as the child ended by itself
            continue
        if not _one(decode(line), events):
            return


def _preload(names: list[str]) -> None:
    """Import what every child needs. A name that can't be imported is the target's own affair, later."""
    for name in names:
        module, _, attribute = name.partition(":")
        try:
            getattr(import_module(module), attribute) if attribute else import_module(module)
        except Exception as error:  # transformers' lazy modules raise RuntimeError, a broken torch OSError
            if name == "torch":
                sys.exit(f"launchscope: torch can't be imported: {error}")
            print(f"launchscope: {name} not preloaded: {error}", file=sys.stderr)


@contextmanager
def cuda_not_started() -> Iterator[None]:
    """Inside, to ask whether there are GPUs does not start CUDA here: no forked child could use it then."""
    before = os.environ.get(_ASK_NVML)
    os.environ[_ASK_NVML] = "1"
    try:
        yield
    finally:
        if before is None:
            del os.environ[_ASK_NVML]
        else:
            os.environ[_ASK_NVML] = before


def _one(request: Request, events: int) -> bool:
    """Run one child to its end; False when the parent is gone."""
    deadline = time.perf_counter() + request.timeout_s
    helpers = _children()  # of what was preloaded
    child = os.fork()
    if child == 0:
        _child(request, events)
    with suppress(ProcessLookupError, PermissionError):  # both sides set it: whoever comes first
        os.setpgid(child, child)
    status = _wait(child, deadline)
    _kill_orphans(helpers)
    if status is None:
        return False
    error = _how_it_ended(status, request.timeout_s)
    _send(events, Event(end=True, error=error, timed_out=status == _OUTLIVED, stopped=status == _STOPPED))
    return True


def _wait(child: int, deadline: float) -> int | None:
    """The child's wait status, _OUTLIVED or _STOPPED; null when the parent is gone. All is killed in each case.

    A child that outlives its time first writes where its threads are.
    """
    with selectors.DefaultSelector() as selector:
        selector.register(0, selectors.EVENT_READ)
        while True:
            ended, status = os.waitpid(child, os.WNOHANG)
            if ended:
                _kill_group(child)  # what the child itself left running
                return status
            if selector.select(_POLL_S):  # the parent sends nothing else during a job: to stop, or it closed its end
                said = os.read(0, 1 << 16)
                _kill_group(child)
                os.waitpid(child, 0)
                return _STOPPED if said else None
            if time.perf_counter() > deadline:
                os.kill(child, signal.SIGUSR2)
                time.sleep(_DUMP_S)
                _kill_group(child)
                os.waitpid(child, 0)
                return _OUTLIVED


def _how_it_ended(status: int, timeout_s: float) -> str | None:
    """What went wrong, null when the child ended as it should."""
    if status == _STOPPED:
        return "was stopped"
    if status == _OUTLIVED:
        return f"did not end within {timeout_s:g} s and was stopped (--timeout)"
    if os.WIFSIGNALED(status):
        number = os.WTERMSIG(status)
        why = " (out of host memory?)" if number == signal.SIGKILL else ""
        return f"died of signal {number} ({_signal_name(number)}){why}"
    code = os.waitstatus_to_exitcode(status)
    return f"failed with exit status {code}" if code else None


def _signal_name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return "real-time"


def _kill_group(child: int) -> None:
    with suppress(ProcessLookupError):
        os.killpg(child, signal.SIGKILL)


def _kill_orphans(helpers: set[int]) -> None:
    """Kill and reap what ended children left behind; killing one can hand us its own children."""
    while orphans := _children() - helpers:
        for pid in orphans:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def _children() -> set[int]:
    """Processes whose parent we are: field 4 of /proc/PID/stat, behind the command in parentheses."""
    found = set()
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit():
            with suppress(OSError):
                if int((entry / "stat").read_text(errors="replace").rpartition(")")[2].split()[1]) == os.getpid():
                    found.add(int(entry.name))
    return found


def _child(request: Request, events: int) -> NoReturn:
    os.setpgid(0, 0)
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    status = 1
    try:
        module, _, name = request.function.partition(":")
        function: Callable[..., object] = getattr(import_module(module), name)
        channel = Channel(events, request.result)
        faulthandler.register(signal.SIGUSR2, stacks_of(Path(request.result)).open("w"))
        channel.done(function(bytes(request.argument), channel))
        status = 0
    except BaseException:
        import traceback

        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(status)  # no interpreter shutdown: what the target registered to run at exit is not ours to run


def _send(events: int, event: Event) -> None:
    with suppress(BrokenPipeError):
        os.write(events, msgspec.json.encode(event) + b"\n")


if __name__ == "__main__":
    serve(int(sys.argv[1]), sys.argv[2:])
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(0)  # taking down what was preloaded costs torch a second, and nobody anything when it is left out
