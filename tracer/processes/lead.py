"""The coordinator of rank 0: the run as with one process, each job of it told to the others and gathered from all."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from ...analysis.model import capture
from ...analysis.model.errors import (
    BadTarget,
    LaunchscopeError,
    MissingRequirement,
    NothingMeasured,
    RankFailed,
)
from ..measure.device import WITHOUT_A_GPU
from ..target.describe import without_hosts
from ..target.options import ProfileOptions, Progress
from ..target.reasons import nothing_measured
from .api import Interrupted, capture_path, preload
from .client import ForkServer
from .coordinator import END, Coordinator, Ending, Task, variables
from .exchange import Lost, connect
from .fault import Outcome, at_fault
from .rank_child import RankDevice, arrivals_key, job_store
from .run import Run, failed, in_turn
from .worker import Job, Result

_INTERRUPTED: Final = "interrupted"
_BYE_S: Final = 5.0  # for the others to read how the run ended, before a store that this process hosts is gone
_BYE_SOON_S: Final = 1.0  # the same where those of this host are interrupted, too


def lead(coordinator: Coordinator, options: ProfileOptions, progress: Progress, device_layer: str) -> Path:
    """Measure with all ranks and keep it; the path of the capture. Raises as ``run_profile``, and RankFailed."""
    writer = capture.CaptureWriter(capture_path(options))
    run = RanksRun(options, writer, progress, device_layer, coordinator)
    error: str | None = "rank 0 ended the run"
    try:
        with ForkServer(preload([options]), variables(coordinator.place), coordinator.check_others) as server:
            coordinator.use(server)
            progress("starting")
            in_turn([run], server)
        error = None
    except KeyboardInterrupt:
        error = _INTERRUPTED
        raise Interrupted(run.finish()) from None
    except (RankFailed, Lost) as failure:
        error = str(failure)
        raise RankFailed(f"{error}{_kept(run.finish())}") from failure
    except BaseException as failure:
        error = f"rank 0: {failure}" if isinstance(failure, LaunchscopeError) else error
        writer.discard()
        raise
    finally:
        _end(coordinator, error)
    path = run.finish()
    if path is None:
        raise NothingMeasured(nothing_measured({mode: run.error(mode) for mode in run.modes}))
    return path


def _kept(path: Path | None) -> str:
    return "; nothing had been measured" if path is None else f"; what was measured until then is in {path}"


def _end(coordinator: Coordinator, error: str | None) -> None:
    exchange = coordinator.exchange
    with suppress(Lost):
        exchange.put(END, msgspec.json.encode(Ending(error=error)))
        place = coordinator.place
        if error == _INTERRUPTED and place.local_world_size == place.world_size:  # as all are
            return
        deadline = time.monotonic() + (_BYE_SOON_S if error == _INTERRUPTED else _BYE_S)
        while coordinator.lost is None and time.monotonic() < deadline:
            if exchange.total("bye") >= place.world_size - 1:
                return
            exchange.raise_if_lost()
            time.sleep(0.02)


class RanksRun(Run):
    """One target's measurements on several ranks."""

    def __init__(
        self,
        options: ProfileOptions,
        writer: capture.CaptureWriter,
        progress: Progress,
        device_layer: str,
        coordinator: Coordinator,
    ) -> None:
        super().__init__(options, writer, progress, device_layer)
        self.ranks: tuple[capture.RankRecord, ...] = ()
        self._coordinator = coordinator
        self._exchange = coordinator.exchange
        self._jobs = 0
        self._hosts: dict[str, str] = {}

    def prepare(self, server: ForkServer) -> None:
        """Meet the others, then probe and calibrate this one's machine."""
        own, size = self._coordinator.probe(), self._coordinator.place.world_size
        others = [msgspec.json.decode(self._exchange.get(f"found/{rank}"), type=RankDevice) for rank in range(1, size)]
        found = [own, *others]
        _require_devices(found)
        self._hosts = _numbered([each.host for each in found])
        self.ranks = tuple(
            capture.RankRecord(
                rank=rank,
                local_rank=each.local_rank,
                host=self._hosts[each.host],
                device=each.device,
            )
            for rank, each in enumerate(found)
        )
        super().prepare(server)
        self.labels = (_label(self.ranks), *self.labels)

    def one(self, server: ForkServer, mode: str, repeat: int, trace_pass: str) -> None:
        """One fresh process on every rank."""
        name = self._name(mode, repeat, trace_pass)
        outcomes, arrived = self._run(
            self._job(mode, repeat, trace_pass), lambda phase: self.progress(f"{name}: {phase}")
        )
        faults = at_fault(outcomes, arrived)
        alone = bool(faults) and len(faults) < len(outcomes)
        if faults and not alone and not self.measured and outcomes[0].refused:
            raise BadTarget(f"{_named(self.options.target, outcomes[0])}")
        for outcome in outcomes:
            self._take_of(mode, repeat, outcome, faults[0] if alone else None)
        if self._coordinator.lost is not None:
            raise RankFailed(f"{name}: {self._coordinator.lost}")
        if alone:
            raise RankFailed(faults[0].message(name))

    def manifest(self) -> capture.Manifest:
        return msgspec.structs.replace(super().manifest(), ranks=self.ranks)

    def mask(self, text: str) -> str:
        return without_hosts(super().mask(text), self._hosts)

    def _run(self, job: Job, tell: Callable[[str], None]) -> tuple[list[Outcome], dict[int, int]]:
        """How the job ended on each rank, and how many barriers each has come to."""
        place, self._jobs = self._coordinator.place, self._jobs + 1
        store: Any = connect(place.address, 0, hosts=True, why="rank 0 can't host the job's")
        task = Task(job=job, port=store.port, timeout_s=self.options.timeout_s)
        self._exchange.put(f"job/{self._jobs}", msgspec.json.encode(task))
        own = self._coordinator.run(self._jobs, task, self.writer.folder.absolute(), tell)
        outcomes = [own]
        try:
            for rank in range(1, place.world_size):
                outcomes.append(self._gather(rank))
        except Lost as lost:
            self._coordinator.lost = lost
        theirs = job_store(store)
        known = [rank for rank in range(place.world_size) if theirs.check([arrivals_key(rank)])]
        return outcomes, {rank: int(theirs.get(arrivals_key(rank))) for rank in known}

    def _gather(self, rank: int) -> Outcome:
        """How the job ended on another rank, its trace put among the others."""
        of = f"job/{self._jobs}"
        outcome = msgspec.json.decode(self._exchange.get(f"{of}/outcome/{rank}"), type=Outcome)
        if outcome.has_trace:
            assert outcome.result is not None
            assert outcome.result.process is not None
            trace = outcome.result.process.trace
            self._exchange.put(f"{of}/send/{rank}", b"")
            data = self._exchange.get(f"{of}/trace/{rank}")
            assert trace is not None
            try:
                (self.writer.folder / "traces" / Path(trace).name).write_bytes(data)
            except OSError as error:
                return msgspec.structs.replace(outcome, died=f"left a trace that can't be kept ({error.strerror})")
        return outcome

    def _take_of(self, mode: str, repeat: int, outcome: Outcome, fault: Outcome | None) -> None:
        """Keep what a rank's process found out; with ``fault``, the one that failed alone, why others were stopped."""
        result = outcome.result or Result()
        error = outcome.error
        if error is not None and fault is not None and outcome is not fault and outcome.stopped:
            error = f"the process was stopped ({outcome.phase}): rank {fault.rank} had failed"
        if error is not None:
            result = failed(repeat, error, msgspec.json.encode(msgspec.structs.replace(result, refusal=None)))
        if result.process is not None:
            process = msgspec.structs.replace(result.process, rank=outcome.rank)
            result = msgspec.structs.replace(result, process=process)
        if outcome.rank:  # times and the floor are rank 0's
            result = msgspec.structs.replace(result, seconds={}, floor=None)
        self._take(capture.AS_WRITTEN if capture.AS_WRITTEN in self.modes else mode, result)


def _named(target: str, outcome: Outcome) -> str:
    if outcome.died is None:
        return outcome.error or ""
    return f"{target}: the process that builds it {outcome.died}"


def _require_devices(found: Sequence[RankDevice]) -> None:
    """MissingRequirement unless each rank has a device of its own."""
    lacking = [rank for rank, each in enumerate(found) if each.missing is not None]
    if lacking:
        each = found[lacking[0]]
        instead = f" {WITHOUT_A_GPU}" if len(lacking) == len(found) else ""
        raise MissingRequirement(f"rank {lacking[0]} on {each.host}: {each.missing}{instead}")
    users = Counter((each.host, each.identity) for each in found if each.identity is not None)
    for (host, identity), count in users.items():
        if count > 1:
            ranks = [str(rank) for rank, each in enumerate(found) if (each.host, each.identity) == (host, identity)]
            raise MissingRequirement(
                f"ranks {', '.join(ranks)} on {host} would share one GPU: start as many ranks as there are GPUs"
            )


def _numbered(hosts: Sequence[str]) -> dict[str, str]:
    """What a capture calls each host, in the order of ranks: their names would tell where the user is, and no more."""
    distinct = dict.fromkeys(hosts)
    if len(distinct) == 1:
        return dict.fromkeys(distinct, "localhost")
    return {host: f"host {number}" for number, host in enumerate(distinct)}


def _label(ranks: Sequence[capture.RankRecord]) -> str:
    hosts = len({each.host for each in ranks})
    return f"{len(ranks)} ranks on {hosts} host{'s' if hosts > 1 else ''}"
