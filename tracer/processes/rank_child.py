"""What a process that measures one rank of several does beside measuring: it meets the others, and leaves with them."""

from __future__ import annotations

import gc
import os
import threading
from collections.abc import Callable
from datetime import timedelta
from typing import Any, Final

import msgspec

from ..measure.device import Device, load_device
from .exchange import connect
from .rank_options import Place

TEARDOWN_S: Final = 20.0
"""Longest that a process group may take to go away: one whose collectives a graph still holds never does."""


class JobRanks(msgspec.Struct, frozen=True, kw_only=True):
    """The ranks that a job is run by, as one of them is told. Each job has a store of its own, hosted by rank 0's
    coordinator: process groups leave keys behind that another group may not find."""

    place: Place
    port: int  # of that store, at the place's address
    timeout_s: float

    def join(self) -> StoreRanks:
        """Be that rank in this process, for whatever asks the environment; the others, to measure with."""
        os.environ.update(
            RANK=str(self.place.rank),
            LOCAL_RANK=str(self.place.local_rank),
            WORLD_SIZE=str(self.place.world_size),
            LOCAL_WORLD_SIZE=str(self.place.local_world_size),
            MASTER_ADDR=self.place.address,
            MASTER_PORT=str(self.port),
            TORCHELASTIC_USE_AGENT_STORE="True",
        )
        return StoreRanks(self)


class StoreRanks:
    """The ranks of a job, seen from one of several, over the job's store."""

    several = True

    def __init__(self, job_ranks: JobRanks) -> None:
        self._rank = job_ranks.place.rank
        self._size = job_ranks.place.world_size
        self._timeout = timedelta(seconds=job_ranks.timeout_s)
        self._store = job_store(
            connect(job_ranks.place.address, job_ranks.port, why=f"{job_ranks.place.name} can't reach the job's")
        )
        self._barriers = 0
        self._agreed = 0

    def barrier(self) -> None:
        """Over the store, not the GPU: it needs no process group, and leaves nothing in a trace."""
        self._barriers += 1
        self._store.set(arrivals_key(self._rank), str(self._barriers))
        opened = f"barrier/{self._barriers}/open"
        if self._store.add(f"barrier/{self._barriers}", 1) == self._size:
            self._store.set(opened, "")
        self._store.wait([opened], self._timeout)

    def from_rank_0(self, value: int) -> int:
        self._agreed += 1
        key = f"agreed/{self._agreed}"
        if self._rank == 0:
            self._store.set(key, str(value))
            return value
        self._store.wait([key], self._timeout)
        return int(self._store.get(key))

    def any_rank(self, here: bool) -> bool:
        self._agreed += 1
        key = f"any/{self._agreed}"
        if here:
            self._store.add(key, 1)
        self.barrier()
        return bool(self._store.add(key, 0))


def job_store(store: Any) -> Any:
    """Our part of a job's store, beside the target's."""
    from torch.distributed import PrefixStore  # type: ignore[attr-defined]

    return PrefixStore("launchscope", store)


def arrivals_key(rank: int) -> str:
    """The key that counts the barriers that a rank has come to."""
    return f"arrived/{rank}"


def leave() -> str | None:
    """Take the process group down once no graph holds its collectives: the other way round it hangs. What to note."""
    import torch

    for found in gc.get_objects():
        if issubclass(type(found), torch.cuda.CUDAGraph):  # isinstance would ask __class__, which may do anything
            found.reset()
    gc.collect()
    if not (torch.distributed.is_available() and torch.distributed.is_initialized()):
        return None
    device = torch.cuda.current_device() if torch.cuda.is_initialized() else None  # type: ignore[no-untyped-call]
    teardown = threading.Thread(target=_destroy, args=(device,), daemon=True)
    teardown.start()
    teardown.join(TEARDOWN_S)
    return f"the process group did not end within {TEARDOWN_S:g} s" if teardown.is_alive() else None


def _destroy(device: int | None) -> None:
    import torch

    if device is not None:
        torch.cuda.set_device(device)  # which each thread has for itself
    torch.distributed.destroy_process_group()


class ProbeRequest(msgspec.Struct, frozen=True, kw_only=True):
    """What a probe is to look at."""

    device_layer: str
    local_rank: int


class RankDevice(msgspec.Struct, frozen=True, kw_only=True):
    """What a rank has to run on."""

    missing: str | None
    device: str | None = None  # its name
    identity: str | None = None  # no other GPU of its host has the same
    host: str = ""
    local_rank: int = 0


def probe(argument: bytes, tell: Callable[[str], None]) -> RankDevice:
    """Start the rank's device in a process of its own and say what it is."""
    request = msgspec.json.decode(argument, type=ProbeRequest)
    tell("probe")
    device: Device = load_device(request.device_layer)
    missing = device.missing() or device.use(request.local_rank)
    if missing:
        return RankDevice(missing=missing)
    name = device.environment().get("gpu")
    return RankDevice(missing=None, device=None if name is None else str(name), identity=device.identity())
