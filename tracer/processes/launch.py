"""A profile of several ranks, started by torch's elastic agent in this process, or from within one of the ranks."""

from __future__ import annotations

import ctypes
import logging
import os
import signal
import sys
import tempfile
import uuid
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NoReturn

import msgspec

from ...analysis.model import errors
from ...analysis.model.errors import LaunchscopeError, RankFailed
from ..measure.device import CUDA, require_hardware
from ..target.options import ProfileOptions, Progress, no_progress
from .api import Interrupted, capture_path, run_profile
from .coordinator import Coordinator, follow, refuse
from .endings import (
    DONE,
    HANDLED,
    INTERRUPTED,
    Ended,
    Handlers,
    capture_of_ended,
    first_signal_interrupts,
    hangups_ignored,
    read_endings,
    set_handlers,
    what_is_kept,
)
from .exchange import Exchange, Lost
from .lead import lead
from .rank_options import Place, RanksOptions, place_from_environment
from .server import cuda_not_started

_PR_SET_PDEATHSIG: Final = 1  # linux/prctl.h
_SOMETHING_TO_FIX: Final = 2


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
    _require_distributed()
    if launch is not None:
        launch.require_endpoint()
        return _launched(replace(options, out=capture_path(options)), launch, progress, device_layer)
    place = place_from_environment()
    assert place is not None
    return _coordinate(options, place, progress, device_layer)


def _require_distributed() -> None:
    import torch

    if not torch.distributed.is_available():
        raise errors.MissingRequirement("torch is built without torch.distributed here, which several ranks need")


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
    if lost is not None and not any(each.how not in (DONE, INTERRUPTED) for each in ended.values()):
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
    kept = None if path is None else str(path)
    ended = Ended(rank=place.rank, host=place.host, how=how, message=message, path=kept)
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
    handler: Callable[[int, None], NoReturn] | Any = handlers.get(number)
    if callable(handler):
        try:
            handler(number, None)
        except KeyboardInterrupt:
            return
