"""How several ranks are launched, and which of them a process is: plain values. Loads no torch."""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ...analysis.model.errors import LaunchscopeError

BACKENDS: Final = ("c10d", "static")
ALL_NAMES: Final = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells the processes that it starts; whoever sets all of them starts ranks, too."""
HIGHEST_PORT: Final = 65_535
RESOLVE_S: Final = 20.0
"""For the name of a host to get an address: where containers start together it may come later than they do."""


@dataclass(frozen=True, kw_only=True)
class RanksOptions:
    """What torch's elastic launcher is given, in torchrun's words. A value that can't be right is refused."""

    nproc_per_node: int
    nnodes: int = 1
    node_rank: int | None = None  # for the static backend
    rdzv_endpoint: str | None = None  # HOST:PORT of one of the nodes
    rdzv_backend: str = "c10d"
    rdzv_id: str | None = None  # shared by the nodes of a run
    local_addr: str | None = None

    def __post_init__(self) -> None:
        for name, value in (("--nproc-per-node", self.nproc_per_node), ("--nnodes", self.nnodes)):
            if value < 1:
                raise LaunchscopeError(f"{name} is {value}; it takes 1 or more")
        if self.rdzv_backend not in BACKENDS:
            raise LaunchscopeError(f"--rdzv-backend: no backend '{self.rdzv_backend}'; they are {', '.join(BACKENDS)}")
        if self.nnodes > 1 and self.rdzv_endpoint is None:
            raise LaunchscopeError("--nnodes takes --rdzv-endpoint HOST:PORT too, the same on every node")
        if self.rdzv_backend == "static" and self.nnodes > 1 and self.node_rank is None:
            raise LaunchscopeError("--rdzv-backend static takes --node-rank too, another one on every node")
        if self.node_rank is not None and not 0 <= self.node_rank < self.nnodes:
            raise LaunchscopeError(f"--node-rank is {self.node_rank}; with --nnodes {self.nnodes} it is below that")

    def require_endpoint(self, within_s: float = RESOLVE_S) -> None:
        """LaunchscopeError where the endpoint's host gets no address: torch would try on, deaf to Ctrl-C."""
        if self.rdzv_endpoint is None:
            return
        host, colon, port = self.rdzv_endpoint.rpartition(":")
        if not colon:
            host, port = port, ""
        if port and not (port.isdecimal() and int(port) <= HIGHEST_PORT):
            raise LaunchscopeError(f"--rdzv-endpoint: '{port}' is no port; it takes HOST:PORT")
        deadline = time.monotonic() + within_s
        while (error := _unresolved(host.strip("[]"))) is not None:
            if time.monotonic() > deadline:
                raise LaunchscopeError(f"--rdzv-endpoint: no host is known as '{host}' here ({error})")
            time.sleep(0.5)

    @property
    def world_size(self) -> int:
        """How many ranks there are."""
        return self.nproc_per_node * self.nnodes


def _unresolved(host: str) -> str | None:
    """Why the host has no address; None where it has one."""
    try:
        socket.getaddrinfo(host, None)
    except (OSError, UnicodeError) as error:
        return str(error)
    return None


@dataclass(frozen=True, kw_only=True)
class Place:
    """Which rank a process is, and where rank 0 is to be met."""

    rank: int
    local_rank: int
    world_size: int
    local_world_size: int
    host: str  # the name of this one
    address: str
    port: int
    restart: int = 0  # how often the launcher has started these ranks anew
    has_store: bool = False  # at that address, of the launcher

    @property
    def name(self) -> str:
        """'rank 1 on host'."""
        return f"rank {self.rank} on {self.host}"


def place_from_environment(environment: Mapping[str, str] = os.environ) -> Place | None:
    """The rank that whoever started this process wants it to be; null where it is one alone."""
    if not all(environment.get(name) for name in ALL_NAMES):
        return None
    try:
        rank, local_rank, world_size, port = (
            int(environment[name]) for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_PORT")
        )
        local_world_size = int(environment.get("LOCAL_WORLD_SIZE") or world_size)
        restart = int(environment.get("TORCHELASTIC_RESTART_COUNT") or 0)
    except ValueError as error:
        raise LaunchscopeError(f"{', '.join(ALL_NAMES)}: not numbers where they should be ({error})") from error
    if world_size < 2:
        return None
    if not 0 <= rank < world_size:
        raise LaunchscopeError(f"RANK is {rank} and WORLD_SIZE {world_size}: a rank is below that")
    if local_rank < 0:
        raise LaunchscopeError(f"LOCAL_RANK is {local_rank}: it is 0 or more")
    if not 0 < port <= HIGHEST_PORT:
        raise LaunchscopeError(f"MASTER_PORT is {port}: a port is from 1 to {HIGHEST_PORT}")
    return Place(
        rank=rank,
        local_rank=local_rank,
        world_size=world_size,
        local_world_size=local_world_size,
        host=socket.gethostname(),
        address=environment["MASTER_ADDR"],
        port=port,
        restart=restart,
        has_store=environment.get("TORCHELASTIC_USE_AGENT_STORE") == "True",
    )
