"""A profile of several ranks, started by torch's elastic agent in this process, or from within one of the ranks."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import socket
import sys
import tempfile
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import Any, Final, NoReturn

import msgspec

from ...analysis.model import errors
from ...analysis.model.errors import LaunchscopeError, RankFailed
from ..measure.device import CUDA, require_hardware
from ..target.options import Place, ProfileOptions, Progress, RanksOptions, no_progress, place_from_environment
from .api import Interrupted, capture_path, run_profile
from .coordinator import Coordinator, follow, lead, refuse
from .exchange import Exchange, Lost
from .server import cuda_not_started

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_SOMETHING_TO_FIX: Final = 2
INTERRUPTED: Final = "interrupted"
DONE: Final = "done"
HANDLED: Final = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP, signal.SIGQUIT)
"""Signals to end."""
Handlers = Mapping[signal.Signals, Any]
"""What a process does on each of them."""


def run_ranks(
    options: ProfileOptions, launch: RanksOptions | None, progress: Progress, device_layer: str = CUDA
) -> Path | None:
    """Measure the target on several ranks at once and keep it: the path of the capture.

    ``launch`` says how many are to be started here; null: this process is one of them already, as torchrun starts it.
    Null where rank 0, which keeps the capture, is another process or on another host. Raises as ``run_profile``, and
    RankFailed when one rank failed and others didn't.
    """
    if launch is not None and launch.world_size == 1:
        return run_profile(options, progress, device_layer)
    if device_layer == CUDA:
        require_hardware()
    import torch

    if not torch.distributed.is_available():
        raise errors.MissingRequirement("torch is built without torch.distributed here, which several ranks need")
    if launch is not None:
        launch.require_endpoint()
        return _launched(replace(options, out=capture_path(options)), launch, progress, device_layer)
    place = place_from_environment()
    assert place is not None
    return _coordinate(options, place, progress, device_layer)


def _coordinate(options: ProfileOptions, place: Place, progress: Progress, device_layer: str) -> Path | None:
    """Be a rank's coordinator until the run ends."""
    with first_signal_interrupts():
        try:
            exchange = Exchange(place, range(1, place.world_size) if place.rank == 0 else [0])
        except Lost as lost:
            raise RankFailed(str(lost)) from lost
        coordinator = Coordinator(place, exchange, device_layer)
        try:
            if place.rank == 0:
                return lead(coordinator, options, progress, device_layer)
            follow(coordinator, options)
        except errors.MissingRequirement as error:
            if place.rank:
                refuse(coordinator, str(error))
            raise
        except Lost as lost:
            raise RankFailed(f"{place.name}: {lost}") from lost
        finally:
            exchange.close()
    return None


def _launched(options: ProfileOptions, launch: RanksOptions, progress: Progress, device_layer: str) -> Path | None:
    """Be the elastic agent of this host until its coordinators have ended."""
    progress(f"starting {launch.nproc_per_node} of {launch.world_size} ranks")
    from torch.distributed.elastic.multiprocessing import SignalException
    from torch.distributed.elastic.multiprocessing.errors import ChildFailedError
    from torch.distributed.launcher.api import elastic_launch

    failures: Mapping[int, Any] = {}
    interrupted, lost = False, None
    with tempfile.TemporaryDirectory(prefix="launchscope-ranks-") as folder:
        sys.stdout.flush()
        sys.stderr.flush()
        with _quiet(), _handlers_restored() as handlers:

            def coordinator() -> None:
                _forked(options, progress, device_layer, Path(folder), handlers)

            try:
                elastic_launch(_config(launch, folder), coordinator)()
            except ChildFailedError as error:
                failures = error.failures
            except SignalException as stopped:
                interrupted = True
                _as_before(handlers, stopped.sigval)
            except KeyboardInterrupt:
                interrupted = True
            except Exception as error:  # of the rendezvous: each of its backends has its own
                lost = f"{type(error).__name__}: {error}"
        ended = {each.rank: each for each in read_endings(Path(folder))}
    if lost is not None and not any(each.failed for each in ended.values()):
        if not ended:
            raise LaunchscopeError(f"the ranks can't be started: {lost}")
        raise RankFailed(f"the other hosts can't be reached any more: {lost}{what_is_kept(ended.get(0))}")
    return capture_of_ended(ended, failures, interrupted)


def _config(launch: RanksOptions, folder: str) -> Any:
    """What the elastic launcher is told: torchrun's defaults, and for one host a free port of its own."""
    from torch.distributed.elastic.multiprocessing import DefaultLogsSpecs
    from torch.distributed.launcher.api import LaunchConfig

    alone = launch.nnodes == 1 and launch.rdzv_endpoint is None
    static = launch.rdzv_backend == "static"
    more: dict[str, Any] = {}
    if hangups_ignored() and "signals_to_handle" in LaunchConfig.__dataclass_fields__:  # not in every torch
        more["signals_to_handle"] = "SIGTERM,SIGINT,SIGQUIT"
    with cuda_not_started():
        return LaunchConfig(
            min_nodes=launch.nnodes,
            max_nodes=launch.nnodes,
            nproc_per_node=launch.nproc_per_node,
            run_id=launch.rdzv_id or (uuid.uuid4().hex if alone else "none"),
            rdzv_backend=launch.rdzv_backend,
            rdzv_endpoint=launch.rdzv_endpoint or ("localhost:29500" if static else "localhost:0"),
            rdzv_configs={"rank": launch.node_rank or 0} if static else {},
            local_addr=launch.local_addr or ("localhost" if alone else None),
            max_restarts=0,
            start_method="fork",
            logs_specs=DefaultLogsSpecs(log_dir=folder),
            **more,
        )


def _forked(options: ProfileOptions, progress: Progress, device_layer: str, folder: Path, handlers: Handlers) -> None:
    """A coordinator in a fork of the agent: it leaves word of how it ended, and ends badly if it did."""
    ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)  # instead of torch's SIGINT
    set_handlers(handlers)  # the agent's are not for this process
    place = place_from_environment()
    assert place is not None
    how, message, path = DONE, "", None
    try:
        path = _coordinate(options, place, progress if place.rank == 0 else no_progress, device_layer)
    except Interrupted as stopped:
        how, path = INTERRUPTED, stopped.capture
    except KeyboardInterrupt:
        how = INTERRUPTED
    except LaunchscopeError as error:
        how, message = type(error).__name__, str(error)
    except BaseException:
        import traceback

        how, message = "internal", traceback.format_exc()
    set_handlers(dict.fromkeys(handlers, signal.SIG_IGN))  # there is nothing left to interrupt
    ended = Ended(rank=place.rank, how=how, message=message, path=None if path is None else str(path))
    (folder / f"ended-{place.rank}.json").write_bytes(msgspec.json.encode(ended))
    set_handlers(dict.fromkeys(handlers, signal.SIG_DFL))  # all is said, and the agent may end this at any time
    if how != DONE:
        os._exit(_SOMETHING_TO_FIX)  # an agent whose workers failed does not wait for those of other hosts


@contextmanager
def _quiet() -> Iterator[None]:
    """What the launcher logs is told by ourselves, once."""
    before = logging.root.manager.disable
    logging.disable(logging.CRITICAL)
    try:
        yield
    finally:
        logging.disable(before)


@contextmanager
def _handlers_restored() -> Iterator[Handlers]:
    """The launcher takes over what signals do, and does not give it back."""
    before: Handlers = {number: signal.getsignal(number) for number in HANDLED}
    try:
        yield before
    finally:
        set_handlers(before)


def _as_before(handlers: Handlers, number: signal.Signals) -> None:
    """Do with a signal what would have been done without the launcher, but for ending: the exit code tells it."""
    handler = handlers.get(number)
    if callable(handler):
        with suppress(KeyboardInterrupt):
            handler(number, None)


class Ended(msgspec.Struct, frozen=True, kw_only=True):
    """How a coordinator ended, left in a file for the agent."""

    rank: int
    how: str  # DONE, INTERRUPTED, or the name of an error
    message: str = ""
    path: str | None = None  # of the capture

    @property
    def failed(self) -> bool:
        return self.how not in (DONE, INTERRUPTED)

    @property
    def error(self) -> Exception:
        kind: type[Exception] = getattr(errors, self.how, RuntimeError)
        return kind(self.message)


def capture_of_ended(ended: Mapping[int, Ended], failures: Mapping[int, Any], interrupted: bool) -> Path | None:
    """What the coordinators left, as if rank 0's had run in this process."""
    first = ended.get(0)
    path = None if first is None or first.path is None else Path(first.path)
    if interrupted:
        raise Interrupted(path)
    if first is not None and first.failed:
        raise first.error
    killed = next((rank for rank in failures if rank not in ended), None)
    if killed is not None:
        code = int(failures[killed].exitcode)
        how = f"signal {-code} ({signal.Signals(-code).name})" if code < 0 else f"exit status {code}"
        where = f"rank {killed} on {socket.gethostname()}"
        raise RankFailed(f"{where}: what coordinates it was ended by {how}{what_is_kept(first)}")
    if first is None or first.how == INTERRUPTED:  # by the agent, for another one; or rank 0 is elsewhere
        failed = next((each for each in ended.values() if each.failed), None)
        if failed is not None:
            raise failed.error
    if any(each.how == INTERRUPTED for each in ended.values()):
        raise Interrupted(path)
    return path


def what_is_kept(first: Ended | None) -> str:
    """The end of a message: where what was measured is."""
    kept = first is not None and first.path is not None
    return f"; what was measured until then is in {first.path}" if kept and first else "; nothing is kept"


def read_endings(folder: Path) -> list[Ended]:
    """Of the coordinators that left a file."""
    return [msgspec.json.decode(file.read_bytes(), type=Ended) for file in sorted(folder.glob("ended-*.json"))]


@contextmanager
def first_signal_interrupts() -> Iterator[None]:
    """Inside, the first signal to end raises KeyboardInterrupt, and later ones do nothing: a terminal's Ctrl-C comes
    twice, once by way of the launcher, and what was measured is to be kept."""
    before = {number: signal.getsignal(number) for number in HANDLED}
    if hangups_ignored():
        del before[signal.SIGHUP]

    def interrupt(_number: int, _frame: FrameType | None) -> NoReturn:
        for number in before:
            signal.signal(number, signal.SIG_IGN)
        raise KeyboardInterrupt

    for number in before:
        signal.signal(number, interrupt)
    try:
        yield
    except KeyboardInterrupt:
        raise  # and what follows is let be, too
    except BaseException:
        set_handlers(before)
        raise
    set_handlers(before)


def hangups_ignored() -> bool:
    """As nohup has it."""
    return signal.getsignal(signal.SIGHUP) == signal.SIG_IGN


def set_handlers(handlers: Handlers) -> None:
    """Do on each signal what was done before."""
    for number, handler in handlers.items():
        if handler is not None:  # not one of Python's
            signal.signal(number, handler)
