"""What is asked for, in plain values that are checked before anything expensive starts. Loads no torch.

A target and how it is built, a profile run, several ranks and which of them a process is; and ``Target``, what every
target file comes down to.
"""

from __future__ import annotations

import keyword
import os
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ...analysis.model.errors import LaunchscopeError
from ...analysis.model.paths import exists

if TYPE_CHECKING:
    import torch

MODES: Final = ("eager", "graph", "fused", "fused_graph")  # of capture.MODES, which would load msgspec; a test compares
STEPS: Final = 12
MIN_STEPS: Final = 3  # a sacrifice, a kept step and the one after it, which ends the kept step's period
REPEATS: Final = 3
CHECK_REPEATS: Final = 8  # of analysis.compare.difference, which would load numpy; a test compares
TIMEOUT_S: Final = 600.0

DEFAULT_BATCH_SIZE: Final = 1
DEFAULT_CONTEXT_LENGTH: Final = 512
DTYPES: Final = {"bf16": "bfloat16", "fp16": "float16", "fp32": "float32"}
"""Our names → torch's."""
_DTYPE_WORDS: Final = {
    **{short: short for short in DTYPES},
    **{long: short for short, long in DTYPES.items()},
    "half": "fp16",
    "float": "fp32",
}

_HAVE_OPTIONS: Final = {
    "batch_size": "--batch-size",
    "dtype": "--dtype",
    "context_length": "--context-length",
    "device": "CUDA_VISIBLE_DEVICES",
}

BACKENDS: Final = ("c10d", "static")
ALL_NAMES: Final = ("RANK", "LOCAL_RANK", "WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT")
"""What torchrun tells the processes that it starts; whoever sets all of them starts ranks, too."""
HIGHEST_PORT: Final = 65_535
RESOLVE_S: Final = 20.0
"""For the name of a host to get an address: where containers start together it may come later than they do."""

Progress = Callable[[str], None]
"""Called with one line that says what is being done now, such as ``eager, process 2 of 3: timing``."""


def no_progress(_: str) -> None:
    """A Progress that nobody needs to see; of several ranks only rank 0 shows its own."""


@dataclass(frozen=True, eq=False)
class Target:
    """One decode step and what is needed to check it.

    ``step()`` runs one step and returns its outputs (tensors, or containers of them). ``inputs`` are the static
    buffers that it reads (token ids, positions): launchscope overwrites them in place. ``state`` are tensors that it
    changes (a KV cache): launchscope restores them between runs. ``model`` is counted for its parameters.
    """

    step: Callable[[], Any]
    inputs: Mapping[str, torch.Tensor] = field(default_factory=dict)
    state: Sequence[torch.Tensor] = ()
    model: torch.nn.Module | None = None


@dataclass(frozen=True)
class Setting:
    """What a target is built with; null = not said, its own default holds."""

    batch_size: int | None = None
    dtype: str | None = None
    context_length: int | None = None
    device: str = "cuda"

    @property
    def given(self) -> tuple[str, ...]:
        """Names of what is said."""
        return tuple(name for name in ("batch_size", "dtype", "context_length") if getattr(self, name) is not None)


def short_dtype(dtype: Any) -> str:
    """'bf16' for torch.bfloat16; other dtypes by torch's own name."""
    long = str(dtype).removeprefix("torch.")
    return next((short for short, name in DTYPES.items() if name == long), long)


@dataclass(frozen=True, kw_only=True)
class TargetOptions:
    """What a target is built from. ``None`` leaves a value to the target. LaunchscopeError for what can't be right."""

    target: str
    batch_size: int | None = None
    dtype: str | None = None  # 'bf16', 'fp16', 'fp32'; torch's own names are taken too
    context_length: int | None = None  # tokens
    settings: dict[str, str] = field(default_factory=dict)  # --set

    def __post_init__(self) -> None:
        if not self.target.strip():
            raise LaunchscopeError("TARGET is empty; name a script (model.py), model.py:name or package.module:name")
        _check_text("TARGET", self.target)
        _at_least(1, "--batch-size", self.batch_size)
        _at_least(1, "--context-length", self.context_length)
        _check_settings(self.settings)
        if self.dtype is not None:
            object.__setattr__(self, "dtype", _known_dtype(self.dtype))


@dataclass(frozen=True, kw_only=True)
class ProfileOptions(TargetOptions):
    """One profile run."""

    steps: int = STEPS  # recorded in each profiler session, the sacrificed first one included
    repeats: int = REPEATS  # processes per mode
    modes: tuple[str, ...] = MODES  # in the order of the report
    out: Path | None = None  # the capture folder; must not exist yet
    timeout_s: float = TIMEOUT_S  # for one process, compilation included
    for_check: bool = False  # record the first two processes of a mode alone: the others are there for their times

    def __post_init__(self) -> None:
        super().__post_init__()
        _at_least(MIN_STEPS, "--steps", self.steps, why=": the first is a sacrifice and the last only ends a period")
        _at_least(1, "--repeats", self.repeats)
        if not 0 < self.timeout_s < float("inf"):
            raise LaunchscopeError(f"--timeout is {self.timeout_s:g}; it takes a positive number of seconds")
        _check_modes(self.modes)
        if self.out is not None and (exists(self.out) or self.out.is_symlink()):
            raise LaunchscopeError(f"{self.out}: exists already; captures are never overwritten: name a new folder")

    @property
    def of_target(self) -> TargetOptions:
        """What another process needs to build the target."""
        return TargetOptions(**{each.name: getattr(self, each.name) for each in fields(TargetOptions)})


def parse_modes(text: str) -> tuple[str, ...]:
    """``eager, graph`` → ('eager', 'graph'); whether they are modes is for ProfileOptions to say."""
    return tuple(mode for part in text.split(",") if (mode := part.strip()))


def parse_settings(pairs: Iterable[str]) -> dict[str, str]:
    """``key=value`` words as a dictionary. The value may be empty and may hold further ``=``."""
    settings: dict[str, str] = {}
    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals:
            raise LaunchscopeError(f"--set {pair}: no '='; write --set key=value")
        if key in settings:
            raise LaunchscopeError(f"--set {key}: given twice")
        settings[key] = value
    return settings


def _at_least(smallest: int, option: str, value: int | None, why: str = "") -> None:
    if value is not None and value < smallest:
        raise LaunchscopeError(f"{option} is {value}; it takes {smallest} or more{why}")


def _check_modes(modes: Sequence[str]) -> None:
    if not modes:
        raise LaunchscopeError(f"--modes is empty; the modes are {', '.join(MODES)}")
    for mode in modes:
        if mode not in MODES:
            raise LaunchscopeError(f"--modes: no mode '{mode}'{_suggestion(mode, MODES)}; they are {', '.join(MODES)}")
        if modes.count(mode) > 1:
            raise LaunchscopeError(f"--modes: '{mode}' is given twice")


def _check_text(option: str, text: str) -> None:
    """Bytes that are no UTF-8 can be kept neither in a capture nor in a report."""
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise LaunchscopeError(f"{option}: has bytes that are not UTF-8: {text!a}") from error


def _check_settings(settings: dict[str, str]) -> None:
    for key, value in settings.items():
        _check_text(f"--set {key}", value)
        if key in _HAVE_OPTIONS:
            raise LaunchscopeError(f"--set {key}: use {_HAVE_OPTIONS[key]} for it")
        if not key.isidentifier() or keyword.iskeyword(key):
            raise LaunchscopeError(f"--set {key}: not the name of a parameter")


def _known_dtype(dtype: str) -> str:
    known = _DTYPE_WORDS.get(dtype.lower().removeprefix("torch."))
    if known is None:
        raise LaunchscopeError(f"--dtype: no dtype '{dtype}'{_suggestion(dtype, _DTYPE_WORDS)}; use bf16, fp16 or fp32")
    return known


def _suggestion(word: str, known: Iterable[str]) -> str:
    from difflib import get_close_matches

    close = get_close_matches(word.lower(), list(known), n=1)
    return f" (did you mean '{close[0]}'?)" if close else ""


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
        _at_least(1, "--nproc-per-node", self.nproc_per_node)
        _at_least(1, "--nnodes", self.nnodes)
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
