"""The coordinator of any rank but 0: it does what rank 0's says."""

from __future__ import annotations

import tempfile
import time
from pathlib import Path
from typing import Final

import msgspec

from ...analysis.model.errors import RankFailed
from ..target.options import ProfileOptions
from .api import preload
from .client import ForkServer
from .coordinator import END, Coordinator, Ending, Task, trace_of
from .rank_child import Found
from .surroundings import variables

_BEHIND_S: Final = 1.0
"""Rank 0 says what went wrong, and ends, before the others do: some launchers end all ranks as soon as one has."""


def follow(coordinator: Coordinator, options: ProfileOptions) -> None:
    """Take part until rank 0 ends the run. RankFailed when it ended badly."""
    exchange, rank = coordinator.exchange, coordinator.place.rank
    with tempfile.TemporaryDirectory(prefix="launchscope-rank-") as scratch:
        folder = Path(scratch)
        (folder / "traces").mkdir()
        with ForkServer(preload([options]), variables(coordinator.place), coordinator.look) as server:
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
    found = Found(missing=why, host=place.host, local_rank=place.local_rank)
    coordinator.exchange.put(f"found/{place.rank}", msgspec.json.encode(found))


def _take_part(coordinator: Coordinator, number: int, folder: Path) -> None:
    exchange, rank = coordinator.exchange, coordinator.place.rank
    task = msgspec.json.decode(exchange.get(f"job/{number}", keep=True), type=Task)
    outcome = coordinator.run(number, task, folder, lambda _: None)
    if coordinator.lost is not None:
        raise coordinator.lost
    exchange.put(f"job/{number}/outcome/{rank}", msgspec.json.encode(outcome))
    trace = trace_of(outcome, folder)
    if trace is None:
        return
    if exchange.wait(END, f"job/{number}/send/{rank}") != END:  # so that the store holds one trace at a time
        exchange.put(f"job/{number}/trace/{rank}", trace.read_bytes())
    trace.unlink()
