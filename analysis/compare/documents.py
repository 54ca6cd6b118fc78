"""What compare and check say: ``launchscope.compare/1``, ``launchscope.comparisons/1`` and ``launchscope.check/1``.

docs/compare.md and docs/guard.md describe every name. ``before`` is the first trace, ``after`` the second; a change is
after − before. Times are ns. Counts and times are per step where ``scope`` is 'step', and of the whole file where it is
'whole'. What rests on an alignment of the two is marked ``inferred``.
"""

from __future__ import annotations

from typing import Final

import msgspec

SCHEMA: Final = "launchscope.compare/1"
SCHEMA_OF_ALL: Final = "launchscope.comparisons/1"
CHECK_SCHEMA: Final = "launchscope.check/1"

HOLDS: Final = "holds"
REGRESSION: Final = "regression"
TO_FIX: Final = "to_fix"  # no baseline, another machine, an unreliable trace
INCONCLUSIVE: Final = "inconclusive"  # too noisy, too few samples

EXIT_CODES: Final = {HOLDS: 0, REGRESSION: 1, TO_FIX: 2, INCONCLUSIVE: 3}
RUNS: Final = "runs"
"""The figure of a mode that failed, or that is lacking: whether it was measured at all, 1 or 0."""
GRAVEST_FIRST: Final = (REGRESSION, TO_FIX, INCONCLUSIVE, HOLDS)
"""A regression that was found stays one, whatever else could not be told."""


class SideDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One of the two traces."""

    name: str
    mode: str | None
    trace_pass: str | None = msgspec.field(name="pass")
    repeat: int | None
    path: str
    device: str | None  # name of the headline device
    steps: int  # kept
    unreliable: list[str]  # reasons; none: reliable


class FigureDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One figure side by side: of two recordings, or of two modes of profiles.

    Of recordings medians over kept steps; idle time is the mean over those with a successor.
    """

    name: str  # of recordings step_ns, busy_ns, kernels, …, idle_ns, idle.<cause>_ns, tax.<tax>_ns, graph_coverage
    unit: str  # ns, count, share, bytes
    before: float | None
    after: float | None
    change: float | None
    spread: float | None  # the larger p90 − p10 of the two over their steps; null where it can't be told


class OpsDoc(msgspec.Struct, frozen=True, kw_only=True):
    """GPU ops of one name and operator."""

    name: str
    category: str  # kernel, memcpy, memset
    operator: str | None
    operator_inferred: bool
    count: int


class CameDoc(msgspec.Struct, frozen=True, kw_only=True):
    """GPU ops without a counterpart in the other trace."""

    name: str
    category: str
    operator: str | None
    operator_inferred: bool
    stack: list[str]  # around the first one's launch, outermost first; of the names that took the most time
    count: float  # a whole number but between baselines
    ns: float
    inferred: bool = True


class MovedDoc(msgspec.Struct, frozen=True, kw_only=True):
    """GPU ops of both traces that run at another place of the step."""

    name: str  # without what two recordings call by other names: names.same_op
    count: int
    inferred: bool = True


class MergedDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Runs of GPU ops that went, and what came in their place, between the same neighbours."""

    before: list[OpsDoc]  # of one run, in order of their first
    after: list[OpsDoc]
    ops_before: int  # of one run
    ops_after: int
    count: int  # such runs
    ns_before: float  # of all of them
    ns_after: float
    inferred: bool = True


class PairedDoc(msgspec.Struct, frozen=True, kw_only=True):
    """GPU ops that have a counterpart each, by name."""

    name_before: str
    name_after: str
    operator: str | None
    operator_inferred: bool
    count: int
    median_before_ns: float  # of one op: what all take in the step in the middle, by their number
    median_after_ns: float
    change_ns: float  # of all of them in a step
    spread_ns: float | None  # the larger longest − shortest of the two's own steps; null with one alike step
    matched_by: str  # 'name', or 'operator': another kernel of the same operator between the same neighbours
    inferred: bool = True


class LaunchChangeDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Launches whose number changed; the operator is null where either trace records none."""

    api: str
    operator: str | None  # of torch.compile's own kernels without their number
    before: float
    after: float
    change: float


class BlockingChangeDoc(msgspec.Struct, frozen=True, kw_only=True):
    """Blocking calls inside steps whose number changed."""

    api: str
    operator: str | None
    stack: list[str]  # outermost first
    before: float
    after: float
    change: float


class ComparisonDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What changed. The ops of a step add up: pairs, moved, went (came) and merged."""

    schema: str = SCHEMA
    before: SideDoc
    after: SideDoc
    scope: str  # step, whole
    figures: list[FigureDoc]
    ops_before: int  # GPU ops of the steps that are aligned, 0 without
    ops_after: int
    pairs: int  # of them, aligned
    same_change_ns: float | None  # what those of one name take more in all; null without an alignment
    came: list[CameDoc]
    went: list[CameDoc]
    moved: list[MovedDoc]
    merged: list[MergedDoc]
    slower: list[PairedDoc]
    faster: list[PairedDoc]
    exchanged: list[PairedDoc]  # another kernel of the same operator, slower, faster or neither
    launches: list[LaunchChangeDoc]
    blocking_calls: list[BlockingChangeDoc]
    graph_coverage: str | None  # lost, won, fewer, more, same; null where either side's can't be told
    likely_causes: list[str]  # in words, the most important first
    notes: list[str]  # how far the two can be compared
    withheld: dict[str, str]  # field: why it can't be told

    def figure(self, name: str) -> FigureDoc | None:
        """The figure of this name, or None."""
        return next((figure for figure in self.figures if figure.name == name), None)


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

    schema: str = SCHEMA_OF_ALL
    launchscope: str
    before: ComparedSideDoc
    after: ComparedSideDoc
    comparisons: list[ComparedModeDoc]
    notes: list[str]  # what could not be compared, and how far the rest can


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


class CheckedSideDoc(msgspec.Struct, frozen=True, kw_only=True):
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

    current: CheckedSideDoc
    baseline: CheckedSideDoc | None
    differs: dict[str, list[str]]  # part of the machine: [baseline's, current's]
    findings: list[FindingDoc]
    causes: list[str]  # what changed in a step, in words, the likeliest cause first


class CheckDoc(msgspec.Struct, frozen=True, kw_only=True):
    """A finished check."""

    schema: str = CHECK_SCHEMA
    launchscope: str
    outcome: str
    exit_code: int
    parts: list[PartDoc]
    notes: list[str]  # what was not checked, and why
