"""What a check found: schema ``launchscope.check/1``; docs/guard.md describes every name."""

from __future__ import annotations

from typing import Final

import msgspec

SCHEMA: Final = "launchscope.check/1"

HOLDS: Final = "holds"
REGRESSION: Final = "regression"
TO_FIX: Final = "to_fix"  # no baseline, another machine
INCONCLUSIVE: Final = "inconclusive"  # too noisy, too few samples, an unreliable trace

EXIT_CODES: Final = {HOLDS: 0, REGRESSION: 1, TO_FIX: 2, INCONCLUSIVE: 3}
RUNS: Final = "runs"
"""The figure of a mode that failed, or that is lacking: whether it was measured at all, 1 or 0."""
GRAVEST_FIRST: Final = (REGRESSION, TO_FIX, INCONCLUSIVE, HOLDS)
"""A regression that was found stays one, whatever else could not be told."""


class IntervalDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A relative change, as a share of the baseline, and the interval that holds it (level in docs/guard.md)."""

    change: float
    low: float | None  # null with too few processes
    high: float | None
    paired: bool  # both were measured in turn in one run
    processes: int  # of the current side, or pairs
    processes_baseline: int
    between_runs: float  # share by which the interval was widened because the runs are two


class FindingDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One limit on one figure of one target and mode."""

    target: str
    mode: str
    figure: str  # launches, kernels, step_time, …
    unit: str  # count, share, ns, bytes
    limit: str  # as it was written: '<= 300', '+3%'
    where: str  # what asked for it: 'launchscope.toml [limits.graph]', '--require-graph', 'default'
    outcome: str  # holds, regression, to_fix, inconclusive
    measured: float | None
    allowed: float | None  # the value that the limit comes to
    baseline: float | None
    interval: IntervalDoc | None  # of times against a baseline
    needed_processes: int | None  # 'can't tell with this many': at least so many; null where more don't help
    message: str  # in one sentence
    first_look: str | None  # where to look first; null when it holds


class SideDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What was checked, or what it was checked against."""

    source: str
    target: str
    mode: str
    commit: str | None
    created: str | None
    processes: int  # with unprofiled samples
    machine: dict[str, str | int | float | bool | None]  # gpu, driver, cuda, torch


class PartDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One target in one mode."""

    current: SideDoc
    baseline: SideDoc | None
    differs: dict[str, list[str]]  # part of the machine: [baseline's, current's]
    findings: list[FindingDoc]
    causes: list[str]  # what changed in a step, in words, the likeliest cause first


class CheckDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A finished check."""

    schema: str = SCHEMA
    launchscope: str
    outcome: str
    exit_code: int
    parts: list[PartDoc]
    notes: list[str]  # what was not checked, and why
