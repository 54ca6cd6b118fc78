"""Profiles of several ranks. Each rank has a coordinator, which runs the rank's part of a job in a fresh process, and
ends it when others have failed.

Rank 0's leads: the run is as with one process, but each job is sent to the others and gathered from all. They follow.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

import msgspec

from ...analysis.model import capture
from ...analysis.model.errors import LaunchscopeError, MissingRequirement, NothingMeasured, RankFailed
from ..measure.device import WITHOUT_A_GPU, Environment
from ..target.describe import without_hosts
from ..target.options import Place, ProfileOptions, Progress, no_progress
from .api import Interrupted, capture_path, preload
from .calibrate import probe
from .client import ForkServer
from .exchange import Exchange, JobRanks, Lost, arrivals_key, connect, job_store
from .outcome import Outcome, run_job
from .run import Run, in_turn
from .worker import Job, Probe

END: Final = "end"
GRACE_S: Final = 5.0  # for a process to fail by itself once another rank's has
_SLOW_GRACE_S: Final = {"start": 20.0, "build": 20.0, "compile": 60.0}
"""The same in phases that take some ranks longer than others: one may be about to fail as the others did."""
_INTERRUPTED: Final = "interrupted"
_BYE_S: Final = 5.0  # for the others to read how the run ended, before a store that this process hosts is gone
_BYE_SOON_S: Final = 1.0  # the same where those of this host are interrupted, too
_BEHIND_S: Final = 1.0
"""Rank 0 says what went wrong, and ends, before the others do: some launchers end all ranks as soon as one has."""


class Task(msgspec.Struct, frozen=True, kw_only=True):
    """A job as rank 0 sends it to the others."""

    job: Job
    port: int  # of the job's store
    timeout_s: float


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """How a run ended, as rank 0 sends it to the others; ``error`` is null when all went well."""

    error: str | None = None


class Coordinator:
    """One rank's. It looks around while its process runs."""

    def __init__(self, place: Place, exchange: Exchange, device_layer: str) -> None:
        self.place = place
        self.exchange = exchange
        self.lost: Lost | None = None  # why this run can't go on
        self._device_layer = device_layer
        self._server: ForkServer | None = None
        self._failed_key: str | None = None  # while a job runs
        self._failed_at: float | None = None
        self._phase = "start"
        self._stopping = False

    def use(self, server: ForkServer) -> None:
        """Run the jobs that follow in processes of this server."""
        self._server = server

    def check_others(self) -> None:
        """Has another rank failed, or gone? Called again and again while a process starts or runs."""
        if self._stopping:
            return
        try:
            self.exchange.raise_if_lost()
            self._check_failures()
        except Lost as lost:
            self.lost = lost
        if self.lost is not None and self._failed_key is None:
            raise self.lost
        if self.lost is not None:
            self._stop()

    def _check_failures(self) -> None:
        if self._failed_key is None:
            return
        if self.place.rank and self.exchange.has(END):
            self._stop()
        elif self._failed_at is None:
            self._failed_at = time.monotonic() if self.exchange.has(self._failed_key) else None
        elif time.monotonic() - self._failed_at > _SLOW_GRACE_S.get(self._phase, GRACE_S):
            self._stop()

    def _stop(self) -> None:
        if self._server is not None and self._failed_key is not None:
            self._stopping = True
            self._server.stop()

    def probe(self) -> Probe:
        """What this rank has to run on."""
        assert self._server is not None
        found = probe(self._server, self._device_layer, self.place.local_rank)
        return msgspec.structs.replace(found, host=self.place.host, local_rank=self.place.local_rank)

    def run(self, number: int, task: Task, folder: Path, tell: Callable[[str], None]) -> Outcome:
        """This rank's part of job ``number``, its trace below ``folder``. Tells the others when it fails."""
        assert self._server is not None
        job_ranks = JobRanks(place=self.place, port=task.port, timeout_s=task.timeout_s)
        job = msgspec.structs.replace(task.job, job_ranks=job_ranks, folder=str(folder))
        self._failed_key, self._failed_at = f"job/{number}/failed", None
        self._phase, self._stopping = "start", False

        def on_phase(phase: str) -> None:
            self._phase = phase
            tell(phase)

        outcome = run_job(self._server, job, task.timeout_s, on_phase, self.place.rank, self.place.host)
        if outcome.error is not None and not outcome.stopped:
            outcome = msgspec.structs.replace(outcome, failure_order=self._announce_failure())
        self._failed_key = None
        return msgspec.structs.replace(outcome, has_trace=trace_of(outcome, folder) is not None)

    def _announce_failure(self) -> int:
        with suppress(Lost):
            assert self._failed_key is not None
            order = self.exchange.count(f"{self._failed_key}/order")
            self.exchange.put(self._failed_key, b"")
            return order
        return 0


def trace_of(outcome: Outcome, folder: Path) -> Path | None:
    """The trace that its process left below ``folder``; null when it left none."""
    record = outcome.result.process if outcome.result else None
    file = folder / record.trace if record is not None and record.trace else None
    return file if file is not None and file.is_file() else None


def variables(place: Place) -> dict[str, str]:
    """Variables for the processes that measure: one CPU thread each, as torchrun has it, unless somebody said else."""
    return {"OMP_NUM_THREADS": "1"} if place.local_world_size > 1 and "OMP_NUM_THREADS" not in os.environ else {}


def follow(coordinator: Coordinator, options: ProfileOptions) -> None:
    """Take part until rank 0 ends the run. RankFailed when it ended badly."""
    exchange, rank = coordinator.exchange, coordinator.place.rank
    with tempfile.TemporaryDirectory(prefix="launchscope-rank-") as scratch:
        folder = Path(scratch)
        (folder / "traces").mkdir()
        with ForkServer(preload([options]), variables(coordinator.place), coordinator.check_others) as server:
            coordinator.use(server)
            exchange.put(f"found/{rank}", msgspec.json.encode(coordinator.probe()))
            number = 1
            while exchange.wait(END, f"job/{number}") != END:
                _take_part(coordinator, number, folder)
                number += 1
        ending = msgspec.json.decode(exchange.get(END, keep=True), type=Ending)
        exchange.close()  # the store may be rank 0's, which ends once all have said
        exchange.count("bye")
    if ending.error is not None:
        time.sleep(_BEHIND_S)
        raise RankFailed(ending.error)


def refuse(coordinator: Coordinator, why: str) -> None:
    """Tell rank 0 that this one has nothing to run on."""
    place = coordinator.place
    found = Probe(missing=why, host=place.host, local_rank=place.local_rank)
    coordinator.exchange.put(f"found/{place.rank}", msgspec.json.encode(found))


def _take_part(coordinator: Coordinator, number: int, folder: Path) -> None:
    exchange, rank = coordinator.exchange, coordinator.place.rank
    task = msgspec.json.decode(exchange.get(f"job/{number}", keep=True), type=Task)
    outcome = coordinator.run(number, task, folder, no_progress)
    if coordinator.lost is not None:
        raise coordinator.lost
    exchange.put(f"job/{number}/outcome/{rank}", msgspec.json.encode(outcome))
    trace = trace_of(outcome, folder)
    if trace is None:
        return
    if exchange.wait(END, f"job/{number}/send/{rank}") != END:  # so that the store holds one trace at a time
        exchange.put(f"job/{number}/trace/{rank}", trace.read_bytes())
    trace.unlink()


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
        raise NothingMeasured(run.why_nothing())
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
        self._coordinator = coordinator
        self._exchange = coordinator.exchange
        self._jobs = 0
        self._hosts: dict[str, str] = {}

    def probe(self, server: ForkServer) -> Environment:
        """Meet the others."""
        first, size = self._coordinator.probe(), self._coordinator.place.world_size
        others = [msgspec.json.decode(self._exchange.get(f"found/{rank}"), type=Probe) for rank in range(1, size)]
        found = [first, *others]
        _require_devices(found)
        self._hosts = _numbered([each.host for each in found])
        gpus = [each.environment.get("gpu") for each in found]
        self.ranks = tuple(
            capture.RankRecord(
                rank=rank,
                local_rank=each.local_rank,
                host=self._hosts[each.host],
                device=None if gpu is None else str(gpu),
            )
            for rank, (each, gpu) in enumerate(zip(found, gpus, strict=True))
        )
        self.labels = (_label(self.ranks),)
        return first.environment

    def lost(self) -> str | None:
        return None if self._coordinator.lost is None else str(self._coordinator.lost)

    def mask(self, text: str) -> str:
        return without_hosts(super().mask(text), self._hosts)

    def run_job(
        self, server: ForkServer, job: Job, tell: Callable[[str], None]
    ) -> tuple[list[Outcome], Mapping[int | None, int]]:
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


def _require_devices(found: Sequence[Probe]) -> None:
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
