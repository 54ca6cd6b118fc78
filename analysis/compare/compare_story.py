"""A comparison, told: per mode T, the likely causes, the figures side by side, and what came, went and changed."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import msgspec

from ..figures.launches import stack_line
from ..figures.registry import values
from ..model.document import TAX_FIELDS
from ..model.names import users_line
from ..model.units import MISSING, apart, duration, duration_interval, number, plural, printable, share, times, written
from ..profile.mode_figures import MODE_FIGURES
from ..render import json_text, outputs_of
from ..story import Block, Column, Fact, Heading, Headline, Listing, Row, Table
from .check_story import about, changed, gpu_of, numbered
from .documents import (
    BlockingChangeDoc,
    CameDoc,
    ComparedDoc,
    ComparedModeDoc,
    ComparedSideDoc,
    ComparisonDoc,
    FigureDoc,
    KeptPromiseDoc,
    LaunchChangeDoc,
    PairedDoc,
    UnprofiledDoc,
)
from .likely_causes import medians, run_of_ops, short_names_of, signed_duration

WIDTH: Final = 100  # of what Comparison.show prints
ROWS: Final = 6  # of a table without --verbose
OF_OTHERS: Final = "a recording of others"

VISIBLE: Final = 0.005
"""How far apart two changes have to be for a reader to notice: three digits of a time tell it to half a per cent."""


INSIDE: Final = Column("inside", right=False, rank=1, least=24, foreign=True, spare=True)
MANY: Final = 10  # times as much: told as such, not in per cent

INFERRED: Final = "Inferred by aligning a step of each."

BEYOND_SPREAD: Final = (
    "Told where the change is more than the steps of either recording differ by; two processes that run the same "
    "code may differ by more."
)

SideBySide = tuple[str, str, str, str]
"""Label, before, after, change."""


WORDS: Final = {
    "step_ns": "step, as profiled",
    "window_ns": "recording",
    "busy_ns": "GPU work, as profiled",
    "idle_ns": "idle, as profiled",
    "gpu_ops": MODE_FIGURES["gpu_ops"].label,
    "memcpys": "memory copies",
    **{value.name: value.words for _, value in values()},
}
"""Figures of recordings whose names are no words; ``idle.<cause>_ns`` and ``tax.<tax>_ns`` are told by their parts."""

_FIGURE_OF_MODE: Final = {
    "step_ns": "step_ns",
    "busy_ns": "gpu_work_ns",
    "idle_ns": "exposed_idle_ns",
    "gpu_ops": "gpu_ops",
    "kernels": "kernels",
    "launches": "launches",
    **{f"tax.{tax}_ns": field for tax, field in TAX_FIELDS.items()},
}
"""What a recording has of a figure of its mode."""


def side_by_side(modes: Sequence[FigureDoc], recorded: Sequence[FigureDoc], *, verbose: bool) -> list[SideBySide]:
    """Figures that either side has: those of the modes, where there are any, then those of their recordings.

    Without ``verbose`` what recordings have of a figure that is known of both modes is left out, and idle time by
    cause. A count that recordings have is told where it is not the modes'.
    """
    of_mode = {figure.name: figure for figure in modes}
    rows = [_row(MODE_FIGURES[figure.name].label, figure) for figure in modes if figure.before or figure.after]
    for figure in recorded:
        its = of_mode.get(_FIGURE_OF_MODE.get(figure.name, ""))
        known = its is not None and its.change is not None
        same = its is not None and (its.before, its.after) == (figure.before, figure.after)
        left_out = same or known or figure.name.startswith("idle.") if not verbose else same
        if (figure.before or figure.after) and not left_out:
            as_recorded = ", as recorded" if its is not None and figure.unit == "count" else ""
            rows.append(_row(label(figure.name) + as_recorded, figure))
    return rows


def label(name: str) -> str:
    """A recording's figure of this name in words."""
    kind, _, part = name.removesuffix("_ns").partition(".")
    if part:
        return f"idle: {part}" if kind == "idle" else f"{MODE_FIGURES[TAX_FIELDS[part]].label}, as profiled"
    return WORDS.get(name, name.replace("_", " "))


def _row(words: str, figure: FigureDoc) -> SideBySide:
    was, now, unit = figure.before, figure.after, figure.unit
    return words, apart(was, now, unit), apart(now, was, unit), change(was, now, unit)


def change(before: float | None, after: float | None, unit: str) -> str:
    """With its sign: ``−11.2 ms (−83 %)``; of shares in points; a dash where either side is not known."""
    if before is None or after is None:
        return MISSING
    difference = after - before
    if not difference:
        return "0"
    sign = "+" if difference > 0 else ""
    if unit == "share":
        return f"{sign}{number(round(difference * 100, 1)).replace('-', '−')} points"
    text = f"{sign}{written(difference, unit).replace('-', '−')}"
    if not before:
        return text
    return f"{text} ({times(after / before) if after > MANY * before else sign + share(difference / before)})"


def operator(doc: CameDoc | PairedDoc) -> str:
    """The operator, and whether it is known from the other recording alone; a compiled kernel's is its own name."""
    if doc.operator in (None, doc.name if isinstance(doc, CameDoc) else doc.name_after):
        return MISSING
    return printable(doc.operator) + (" (inferred)" if doc.operator_inferred else "")


def place(doc: CameDoc | BlockingChangeDoc) -> str:
    """The user's line that it comes from; without Python frames what encloses the operator."""
    return users_line(doc.stack) or stack_line(doc.stack, doc.operator)


def counts(doc: LaunchChangeDoc | BlockingChangeDoc) -> tuple[str, str, str]:
    """Before, after, change."""
    return number(doc.before), number(doc.after), change(doc.before, doc.after, "count")


@dataclass(frozen=True, eq=False)
class Comparison:
    """What changed from one to the other, as ``launchscope.compare`` returns it."""

    document: ComparedDoc

    def to_json(self) -> bytes:
        """One JSON document."""
        return msgspec.json.format(msgspec.json.encode(self.document), indent=2)

    def show(self) -> None:
        """Print the comparison as the terminal shows it."""
        print(render_terminal(self, width=WIDTH, color=False, verbose=False))

    def _repr_markdown_(self) -> str:
        """Shown by a notebook."""
        return render_markdown(self)


def _tell(comparison: Comparison, *, verbose: bool) -> Iterator[Block]:
    """The whole story; ``verbose`` tells every row of every table."""
    doc = comparison.document
    if doc.before.target is not None or doc.after.target is not None or len(doc.comparisons) > 1:
        yield Heading(f"{doc.before.path} → {doc.after.path}")
    sides = {"before": _about(doc.before), "after": _about(doc.after)}
    if any(sides.values()):
        yield from (Fact(name, [known or OF_OTHERS]) for name, known in sides.items())
    if doc.notes:
        yield Fact("notes", doc.notes, concern=True)
    for each in doc.comparisons:
        yield from _Mode(each, short_names_of(each.comparison), verbose).tell(divides=len(doc.comparisons) > 1)


def _about(side: ComparedSideDoc) -> str:
    ranks = f"rank 0 of {side.ranks}" if side.ranks is not None and side.ranks > 1 else None
    return about(side, gpu_of(side), side.target, ranks)


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
        figures = side_by_side(self.doc.figures, self.found.figures, verbose=self.verbose)
        rows = [Row(list(row)) for row in figures]
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
        inferred = "\n(inferred)" if self.found.scope == "step" else ""
        head = Column(f"{title}{inferred}", right=False, least=max(20, len(title)), foreign=True)
        yield from self._listing([head, *columns], rows)

    def _listing(self, columns: Sequence[Column], rows: Sequence[list[str]]) -> Iterator[Listing]:
        shown = rows if self.verbose else rows[:ROWS]
        if shown:
            table = Table(columns, [Row(row) for row in shown], more=len(rows) - len(shown))
            yield Listing(table.without_empty_columns(MISSING))

    def _alone(self, doc: CameDoc) -> list[str]:
        inside = place(doc)
        return [self.short[doc.name], operator(doc), number(doc.count), duration(doc.ns), inside]

    def _merged(self) -> list[list[str]]:
        return [
            [
                run_of_ops(doc.before, self.short),
                run_of_ops(doc.after, self.short),
                f"{number(doc.ops_before)} → {number(doc.ops_after)}",
                number(doc.count),
                f"{duration(doc.ns_before)} → {duration(doc.ns_after)}",
                signed_duration(doc.ns_after - doc.ns_before),
            ]
            for doc in self.found.merged
        ]

    def _paired(self, doc: PairedDoc) -> list[str]:
        name = self.short[doc.name_after]
        if doc.name_before != doc.name_after:
            name = f"{self.short[doc.name_before]} → {name}"
        change = [medians(doc), signed_duration(doc.change_ns), duration(doc.spread_ns)]
        return [name, operator(doc), number(doc.count), *change]

    def _calls(self) -> Iterator[Listing]:
        counts = [Column("before"), Column("after"), Column("change")]
        operator = Column("operator", right=False, least=12, foreign=True)
        head = Column(f"launches\n{self.per}", right=False, least=16, foreign=True)
        yield from self._listing([head, operator, *counts], [_calls(doc) for doc in self.found.launches])
        head = Column("blocking calls\nper step", right=False, least=16, foreign=True)
        rows = [[*_calls(doc), place(doc)] for doc in self.found.blocking_calls]
        yield from self._listing([head, operator, *counts, INSIDE], rows)


def unprofiled(doc: UnprofiledDoc) -> str:
    """T without a profiler, and its change as far as it can be told."""
    its_change, span = changed(doc.change, doc.low, doc.high)
    was, now = doc.before_ns, doc.after_ns
    if was and abs(now / was - 1 - doc.change) > VISIBLE:
        its_change += " pair by pair" if doc.paired else " as the median of the ratios"
    times = f"T, unprofiled: {apart(was, now, 'ns')} → {apart(now, was, 'ns')}, {its_change}"
    have = plural(doc.processes_after, "pair")
    if not doc.paired:
        have = f"{number(doc.processes_before)} and {plural(doc.processes_after, 'process', 'processes')}"
    if doc.low is None or doc.high is None:
        needed = "" if doc.needed_processes is None else f", at least {doc.needed_processes} are needed"
        return f"{times}; too few processes to tell ({have}{needed})"
    sentence = f"{times} (99 %: {span}; {have})"
    return sentence if doc.low > 0 or doc.high < 0 else f"{sentence}: no change that can be told"


def _calls(doc: LaunchChangeDoc | BlockingChangeDoc) -> list[str]:
    return [doc.api, doc.operator or MISSING, *counts(doc)]


def _withheld(withheld: dict[str, str]) -> Iterator[Fact]:
    fields: dict[str, list[str]] = {}
    for field, reason in withheld.items():
        fields.setdefault(reason, []).append(field.replace("_", " "))
    if fields:
        yield Fact("not told", [f"{', '.join(names)}: {reason}" for reason, names in fields.items()])


render_terminal, render_json, render_markdown = outputs_of(_tell, lambda comparison: json_text(comparison.document))
