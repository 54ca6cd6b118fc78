"""A comparison, told: per mode T, the likely causes, the figures side by side, and what came, went and changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from ...model.units import MISSING, apart, duration, duration_interval, number, plural, share
from ...render.outputs import json_text, outputs_of
from ...story.blocks import Block, Fact, Heading, Headline, Listing
from ...story.tables import Column, Row, Table
from .. import compare_words
from ..compare_document import BlockingChangeDoc, CameDoc, ComparisonDoc, LaunchChangeDoc, OpsDoc, PairedDoc
from ..compared_document import ComparedModeDoc, ComparedSideDoc, KeptPromiseDoc, UnprofiledDoc
from ..likely_causes import medians, short_names_of, signed_duration
from . import words as check_words
from .check_story import about, numbered

if TYPE_CHECKING:
    from ..compared_paths import Comparison

ROWS: Final = 6  # of a table without --verbose
NAMES: Final = 3  # of one run of merged ops
OF_OTHERS: Final = "a recording of others"

VISIBLE: Final = 0.005
"""How far apart two changes have to be for a reader to notice: three digits of a time tell it to half a per cent."""


INSIDE: Final = Column("inside", right=False, rank=1, least=24, foreign=True, spare=True)


def _tell(comparison: Comparison, *, verbose: bool) -> Iterator[Block]:
    """The whole story; ``verbose`` tells every row of every table."""
    doc = comparison.document
    if doc.before.target is not None or doc.after.target is not None or len(doc.comparisons) > 1:
        yield Heading(f"{doc.before.path} → {doc.after.path}")
    sides = {"before": _about(doc.before), "after": _about(doc.after)}
    if any(sides.values()):
        yield from (Fact(name, [told or OF_OTHERS]) for name, told in sides.items())
    if doc.notes:
        yield Fact("notes", doc.notes, concern=True)
    for each in doc.comparisons:
        yield from _Mode(each, short_names_of(each.comparison), verbose).tell(divides=len(doc.comparisons) > 1)


def _about(side: ComparedSideDoc) -> str:
    gpu = side.machine.get("gpu")
    ranks = f"rank 0 of {side.ranks}" if side.ranks is not None and side.ranks > 1 else None
    gpu_name = None if gpu is None else str(gpu)
    return about(commit=side.commit, created=side.created, gpu=gpu_name, target=side.target, ranks=ranks)


def promise(doc: KeptPromiseDoc) -> Iterator[str]:
    """What was done of the advice, what it promised, and how much of that came."""
    yield "; ".join(doc.done)
    came = f"{duration(doc.came_ns)} of the step time {'went' if doc.came_ns >= 0 else 'came on top'}"
    if doc.promised_ns is None:
        yield f"what it would save was not predicted · {came}"
        return
    promised = duration_interval(doc.promised_ns, doc.promised_low_ns, doc.promised_high_ns)
    kept = "" if doc.share is None else f", {share(doc.share)} of it"
    doubt = "" if doc.told else "; too few processes to tell it from noise"
    yield f"{promised} predicted · {came}{kept}{doubt}"
    if doc.launches_promised is not None and doc.launches_came is not None:
        yield f"{number(round(doc.launches_promised))} launches predicted to go · {number(doc.launches_came)} went"


@dataclass(frozen=True)
class _Mode:
    """One mode's part of the story."""

    doc: ComparedModeDoc
    short: dict[str, str]
    verbose: bool

    @property
    def found(self) -> ComparisonDoc:
        return self.doc.comparison

    @property
    def per(self) -> str:
        return "per step" if self.found.scope == "step" else "in all"

    def tell(self, *, divides: bool) -> Iterator[Block]:
        yield Heading(self._name(), self._recorded(), divides)
        if self.doc.unprofiled is not None:
            yield Headline(unprofiled(self.doc.unprofiled))
        if self.doc.promise is not None:
            yield Fact("promised", list(promise(self.doc.promise)))
        yield numbered("likely causes", self.found.likely_causes)
        if self.found.notes:
            yield Fact("notes", self.found.notes, concern=True)
        yield self._figures()
        yield from self._ops()
        yield from self._calls()
        yield from _withheld(self.found.withheld)

    def _name(self) -> str:
        before, after = self.found.before, self.found.after
        if before.mode is None and after.mode is None and before.name != after.name:
            return f"{before.name} → {after.name}"
        return self.doc.name

    def _recorded(self) -> str:
        passes = [side.trace_pass or OF_OTHERS for side in (self.found.before, self.found.after)]
        by = f"by {passes[0]}" if passes[0] == passes[1] else f"by {passes[0]} and {passes[1]}"
        steps = f"{number(self.found.before.steps)} and {number(self.found.after.steps)} steps"
        return f"{by}, {steps}"

    def _figures(self) -> Listing:
        told = compare_words.side_by_side(self.doc.figures, self.found.figures, verbose=self.verbose)
        rows = [Row(list(row)) for row in told]
        columns = [Column(self.per, right=False), Column("before"), Column("after"), Column("change")]
        return Listing(Table(columns, rows or [Row(["nothing"] + [MISSING] * 3)]))

    def _ops(self) -> Iterator[Listing]:
        found, columns = self.found, [Column("operator", right=False, least=12, foreign=True), Column(self.per)]
        columns += [Column("time"), INSIDE]
        yield from self._table("came: only after", columns, [self._alone(doc) for doc in found.came])
        yield from self._table("went: only before", columns, [self._alone(doc) for doc in found.went])
        columns = [Column("in place of it", right=False, least=24, foreign=True)]
        columns += [Column("GPU ops\nof a run", rank=2, spare=True), Column(f"runs\n{self.per}", rank=1, spare=True)]
        columns += [Column("time", optional=True), Column("change")]
        yield from self._table("merged, split, replaced", columns, self._merged())
        columns = [Column("operator", right=False, least=12, foreign=True), Column(self.per)]
        columns += [Column("each", rank=1, spare=True), Column("change")]
        columns += [Column("steps differ by", rank=2, spare=True)]
        for title, docs in (("slower", found.slower), ("faster", found.faster), ("another kernel", found.exchanged)):
            yield from self._table(title, columns, [self._paired(doc) for doc in docs])
        if self.verbose:
            moved = [[self.short[doc.name], number(doc.count)] for doc in found.moved]
            yield from self._table("at another place of the step", [Column(self.per)], moved)

    def _table(self, title: str, columns: Sequence[Column], rows: Sequence[list[str]]) -> Iterator[Listing]:
        """A table of GPU ops, the largest change first; per step they are inferred."""
        if not rows:
            return
        told = rows if self.verbose else rows[:ROWS]
        inferred = "\n(inferred)" if self.found.scope == "step" else ""
        head = Column(f"{title}{inferred}", right=False, least=max(20, len(title)), foreign=True)
        table = Table([head, *columns], [Row(row) for row in told], more=len(rows) - len(told))
        yield Listing(table.without_empty_columns(MISSING))

    def _alone(self, doc: CameDoc) -> list[str]:
        inside = compare_words.place(doc)
        return [self.short[doc.name], compare_words.operator(doc), number(doc.count), duration(doc.ns), inside]

    def _merged(self) -> list[list[str]]:
        return [
            [
                self._run(doc.before),
                self._run(doc.after),
                f"{number(doc.ops_before)} → {number(doc.ops_after)}",
                number(doc.count),
                f"{duration(doc.ns_before)} → {duration(doc.ns_after)}",
                signed_duration(doc.ns_after - doc.ns_before),
            ]
            for doc in self.found.merged
        ]

    def _run(self, ops: Sequence[OpsDoc]) -> str:
        names = [self.short[op.name] + (f" ×{op.count}" if op.count > 1 else "") for op in ops]
        more = [f"{len(names) - NAMES} more"] if len(names) > NAMES else []
        return " + ".join([*names[:NAMES], *more])

    def _paired(self, doc: PairedDoc) -> list[str]:
        name = self.short[doc.name_after]
        if doc.name_before != doc.name_after:
            name = f"{self.short[doc.name_before]} → {name}"
        change = [medians(doc), signed_duration(doc.change_ns), duration(doc.spread_ns)]
        return [name, compare_words.operator(doc), number(doc.count), *change]

    def _calls(self) -> Iterator[Listing]:
        counts = [Column("before"), Column("after"), Column("change")]
        operator = Column("operator", right=False, least=12, foreign=True)
        head = Column(f"launches\n{self.per}", right=False, least=16, foreign=True)
        yield from self._counted([head, operator, *counts], [_launches(doc) for doc in self.found.launches])
        head = Column("blocking calls\nper step", right=False, least=16, foreign=True)
        rows = [_blocking(doc) for doc in self.found.blocking_calls]
        yield from self._counted([head, operator, *counts, INSIDE], rows)

    def _counted(self, columns: Sequence[Column], rows: Sequence[list[str]]) -> Iterator[Listing]:
        told = rows if self.verbose else rows[:ROWS]
        if told:
            table = Table(columns, [Row(row) for row in told], more=len(rows) - len(told))
            yield Listing(table.without_empty_columns(MISSING))


def unprofiled(doc: UnprofiledDoc) -> str:
    """T without a profiler, and its change as far as it can be told."""
    change, span = check_words.changed(doc.change, doc.low, doc.high)
    was, now = doc.before_ns, doc.after_ns
    if was and abs(now / was - 1 - doc.change) > VISIBLE:
        change += " pair by pair" if doc.paired else " as the median of the ratios"
    times = f"T, unprofiled: {apart(was, now, 'ns')} → {apart(now, was, 'ns')}, {change}"
    have = plural(doc.processes_after, "pair") if doc.paired else _of_two(doc)
    if doc.low is None or doc.high is None:
        needed = "" if doc.needed_processes is None else f", at least {doc.needed_processes} are needed"
        return f"{times}; too few processes to tell ({have}{needed})"
    told = f"{times} (99 %: {span}; {have})"
    return told if doc.low > 0 or doc.high < 0 else f"{told}: no change that can be told"


def _of_two(doc: UnprofiledDoc) -> str:
    return f"{number(doc.processes_before)} and {plural(doc.processes_after, 'process', 'processes')}"


def _launches(doc: LaunchChangeDoc) -> list[str]:
    return [doc.api, doc.operator or MISSING, *compare_words.counts(doc)]


def _blocking(doc: BlockingChangeDoc) -> list[str]:
    return [doc.api, doc.operator or MISSING, *compare_words.counts(doc), compare_words.place(doc)]


def _withheld(withheld: dict[str, str]) -> Iterator[Fact]:
    fields: dict[str, list[str]] = {}
    for field, reason in withheld.items():
        fields.setdefault(reason, []).append(field.replace("_", " "))
    if fields:
        yield Fact("not told", [f"{', '.join(names)}: {reason}" for reason, names in fields.items()])


render_terminal, render_json, render_markdown = outputs_of(_tell, lambda comparison: json_text(comparison.document))
