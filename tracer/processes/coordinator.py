"""Profiles of several ranks. Each rank has a coordinator, which runs the rank's part of a job in a fresh process, and
ends it when others have failed.

Rank 0's leads: the run is as with one process, but each job is sent to the others and gathered from all. They follow.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
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


class Ending(msgspec.Struct, frozen=True):
    """How a run ended, as rank 0 tells the others; ``error`` is null when all went well."""

    error: str | None


@dataclass(eq=False)
class Coordinator:
    """One rank's. It looks around while its process runs."""

    place: Place
    exchange: Exchange
    device_layer: str
    lost: Lost | None = None  # why this run can't go on
    _failed_key: str | None = None  # while a job runs
    _failed_at: float | None = None
    _phase: str = "start"
    _stopping: bool = False

    @contextmanager
    def serving(self, options: ProfileOptions) -> Iterator[ForkServer]:
        """The server of this rank's processes: one CPU thread each, as torchrun has it, unless somebody said else."""
        alone = self.place.local_world_size == 1 or "OMP_NUM_THREADS" in os.environ
        threads = {} if alone else {"OMP_NUM_THREADS": "1"}
        with ForkServer(preload([options]), threads, self.check_others) as self._server:
            yield self._server

    def check_others(self) -> None:
        """Has another rank failed, or gone? Called again and again while a process starts or runs."""
        if self._stopping:
            return
        try:
            self.exchange.raise_if_lost()
            self._stopping = self._failed_key is not None and self._others_failed(self._failed_key)
        except Lost as lost:
            self.lost = lost
            if self._failed_key is None:
                raise
            self._stopping = True
        if self._stopping:
            self._server.stop()

    def _others_failed(self, key: str) -> bool:
        """Whether the process has had the time to fail by itself since another rank's did."""
        if self.place.rank and self.exchange.has(END):
            return True
        if self._failed_at is None:
            self._failed_at = time.monotonic() if self.exchange.has(key) else None
            return False
        return time.monotonic() - self._failed_at > _SLOW_GRACE_S.get(self._phase, GRACE_S)

    def probe(self) -> Probe:
        """What this rank has to run on."""
        found = probe(self._server, self.device_layer, self.place.local_rank)
        return msgspec.structs.replace(found, host=self.place.host, local_rank=self.place.local_rank)

    def run(self, number: int, job: Job, ranks: JobRanks, folder: Path, tell: Callable[[str], None]) -> Outcome:
        """This rank's part of job ``number``, its trace below ``folder``. Tells the others when it fails."""
        place = self.place
        job_ranks = msgspec.structs.replace(ranks, place=place)
        job = msgspec.structs.replace(job, job_ranks=job_ranks, folder=str(folder))
        self._failed_key, self._failed_at = f"job/{number}/failed", None
        self._phase, self._stopping = "start", False

        def on_phase(phase: str) -> None:
            self._phase = phase
            tell(phase)

        outcome = run_job(self._server, job, ranks.timeout_s, on_phase, place.rank, place.host)
        if outcome.error is not None and not outcome.stopped:
            with suppress(Lost):
                order = self.exchange.count(f"{self._failed_key}/order")
                self.exchange.put(self._failed_key, b"")
                outcome = msgspec.structs.replace(outcome, failure_order=order)
        self._failed_key = None
        return msgspec.structs.replace(outcome, has_trace=trace_of(outcome, folder) is not None)


def trace_of(outcome: Outcome, folder: Path) -> Path | None:
    """The trace that its process left below ``folder``; null when it left none."""
    file = None if outcome.trace is None else folder / outcome.trace
    return file if file is not None and file.is_file() else None


def follow(coordinator: Coordinator, options: ProfileOptions) -> None:
    """Take part until rank 0 ends the run. RankFailed when it ended badly."""
    exchange = coordinator.exchange
    with tempfile.TemporaryDirectory(prefix="launchscope-rank-") as scratch:
        Path(scratch, "traces").mkdir()
        with coordinator.serving(options):
            exchange.send(f"found/{coordinator.place.rank}", coordinator.probe())
            number = 1
            while exchange.wait(END, f"job/{number}") != END:
                _take_part(coordinator, number, Path(scratch))
                number += 1
        error = exchange.receive(END, Ending, keep=True).error
        exchange.close()  # the store may be rank 0's, which ends once all have said
        exchange.count("bye")
    if error is not None:
        time.sleep(_BEHIND_S)
        raise RankFailed(error)


def refuse(coordinator: Coordinator, why: str) -> None:
    """Tell rank 0 that this one has nothing to run on."""
    place = coordinator.place
    coordinator.exchange.send(f"found/{place.rank}", Probe(missing=why, host=place.host, local_rank=place.local_rank))


def _take_part(coordinator: Coordinator, number: int, folder: Path) -> None:
    exchange, rank = coordinator.exchange, coordinator.place.rank
    job = exchange.receive(f"job/{number}", Job, keep=True)
    assert job.job_ranks is not None
    outcome = coordinator.run(number, job, job.job_ranks, folder, no_progress)
    if coordinator.lost is not None:
        raise coordinator.lost
    exchange.send(f"job/{number}/outcome/{rank}", outcome)
    trace = trace_of(outcome, folder)
    if trace is None:
        return
    if exchange.wait(END, f"job/{number}/send/{rank}") != END:  # so that the store holds one trace at a time
        exchange.put(f"job/{number}/trace/{rank}", trace.read_bytes())
    trace.unlink()


def lead(coordinator: Coordinator, options: ProfileOptions, progress: Progress, device_layer: str) -> Path:
    """Measure with all ranks and keep it; the path of the capture. Raises as ``run_profile``, and RankFailed."""
    writer = capture.CaptureWriter(capture_path(options))
    run = RanksRun(options, writer, progress, device_layer, coordinator=coordinator)
    error: str | None = "rank 0 ended the run"
    try:
        with coordinator.serving(options) as server:
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
        exchange.send(END, Ending(error))
        place = coordinator.place
        if error == _INTERRUPTED and place.local_world_size == place.world_size:  # as all are
            return
        deadline = time.monotonic() + (_BYE_SOON_S if error == _INTERRUPTED else _BYE_S)
        while coordinator.lost is None and time.monotonic() < deadline:
            if exchange.total("bye") >= place.world_size - 1:
                return
            exchange.raise_if_lost()
            time.sleep(0.02)


@dataclass(eq=False)
class RanksRun(Run):
    """One target's measurements on several ranks."""

    coordinator: Coordinator = field(kw_only=True)
    jobs: int = 0
    hosts: dict[str, str] = field(default_factory=dict)  # what the capture calls them

    def probe(self, server: ForkServer) -> Environment:
        """Meet the others."""
        first, size = self.coordinator.probe(), self.coordinator.place.world_size
        found = [first, *(self.coordinator.exchange.receive(f"found/{rank}", Probe) for rank in range(1, size))]
        _require_devices(found)
        # what a capture calls them, in the order of ranks: their names would tell where the user is, and no more
        hosts = dict.fromkeys(each.host for each in found)
        self.hosts = {host: f"host {number}" if len(hosts) > 1 else "localhost" for number, host in enumerate(hosts)}
        gpus = [each.environment.get("gpu") for each in found]
        self.ranks = tuple(
            capture.RankRecord(
                rank=rank,
                local_rank=each.local_rank,
                host=self.hosts[each.host],
                device=None if gpu is None else str(gpu),
            )
            for rank, (each, gpu) in enumerate(zip(found, gpus, strict=True))
        )
        self.labels = (f"{size} ranks on {len(hosts)} host{'s' if len(hosts) > 1 else ''}",)
        return first.environment

    def lost(self) -> str | None:
        return None if self.coordinator.lost is None else str(self.coordinator.lost)

    def mask(self, text: str) -> str:
        return without_hosts(super().mask(text), self.hosts)

    def run_job(
        self, server: ForkServer, job: Job, tell: Callable[[str], None]
    ) -> tuple[list[Outcome], Mapping[int | None, int]]:
        place, self.jobs = self.coordinator.place, self.jobs + 1
        store: Any = connect(place.address, 0, hosts=True, why="rank 0 can't host the job's")
        ranks = JobRanks(place=place, port=store.port, timeout_s=self.options.timeout_s)
        self.coordinator.exchange.send(f"job/{self.jobs}", msgspec.structs.replace(job, job_ranks=ranks))
        outcomes = [self.coordinator.run(self.jobs, job, ranks, Path(job.folder), tell)]
        try:
            for rank in range(1, place.world_size):
                outcomes.append(self._gather(rank))
        except Lost as lost:
            self.coordinator.lost = lost
        theirs = job_store(store)
        known = [rank for rank in range(place.world_size) if theirs.check([arrivals_key(rank)])]
        return outcomes, {rank: int(theirs.get(arrivals_key(rank))) for rank in known}

    def _gather(self, rank: int) -> Outcome:
        """How the job ended on another rank, its trace put among the others."""
        of = f"job/{self.jobs}"
        outcome = self.coordinator.exchange.receive(f"{of}/outcome/{rank}", Outcome)
        if outcome.has_trace:
            self.coordinator.exchange.put(f"{of}/send/{rank}", b"")
            data = self.coordinator.exchange.get(f"{of}/trace/{rank}")
            try:
                (self.writer.folder / "traces" / Path(outcome.trace or "").name).write_bytes(data)
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
    users: dict[tuple[str, str], list[str]] = {}
    for rank, each in enumerate(found):
        if each.identity is not None:
            users.setdefault((each.host, each.identity), []).append(str(rank))
    for (host, _), ranks in users.items():
        if len(ranks) > 1:
            raise MissingRequirement(
                f"ranks {', '.join(ranks)} on {host} would share one GPU: start as many ranks as there are GPUs"
            )
