"""What every coordinator does: run its rank's part of a job in a fresh process, and end it when others have failed.

Rank 0's leads the run (see lead); any other one follows it.
"""

from __future__ import annotations

import os
import tempfile
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Final

import msgspec

from ...analysis.model.errors import RankFailed
from ..target.describe import parts_of_target
from ..target.options import ProfileOptions, no_progress
from .api import preload
from .client import ForkServer, ProcessFailed
from .exchange import Exchange, Lost
from .fault import Outcome, stuck
from .rank_child import JobRanks, ProbeRequest, RankDevice
from .rank_options import Place
from .worker import Job, Result

END: Final = "end"
GRACE_S: Final = 5.0  # for a process to fail by itself once another rank's has
_PROBE_S: Final = 180.0
_SLOW_GRACE_S: Final = {"start": 20.0, "build": 20.0, "compile": 60.0}
"""The same in phases that take some ranks longer than others: one may be about to fail as the others did."""
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

    def probe(self) -> RankDevice:
        """What this rank has to run on."""
        assert self._server is not None
        request = ProbeRequest(device_layer=self._device_layer, local_rank=self.place.local_rank)
        try:
            found: RankDevice = self._server.run(
                "launchscope.tracer.processes.rank_child:probe", request, RankDevice, _PROBE_S, no_progress
            )
        except ProcessFailed as error:
            found = RankDevice(missing=f"the GPU can't be started: the process {error}; what it printed stands above")
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

        try:
            result = self._server.run(
                "launchscope.tracer.processes.worker:run", job, Result, task.timeout_s, on_phase, stacks=True
            )
            outcome = Outcome(rank=self.place.rank, host=self.place.host, result=result, phase=self._phase)
        except ProcessFailed as error:
            outcome = self._of_failed(error, parts_of_target(job.target)[0])
        if outcome.error is not None and not outcome.stopped:
            outcome = msgspec.structs.replace(outcome, failure_order=self._announce_failure())
        self._failed_key = None
        return msgspec.structs.replace(outcome, has_trace=trace_of(outcome, folder) is not None)

    def _of_failed(self, error: ProcessFailed, script: str) -> Outcome:
        found = stuck(error.stacks, Path(script).parent) if error.timed_out else None
        return Outcome(
            rank=self.place.rank,
            host=self.place.host,
            result=msgspec.json.decode(error.kept, type=Result) if error.kept else None,
            died=str(error),
            phase=self._phase,
            line=found.line if found is not None else None,
            waits=found is not None and found.waits,
            timed_out=error.timed_out,
            stopped=error.stopped,
        )

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
    found = RankDevice(missing=why, host=place.host, local_rank=place.local_rank)
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
