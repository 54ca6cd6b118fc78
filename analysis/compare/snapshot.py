"""What a check looks at: the figures of one target in one mode on one machine. A baseline is a saved snapshot.

Schema ``launchscope.baseline/1``. It holds no raw trace, but every unprofiled sample by process, and the launches,
kernels and blocking calls of a step by their place, so that the cause of a change can be named.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Annotated, Final

import msgspec

from ..model.capture import Ns, StepNs
from ..model.document import ModeDoc, TraceDoc
from ..profile.select import timed_processes
from .check_document import SideDoc

SCHEMA: Final = "launchscope.baseline/1"

MACHINE: Final = ("gpu", "driver", "cuda", "torch")
"""The parts of an environment that make times of two snapshots comparable."""


class Timing(msgspec.Struct, frozen=True, kw_only=True):
    """One process's unprofiled samples, ns; warm-up left out."""

    repeat: int
    samples_ns: Annotated[tuple[StepNs, ...], msgspec.Meta(min_length=1)]  # step time, one per batch of steps
    host_submit_ns: tuple[Ns, ...] = ()


def timings(mode: ModeDoc, recordings: Iterable[TraceDoc]) -> tuple[Timing, ...]:
    """Unprofiled samples of a mode by process; ``recordings`` are the mode's."""
    return tuple(
        Timing(repeat=each.repeat, samples_ns=tuple(each.samples_ns), host_submit_ns=tuple(each.host_submit_ns))
        for each in timed_processes(mode, recordings)
    )


class LaunchSite(msgspec.Struct, frozen=True, kw_only=True):
    """Launches of a step by the operator that made them, and the user's Python line around it."""

    operator: str | None  # null where none was recorded
    line: str | None = None  # 'model.py(42): step', the innermost of the user's files; null without recorded stacks
    per_step: float
    kernels_per_step: float


class BlockingSite(msgspec.Struct, frozen=True, kw_only=True):
    """Blocking calls of a step by API, operator and stack."""

    api: str
    operator: str | None
    stack: tuple[str, ...]  # outermost first; empty where none was recorded
    per_step: float


class KernelSite(msgspec.Struct, frozen=True, kw_only=True):
    """GPU ops of a step by name."""

    name: str
    category: str  # kernel, memcpy, memset
    operator: str | None
    operator_inferred: bool = False  # from an aligned trace of the same capture
    per_step: float
    ns_per_step: float


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """One target, one mode, one machine. Counts are means over kept steps, all recordings of the mode together."""

    schema: str = SCHEMA
    launchscope: str
    target: str  # name of the target, or of the trace file
    mode: str  # a mode of the capture, or 'trace' for a trace that someone else recorded
    batch_size: int | None = None
    dtype: str | None = None
    context_length: int | None = None
    settings: dict[str, str] = {}  # --set, secrets masked
    ranks: int = 1  # that ran each step together
    machine: dict[str, str | int | float | bool | None] = {}  # the environment it was measured in
    commit: str | None = None  # of the target's folder, with a + when it had changes
    created: str | None = None  # when it was measured, ISO 8601, UTC; null for a trace
    saved: str | None = None  # when it became a baseline
    source: str = ""  # the file that it comes from
    run: str | None = None  # snapshots of one run were measured in turn, and pair by repeat

    timings: tuple[Timing, ...] = ()
    launches: float | None = None  # per step
    kernels: float | None = None
    graph_launches: float | None = None
    blocking_calls: float | None = None
    memcpys: float | None = None
    graph_coverage: float | None = None  # share of kernels, by count
    figures: dict[str, float] = {}  # other numbers of figures, by name: means over the recordings
    graph_memory_bytes: int | None = None
    gpu_work_ns: float | None = None  # W; without waiting for other ranks where that is known
    waiting_share: float = 0.0  # of T − W: what collectives wait for other ranks, which is no idle time
    launch_tax_share: float | None = None  # of the idle time; null where that is below resolution
    launch_sites: tuple[LaunchSite, ...] = ()
    blocking_sites: tuple[BlockingSite, ...] = ()
    kernel_sites: tuple[KernelSite, ...] = ()

    error: str | None = None  # why nothing was timed in this mode
    unreliable: tuple[str, ...] = ()  # reasons why counts of the recordings can't be trusted
    withheld: dict[str, str] = {}  # figure: why it can't be told

    @property
    def key(self) -> tuple[object, ...]:
        """What makes two snapshots of the same thing: target, mode and how it was set."""
        return (self.target, self.mode, self.setup)

    @property
    def setup(self) -> tuple[object, ...]:
        """How the target was set: batch size, dtype, context length, --set and the number of ranks."""
        return (self.batch_size, self.dtype, self.context_length, tuple(sorted(self.settings.items())), self.ranks)

    @property
    def fingerprint(self) -> dict[str, str | int | float | bool | None]:
        """The parts of the machine that times depend on."""
        return {name: self.machine.get(name) for name in MACHINE}


def side_of(snapshot: Snapshot) -> SideDoc:
    """What a document tells of it."""
    return SideDoc(
        source=snapshot.source,
        target=snapshot.target,
        mode=snapshot.mode,
        commit=snapshot.commit,
        created=snapshot.created,
        processes=len(snapshot.timings),
        machine={name: value for name, value in snapshot.fingerprint.items() if value is not None},
    )
