"""The GPU ops of two traces: which came, went, merged, moved, and which got slower or faster."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import msgspec
import numpy as np

from ..facts.alignment import Alignment, AlikeSteps, align
from ..facts.launches import launching_operators, stack_of_launch
from ..figures.analyses import TraceAnalysis
from ..figures.observer import KERNEL_STRETCH_NS
from ..model.names import is_compiled, same_op
from ..model.trace import NONE, Bools, Ints, OpKind
from .documents import CameDoc, MergedDoc, MovedDoc, OpsDoc, PairedDoc

MOST_STACKS: Final = 100
"""Names that came or went whose stacks are told, the longest ones: each is looked for among all host ops."""


_Run = tuple[tuple[tuple[str, tuple[str | None, bool]], int], ...]
"""GPU ops with their operators in order of their first, and how many of each."""


@dataclass(frozen=True)
class ComparedOps:
    """The parts of a comparison that are about GPU ops; docs of ``documents``."""

    ops_before: int = 0
    ops_after: int = 0
    pairs: int = 0
    same_change_ns: float | None = None
    came: list[CameDoc] = field(default_factory=list)
    went: list[CameDoc] = field(default_factory=list)
    moved: list[MovedDoc] = field(default_factory=list)
    merged: list[MergedDoc] = field(default_factory=list)
    slower: list[PairedDoc] = field(default_factory=list)
    faster: list[PairedDoc] = field(default_factory=list)
    exchanged: list[PairedDoc] = field(default_factory=list)


def align_either_way(a: TraceAnalysis, b: TraceAnalysis) -> Alignment:
    """The alignment of a's step (its reference) with b's; that of b with a is the same turned round.

    Of several longest common orders ``align`` takes one that depends on which side is the reference. Its map of
    operators is left out.
    """
    steps = [AlikeSteps.of(side.context).ops for side in (a, b)]
    keys = [
        (len(rows), [side.context.trace.name(name) for name in side.context.trace.gpu_ops.name[rows].tolist()])
        for side, rows in zip((a, b), steps, strict=True)
    ]
    if keys[0] <= keys[1]:
        return replace(align(a.context, b.context), operators={})
    found = align(b.context, a.context)
    return Alignment(
        reference_ops=found.other_ops,
        other_ops=found.reference_ops,
        reference_position=found.other_position,
        other_position=found.reference_position,
        by_name=found.by_name,
        operators={},
    )


def compare_ops(a: TraceAnalysis, b: TraceAnalysis, scope: str, withheld: dict[str, str]) -> ComparedOps:
    """By alignment of a typical step of each; without steps only by names that one of the two lacks."""
    if scope == "whole":
        return ComparedOps(came=_only_in(b, a), went=_only_in(a, b))
    found = align_either_way(a, b)
    before, after = _Side.of(a), _Side.of(b)
    merged, gone, new = [], [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for went, came in found.replacements():
        left, right = before.alike.places(went), after.alike.places(came)
        if len(went) and len(came):
            merged.append((left, right))
        else:
            gone.append(left)
            new.append(right)
    went, came, moved = _without_moved(before, np.concatenate(gone), after, np.concatenate(new))
    paired = _paired(before, after, found)
    for which, side in (("before", before), ("after", after)):
        if len(side.alike.rows) < 2:
            reason = f"only one step of its kind {which} ({side.analysis.context.name}): its own spread is not known"
            withheld |= dict.fromkeys(("slower", "faster"), reason)
    beyond_spread = [doc for doc, is_more in paired if is_more]
    result = ComparedOps(
        ops_before=len(before.alike.ops),
        ops_after=len(after.alike.ops),
        pairs=len(found),
        same_change_ns=sum(doc.change_ns for doc, _ in paired if doc.matched_by == "name"),
        came=_came(after, came),
        went=_came(before, went),
        moved=moved,
        merged=_merged(before, after, merged),
        slower=[doc for doc in beyond_spread if doc.change_ns > 0],
        faster=[doc for doc in beyond_spread if doc.change_ns < 0],
        exchanged=[doc for doc, _ in paired if doc.matched_by == "operator"],
    )
    _assert_adds_up(result)
    return result


@dataclass(frozen=True, eq=False)
class _Side:
    """One trace's steps, op by op of its typical step."""

    analysis: TraceAnalysis
    alike: AlikeSteps
    dur_ns: Ints  # [s, n]
    names: Sequence[str]  # [n]
    operators: Sequence[tuple[str | None, bool]]  # [n] operator, and whether it is inferred
    in_graph: Bools  # [n]

    @classmethod
    def of(cls, analysis: TraceAnalysis) -> _Side:
        trace, alike = analysis.context.trace, AlikeSteps.of(analysis.context)
        names = [trace.name(name) for name in trace.gpu_ops.name[alike.ops].tolist()]
        of_name = {doc.name: doc.operator for doc in analysis.document.kernels}
        recorded = launching_operators(trace, trace.gpu_ops.launch_row[alike.ops]).tolist()
        return cls(
            analysis=analysis,
            alike=alike,
            dur_ns=trace.gpu_ops.dur_ns[alike.rows],
            names=names,
            operators=[
                (of_name.get(name), of_name.get(name) is not None) if its == NONE else (trace.name(its), False)
                for name, its in zip(names, recorded, strict=True)
            ],
            in_graph=analysis.context.replays.op_replay[alike.ops] != NONE,
        )

    def op(self, place: int) -> OpsDoc:
        """This op, counted once."""
        operator, inferred = self.operators[place]
        return OpsDoc(
            name=self.names[place],
            category=self.category(place),
            operator=operator,
            operator_inferred=inferred,
            count=1,
        )

    def category(self, place: int) -> str:
        """kernel, memcpy or memset."""
        return OpKind(int(self.analysis.context.trace.gpu_ops.kind[self.alike.ops[place]])).word

    def same_op(self, place: int) -> str:
        """What this op is known by on the other side."""
        return same_op(self.names[place], self.category(place))

    def run(self, places: Ints) -> _Run:
        """What tells runs of ops apart; the numbers of torch.compile's kernels do not."""
        operators = (self.operators[place] for place in places.tolist())
        made_by = ((None, False) if is_compiled(operator) else (operator, its) for operator, its in operators)
        return tuple(Counter(zip(map(self.same_op, places.tolist()), made_by, strict=True)).items())

    def ns(self, places: Ints) -> float:
        """What these ops take together in a step: the median over the alike steps."""
        return float(np.median(self.dur_ns[:, places].sum(axis=1)))

    def stack(self, place: int) -> list[str]:
        """The stack around this op's launch, outermost first; empty where none is recorded."""
        trace = self.analysis.context.trace
        launch = int(trace.gpu_ops.launch_row[self.alike.ops[place]])
        return [] if launch == NONE else stack_of_launch(trace, launch)


def _assert_adds_up(ops: ComparedOps) -> None:
    moved = sum(doc.count for doc in ops.moved)
    for total, rest, merged in (
        (ops.ops_before, ops.went, sum(doc.count * doc.ops_before for doc in ops.merged)),
        (ops.ops_after, ops.came, sum(doc.count * doc.ops_after for doc in ops.merged)),
    ):
        assert ops.pairs + moved + sum(doc.count for doc in rest) + merged == total, "a step's ops add up"


def _without_moved(before: _Side, gone: Ints, after: _Side, new: Ints) -> tuple[Ints, Ints, list[MovedDoc]]:
    """Places of the ops that went and came, without those that only run at another place of the step."""
    was, now = (Counter(map(side.same_op, places.tolist())) for side, places in ((before, gone), (after, new)))
    moved = was & now

    def rest(side: _Side, places: Ints) -> Ints:
        left = Counter(moved)
        kept = []
        for place in places.tolist():
            if left[side.same_op(place)]:
                left[side.same_op(place)] -= 1
            else:
                kept.append(place)
        return np.array(kept, dtype=np.int64)

    docs = [MovedDoc(name=name, count=count) for name, count in sorted(moved.items())]
    return rest(before, gone), rest(after, new), docs


def _came(side: _Side, places: Ints) -> list[CameDoc]:
    """Ops of one side alone by name and operator, the longest first."""
    groups: dict[OpsDoc, list[int]] = defaultdict(list)
    for place in places.tolist():
        groups[side.op(place)].append(place)
    ranked = sorted(
        ((side.ns(np.array(its)), op, its[0], len(its)) for op, its in groups.items()),
        key=lambda group: (-group[0], group[1].name, group[1].operator or ""),
    )
    return [
        CameDoc(
            **msgspec.structs.asdict(op) | {"count": count},
            stack=side.stack(first) if rank < MOST_STACKS else [],
            ns=ns,
        )
        for rank, (ns, op, first, count) in enumerate(ranked)
    ]


def _merged(before: _Side, after: _Side, runs: Iterable[tuple[Ints, Ints]]) -> list[MergedDoc]:
    """Runs of the same ops on both sides are told once, by the names of the first; what changed the most first."""
    groups: dict[tuple[_Run, _Run], list[tuple[Ints, Ints]]] = defaultdict(list)
    for left, right in runs:
        groups[before.run(left), after.run(right)].append((left, right))
    docs = [
        MergedDoc(
            before=_counted(before, its_runs[0][0]),
            after=_counted(after, its_runs[0][1]),
            ops_before=len(its_runs[0][0]),
            ops_after=len(its_runs[0][1]),
            count=len(its_runs),
            ns_before=before.ns(np.concatenate([left for left, _ in its_runs])),
            ns_after=after.ns(np.concatenate([right for _, right in its_runs])),
        )
        for its_runs in groups.values()
    ]
    return sorted(docs, key=lambda doc: (-abs(doc.ns_after - doc.ns_before), -doc.count))


def _counted(side: _Side, places: Ints) -> list[OpsDoc]:
    """The ops of a run, equal ones together, in order of their first."""
    counts = Counter(side.op(place) for place in places.tolist())
    return [msgspec.structs.replace(op, count=count) for op, count in counts.items()]


def _paired(before: _Side, after: _Side, found: Alignment) -> list[tuple[PairedDoc, bool]]:
    """Aligned ops by their names, the largest change first; True where it is more than the traces' own spread."""
    groups: dict[tuple[str, str, bool, bool], list[tuple[int, int]]] = defaultdict(list)
    matched = zip(found.reference_position.tolist(), found.other_position.tolist(), found.by_name.tolist(), strict=True)
    for left, right, by_name in matched:
        recorded_alike = bool(before.in_graph[left] == after.in_graph[right])
        groups[before.names[left], after.names[right], by_name, recorded_alike].append((left, right))
    docs = []
    for (was, now, by_name, recorded_alike), places in groups.items():
        lefts, rights = (np.array(column) for column in zip(*places, strict=True))
        before_ns, after_ns = before.ns(lefts), after.ns(rights)
        spread_ns = _spread(before, lefts, after, rights)
        least_ns = len(places) * (0.0 if recorded_alike else KERNEL_STRETCH_NS)
        grid_ns = max(
            side.analysis.context.trace.grid_ns for side in (before, after)
        )  # of the two edges' errors together
        least_ns += len(places) * grid_ns if grid_ns > 1 else 0
        operator, inferred = _likelier(before.operators[lefts[0]], after.operators[rights[0]])
        doc = PairedDoc(
            name_before=was,
            name_after=now,
            operator=operator,
            operator_inferred=inferred,
            count=len(places),
            median_before_ns=before_ns / len(places),
            median_after_ns=after_ns / len(places),
            change_ns=after_ns - before_ns,
            spread_ns=spread_ns,
            matched_by="name" if by_name else "operator",
        )
        docs.append((doc, spread_ns is not None and abs(after_ns - before_ns) > max(spread_ns, least_ns)))
    return sorted(docs, key=lambda each: (-abs(each[0].change_ns), each[0].name_before))


def _likelier(*found: tuple[str | None, bool]) -> tuple[str | None, bool]:
    """An operator that was recorded before one that was inferred, and that before none."""
    return min(found, key=lambda its: (its[0] is None, its[1], its[0] or ""))


def _spread(before: _Side, lefts: Ints, after: _Side, rights: Ints) -> float | None:
    """The larger of how far apart the two traces' own steps are in what these ops take together; null with one step."""
    if min(len(before.dur_ns), len(after.dur_ns)) < 2:
        return None
    totals = (before.dur_ns[:, lefts].sum(axis=1), after.dur_ns[:, rights].sum(axis=1))
    return float(max(np.ptp(total) for total in totals))


def _only_in(side: TraceAnalysis, other: TraceAnalysis) -> list[CameDoc]:
    """Whole files: names of GPU ops that only one of the two has."""
    known = {same_op(doc.name, doc.category) for doc in other.document.kernels}
    return [
        CameDoc(
            name=doc.name,
            category=doc.category,
            operator=doc.operator,
            operator_inferred=doc.operator_inferred,
            stack=[],
            count=doc.count,
            ns=float(doc.total_ns),
            inferred=False,
        )
        for doc in side.document.kernels
        if same_op(doc.name, doc.category) not in known
    ]
