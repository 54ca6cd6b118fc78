"""How ranks speak with each other: by keys of a TCPStore, which needs no shared folder and no process group.

Coordinators do through an Exchange, which lasts as long as the run; the processes that measure through StoreRanks, over
a store of each job.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, Final, TypeVar

import msgspec

from ..measure.protocol import Ranks
from ..target.options import Place

CHUNK_BYTES: Final = 4 << 20  # the store takes values of up to 8 MiB
Message = TypeVar("Message")
BEAT_S: Final = 1.0
LOST_S: Final = 10.0  # without a beat
JOIN_S: Final = 300.0  # for the first one: a launcher may start hosts one after the other
_POLL_S: Final = 0.02
_CONNECT: Final = timedelta(seconds=JOIN_S)


class Lost(Exception):
    """Another coordinator is gone, or the store is; the message says which."""


class Exchange:
    """One coordinator's view of the store."""

    def __init__(self, place: Place, watched: Sequence[int]) -> None:
        """``watched``: ranks without which this one can't go on."""
        self.place = place
        self._store = self._connect(hosts=place.rank == 0 and not place.has_store)
        self._heart = _Heartbeat(self._connect(), place, watched)

    def _connect(self, *, hosts: bool = False) -> Any:
        from torch.distributed import PrefixStore  # type: ignore[attr-defined]

        place = self.place
        store = connect(place.address, place.port, hosts=hosts, why=f"{place.name} can't reach rank 0's")
        return PrefixStore(f"launchscope/{place.restart}", store)

    def raise_if_lost(self) -> None:
        """Raise Lost when a rank that this one needs is gone."""
        if self._heart.lost is not None:
            raise Lost(self._heart.lost)

    def has(self, key: str) -> bool:
        return bool(self._ask(self._store.check, [key]))

    def count(self, key: str) -> int:
        """Add one to a number that all share; what it is then."""
        return int(self._ask(self._store.add, key, 1))

    def total(self, key: str) -> int:
        return int(self._ask(self._store.add, key, 0))

    def put(self, key: str, data: bytes) -> None:
        """Give ``data`` of any length to those that wait for it."""
        chunks = [data[at : at + CHUNK_BYTES] for at in range(0, len(data), CHUNK_BYTES)]
        for number, chunk in enumerate(chunks):
            self._ask(self._store.set, f"{key}/{number}", chunk)
        self._ask(self._store.set, key, str(len(chunks)))

    def wait(self, *keys: str) -> str:
        """The first of the keys that is there."""
        while True:
            for key in keys:
                if self.has(key):
                    return key
            self.raise_if_lost()
            time.sleep(_POLL_S)

    def get(self, key: str, *, keep: bool = False) -> bytes:
        """What was put there, once it is; it is gone then unless others want it too."""
        self.wait(key)
        chunks = []
        for number in range(int(self._ask(self._store.get, key))):
            chunks.append(self._ask(self._store.get, f"{key}/{number}"))
            if not keep:
                self._ask(self._store.delete_key, f"{key}/{number}")
        return b"".join(chunks)

    def send(self, key: str, message: object) -> None:
        """``put`` as JSON."""
        self.put(key, msgspec.json.encode(message))

    def receive(self, key: str, kind: type[Message], *, keep: bool = False) -> Message:
        """``get`` what was sent."""
        return msgspec.json.decode(self.get(key, keep=keep), type=kind)

    def close(self) -> None:
        self._heart.stop()

    def _ask(self, question: Callable[..., Any], *arguments: object) -> Any:
        try:
            return question(*arguments)
        except RuntimeError as error:  # torch's DistError is one
            raise Lost(_store_gone(self.place, error)) from error


class _Heartbeat:
    """Beats once a second on a thread of its own, and listens to the watched."""

    def __init__(self, store: Any, place: Place, watched: Sequence[int]) -> None:
        self.lost: str | None = None
        self._store = store
        self._key = f"alive/{place.rank}"
        self._place = place
        self._seen: dict[int, tuple[bytes, float]] = {}
        self._began = time.monotonic()
        self._watched = watched
        self._ends = threading.Event()
        self._thread = threading.Thread(target=self._beat, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        self._ends.set()
        self._thread.join(BEAT_S)

    def _beat(self) -> None:
        beats = 0
        while self.lost is None:
            try:
                self._store.set(self._key, str(beats))
                self._listen()
            except RuntimeError as error:
                self.lost = _store_gone(self._place, error)
            beats += 1
            if self._ends.wait(BEAT_S):
                return

    def _listen(self) -> None:
        known = [rank for rank in self._watched if rank in self._seen or self._store.check([f"alive/{rank}"])]
        now = time.monotonic()
        if len(known) < len(self._watched) and now - self._began > JOIN_S:
            missing = ", ".join(str(rank) for rank in self._watched if rank not in known)
            self.lost = f"rank {missing} has not come within {JOIN_S:g} s"
        if not known:
            return
        for rank, beat in zip(known, self._store.multi_get([f"alive/{rank}" for rank in known]), strict=True):
            if rank not in self._seen or self._seen[rank][0] != beat:
                self._seen[rank] = (beat, now)
            elif now - self._seen[rank][1] > LOST_S:
                self.lost = f"rank {rank} has not been heard of for {LOST_S:g} s: its host or what runs it is gone"


def _store_gone(place: Place, error: Exception) -> str:
    return f"the store at {place.address}:{place.port} is gone ({_first(error)})"


def connect(address: str, port: int, *, hosts: bool = False, why: str = "") -> Any:
    """A client of the store there; with ``hosts`` the store itself, at a free port for 0."""
    from torch.distributed import TCPStore  # type: ignore[attr-defined]

    try:
        return TCPStore(address, port, is_master=hosts, timeout=_CONNECT, wait_for_workers=False)
    except RuntimeError as error:
        raise Lost(f"{why} store at {address}:{port} ({_first(error)})") from error


def _first(error: Exception) -> str:
    with suppress(IndexError):
        return str(error).strip().splitlines()[0][:200]
    return type(error).__name__


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


class StoreRanks(Ranks):
    """The ranks of a job, seen from one of several, over the job's store."""

    several = True

    def __init__(self, job_ranks: JobRanks) -> None:
        place = job_ranks.place
        self._rank, self._size = place.rank, place.world_size
        self._timeout = timedelta(seconds=job_ranks.timeout_s)
        self._store = job_store(connect(place.address, job_ranks.port, why=f"{place.name} can't reach the job's"))
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
