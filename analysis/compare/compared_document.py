"""Two captures or traces compared, mode by mode: schema ``launchscope.comparisons/1``; docs/compare.md describes it.

``before`` is what was named first, ``after`` the second. Times are ns.
"""

from __future__ import annotations

from typing import Final

import msgspec

from .compare_document import ComparisonDoc, FigureDoc

SCHEMA: Final = "launchscope.comparisons/1"


class ComparedSideDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What was named on the command line."""

    path: str
    target: str | None  # null for a trace without a capture
    commit: str | None
    created: str | None
    machine: dict[str, str | int | float | bool | None]  # gpu, driver, cuda, torch; empty for a trace
    ranks: int | None = None  # that ran each step together: all figures are of rank 0; null for a trace


class UnprofiledDoc(msgspec.Struct, frozen=True, kw_only=True):
    """T of one mode on both sides, measured without a profiler, and how far its change can be told."""

    before_ns: float
    after_ns: float
    change: float  # as a share of before: the median of all ratios, or of the means of every two pairs
    low: float | None  # of the 99 % interval; null with too few processes
    high: float | None
    processes_before: int
    processes_after: int
    paired: bool  # both were measured in turn in one run
    needed_processes: int | None  # per side, where there are too few for an interval


class KeptPromiseDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What the first one's advice promised by what the second one did of it, and what came. Per step."""

    done: list[str]
    promised_ns: float | None  # all of it together; null where a part of it was not predicted
    promised_low_ns: float | None
    promised_high_ns: float | None
    came_ns: float  # by which T fell, without a profiler; other changes included
    share: float | None  # came ÷ promised
    told: bool  # false: too few processes to tell the change of T from noise
    launches_promised: float | None  # null but where fusions were done in eager mode
    launches_came: float | None


class ComparedModeDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One mode, or one pair of traces."""

    name: str  # the mode, or the trace's
    trace_pass: str | None = msgspec.field(name="pass")  # of the recordings that are compared
    unprofiled: UnprofiledDoc | None  # null where either side was not timed
    figures: list[FigureDoc] = []  # the modes' own, named as in the report; none where either side was not timed
    comparison: ComparisonDoc
    promise: KeptPromiseDoc | None = None  # null where nothing was done that the first one proposed


class ComparedDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What changed from one to the other."""

    schema: str = SCHEMA
    launchscope: str
    before: ComparedSideDoc
    after: ComparedSideDoc
    comparisons: list[ComparedModeDoc]
    notes: list[str]  # what could not be compared, and how far the rest can
