"""What changed from one trace to another: schema ``launchscope.compare/1``.

``before`` is the first trace, ``after`` the second; a change is after − before. Times are ns. Counts and times are
per step where ``scope`` is 'step', and of the whole file where it is 'whole'. What rests on an alignment of the two
is marked ``inferred``.
"""

from __future__ import annotations

from typing import Final

import msgspec

SCHEMA: Final = "launchscope.compare/1"


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
    count: int
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
