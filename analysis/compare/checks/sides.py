"""What is checked beside what it is compared with, and each figure on both sides."""

from __future__ import annotations

from dataclasses import dataclass, field
from statistics import median

from ..snapshot import Snapshot
from .config import Limits


@dataclass(frozen=True)
class Values:
    """One figure on both sides; null where it can't be told, or where there is no baseline."""

    measured: float | None
    baseline: float | None


@dataclass(frozen=True)
class Sides:
    """What is checked, what it is compared with, and by which rules."""

    current: Snapshot
    baseline: Snapshot | None
    limits: Limits = field(default_factory=Limits)
    same_machine: bool = False
    why_no_baseline: str = ""

    @property
    def differs(self) -> dict[str, list[str]]:
        """Parts of the machine that are not the baseline's: [the baseline's, the current one's]."""
        if self.baseline is None:
            return {}
        was, now = self.baseline.fingerprint, self.current.fingerprint
        return {
            part: ["unknown" if each is None else str(each) for each in (was[part], now[part])]
            for part in now
            if was[part] != now[part]
        }

    def values(self, figure: str) -> Values:
        """The figure in ns, bytes, per step or as a share."""
        base = self.baseline
        return Values(value_of(self.current, figure), None if base is None else value_of(base, figure))

    def processes(self, figure: str) -> tuple[list[list[float]], list[list[float]], bool]:
        """Samples by process of both sides, and whether these are pairs: of one run, the repeats that both have."""
        assert self.baseline is not None, "relative"
        now, base = samples(self.current, figure), samples(self.baseline, figure)
        if self.current.run is None or self.current.run != self.baseline.run:
            return now, base, False
        ours, theirs = (
            {timing.repeat: each for timing, each in zip(side.timings, found, strict=True)}
            for side, found in ((self.current, now), (self.baseline, base))
        )
        both = sorted(ours.keys() & theirs.keys())
        if not both:
            return now, base, False
        return [ours[repeat] for repeat in both], [theirs[repeat] for repeat in both], True


def value_of(snapshot: Snapshot, figure: str) -> float | None:
    """A figure of a snapshot in ns, bytes, per step or as a share; of times the median over processes."""
    match figure:
        case "step_time" | "launch_tax" | "true_idle":
            if not samples(snapshot, figure):
                return None
            return _of_step(snapshot, figure, median(median(timing.samples_ns) for timing in snapshot.timings))
        case "gpu_work":
            return snapshot.gpu_work_ns
        case "graph_memory":
            return snapshot.graph_memory_bytes
        case _:
            value: float | None = getattr(snapshot, figure, snapshot.figures.get(figure))
            return value


def samples(snapshot: Snapshot, figure: str) -> list[list[float]]:
    """A time in ns, or a share of the step time, by process; empty where it can't be told.

    W, waiting and the share of the launch tax were measured once for all processes: the step time alone varies.
    """
    if figure in snapshot.withheld:
        return []
    found = [[_of_step(snapshot, figure, ns) for ns in timing.samples_ns] for timing in snapshot.timings]
    return [[value for value in each if value is not None] for each in found if None not in each]


def _of_step(snapshot: Snapshot, figure: str, step_ns: float) -> float | None:
    """A time, or a share of the step time, of a step that takes so long; null where it can't be told."""
    work, tax = snapshot.gpu_work_ns, snapshot.launch_tax_share
    if figure == "step_time":
        return step_ns
    if work is None:
        return None
    idle_ns = (step_ns - work) * (1 - snapshot.waiting_share)
    match figure:
        case "launch_tax":
            return None if tax is None else tax * idle_ns
        case "true_idle":
            return idle_ns / step_ns
        case _:
            return None
