"""The table of ranks: schema ``launchscope.ranks/1``, a contract; docs/many-ranks.md describes every name.

Times are nanoseconds, of one step where the name says no more. A figure that the file can't support is null.
"""

from __future__ import annotations

from typing import Final

import msgspec

from ..model.document import SkippedDoc, Summary, WarningDoc

SCHEMA: Final = "launchscope.ranks/1"

MOST_IN_SERIES: Final = 1_000
"""Steps of which a row carries times one by one."""

UNREADABLE: Final = "unreadable"  # the file is not what it should be: it will be so again
NOT_FETCHED: Final = "storage"  # it could not be fetched: it may be next time
LOST_WORKER: Final = "worker"  # whoever read it died, or ran out of memory
INTERNAL: Final = "internal"  # a bug of ours


class StepSeriesDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Kept steps one by one, in order: every ``every``-th of them, where there are more than 1,000."""

    every: int
    number: list[int]  # n of ``ProfilerStep#n`` where steps are called so, else the place among the steps found
    period_ns: list[int | None]  # null for a step that none follows
    busy_ns: list[int]


class RankRow(msgspec.Struct, frozen=True, kw_only=True):
    """One file. With an ``error`` nothing is known but what its name and the storage tell."""

    path: str
    name: str  # what tells it from its siblings
    rank: int | None = None
    world_size: int | None = None
    host: str | None = None
    bytes: int | None = None
    seconds: float | None = None  # to fetch, read and analyze it
    cpu_seconds: float | None = None  # of its worker meanwhile
    fetch_seconds: float | None = None  # of that, to fetch it; null for a local file
    worker: str | None = None  # who read it: host and process
    worker_peak_bytes: int | None = None  # most memory that its worker had held by then
    error: str | None = None
    error_kind: str | None = None  # unreadable, storage, worker, internal
    warnings: list[WarningDoc] = []
    unreliable: list[str] = []  # why the trace is not reliable
    format: str | None = None
    gpu: str | None = None
    device: int | None = None  # the one that the figures are of: the busiest
    gpu_ops: int | None = None  # of all devices
    step_source: str | None = None
    steps_found: int | None = None
    steps: int | None = None  # kept
    period_ns: Summary | None = None
    busy_ns: Summary | None = None
    gpu_work_without_waiting_ns: float | None = None  # median; null where no other rank's collectives match
    idle_fraction: float | None = None
    idle_scope: str | None = None  # steady, whole
    launch_tax_ns: float | None = None  # of a median step
    launch_tax_share: float | None = None  # of its period
    host_submit_ns: float | None = None  # as profiled
    kernels: float | None = None  # median per step, as are the counts below
    launches: float | None = None
    graph_launches: float | None = None
    collectives: float | None = None
    communication_exposed_ns: float | None = None  # means per step; null without a collective
    communication_hidden_ns: float | None = None
    communication_transfer_ns: float | None = None  # means, as idle is; null where no other rank's collectives match
    communication_waiting_ns: float | None = None
    waits_for: int | None = None  # the rank for which most of its waiting is
    arrives_last_share: float | None = None  # of the matching collectives for which anybody waited
    arrives_last_chance: float | None = None  # if all arrived alike: 1 ÷ ranks of the group
    arrivals: int | None = None  # how many of them there were
    awaited_ns: float | None = None  # mean per step: the others' mean wait for this rank
    straggler: bool | None = None  # last in over half of them, and more often than chance and spread explain
    clock_offset_ns: float | None = None  # ahead of the first rank's, by the ends of matching collectives
    clock_spread_ns: float | None = None  # p10 to p90 of that
    verdict_class: str | None = None
    verdict_reason: str | None = None
    figures: dict[str, float] = {}  # numbers of figures that are no field here, by name
    series: StepSeriesDoc | None = None

    @property
    def label(self) -> str:
        """``rank 3``, or the file's name where no rank is known."""
        return self.name if self.rank is None else f"rank {self.rank}"


class DistributionDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One figure over the ranks that have it: ``min_at`` and ``max_at`` are indices into ``rows``."""

    figure: str
    unit: str  # ns, share, count
    count: int
    min: float
    p10: float
    median: float
    p90: float
    max: float
    spread: float  # median absolute deviation from the median
    min_at: int
    max_at: int


class OddDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Why one file stands out. ``figure`` and what follows are null where it is not a figure that does."""

    row: int  # index into ``rows``
    kind: str  # of docs/many-ranks.md, "What stands out"
    message: str
    figure: str | None = None
    value: float | None = None
    typical: float | None = None  # the median of the others' figures
    excess: float | None = None  # by how many times the least difference that stands out


class AlignmentDoc(msgspec.Struct, frozen=True, kw_only=True):
    """How ranks were compared: ``collectives``, or ``none``: durations alone. Clocks of hosts never are, without."""

    kind: str
    reason: str
    groups: int = 0  # process groups whose collectives match
    ranks: int = 0  # ranks of which transfer and waiting are told apart
    unmatched: list[str] = []  # why others don't, the first few


class RanksDocument(msgspec.Struct, frozen=True, kw_only=True):
    schema: str = SCHEMA
    launchscope: str
    inputs: list[str]
    seconds: float  # of this run
    workers: int  # processes, of this machine or of Dask's
    resumed: int = 0  # rows that a run before this one had finished
    unfinished: int = 0  # files that were not read, as the run was stopped
    skipped: list[SkippedDoc] = []  # files beside them that plainly are no traces
    world_size: int | None = None  # as the files tell; null where they don't, or differ
    missing_ranks: list[int] = []
    alignment: AlignmentDoc
    distributions: list[DistributionDoc]
    odd: list[OddDoc]  # those that stand out most first
    rows: list[RankRow]
