"""Sections of the page with sentences and a table: two bands compared, and the graph doctor.

Two bands: likely causes, figures side by side, and what came, went or changed. The graph doctor: how far CUDA graphs
engaged, and what is in their way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

from ...analysis.compare.compare import compare, mode_figures
from ...analysis.compare.compare_story import BEYOND_SPREAD, INFERRED, change, counts, operator, side_by_side
from ...analysis.compare.documents import (
    BlockingChangeDoc,
    CameDoc,
    ComparisonDoc,
    LaunchChangeDoc,
    MergedDoc,
    OpsDoc,
    PairedDoc,
)
from ...analysis.compare.likely_causes import short_names_of, signed_duration
from ...analysis.figures.graphs.graph_story import engaged_lines, how, what
from ...analysis.model.advisor_documents import FindingDoc
from ...analysis.model.units import MISSING, apart, duration, number, one_line, printable
from ...analysis.profile.profile_story import graph_doctors
from ..band import Band
from ..opened_report import OpenedReport
from ..timeline.counterparts import alike_steps
from .figure_tables import waiting_words

MOST_ROWS: Final = 200  # of one table; the JSON document has them all
MOST_NAMES: Final = 5  # of one run of merged ops

STACK_DEPTH: Final = 3  # innermost frames of a blocking call


@dataclass(frozen=True)
class Section:
    """A part of the comparison: sentences, then a table of texts (none where ``rows`` is empty)."""

    key: str
    title: str
    sentences: tuple[str, ...] = ()
    columns: tuple[str, ...] = ()
    rows: tuple[tuple[str, ...], ...] = ()
    ops: tuple[tuple[str, int] | None, ...] = ()  # of each row: band and GPU op that show it in the timeline
    named: int = 0  # the column that has its name


def compare_sections(opened: OpenedReport, key_a: str, key_b: str) -> list[Section]:
    """What changed from one band to the other; sections with nothing in them are left out. None for unknown keys."""
    a, b = opened.band(key_a), opened.band(key_b)
    if a is None or b is None:
        return []
    found = a.kept(("compared", b.key), lambda: compare(a.analysis, b.analysis))
    page = _Page(a, b, found, short_names_of(found), tuple(waiting_words(opened.rank_sets, key_a, key_b)))
    sections = [page.causes(), page.figures(), *page.tables()]
    return [section for section in sections if section.rows or section.sentences]


@dataclass(frozen=True, eq=False)
class _Page:
    a: Band
    b: Band
    found: ComparisonDoc
    short: dict[str, str]
    waiting: tuple[str, ...]  # of two ranks, what each waits for the others

    def causes(self) -> Section:
        withheld: dict[str, list[str]] = {}
        for field, reason in self.found.withheld.items():
            withheld.setdefault(reason, []).append(field.replace("_", " "))
        reasons = [f"Not told: {', '.join(fields)}: {reason}." for reason, fields in withheld.items()]
        sentences = (*self.waiting, *self.found.likely_causes, *self.found.notes, *reasons)
        return Section("causes", f"From {self.a.label} to {self.b.label}", sentences)

    def figures(self) -> Section:
        modes = [] if self.a.mode is self.b.mode else mode_figures(self.a.mode, self.b.mode)
        rows = side_by_side(modes, self.found.figures, verbose=True)
        columns = ("per step" if self.found.scope == "step" else "in all", self.a.label, self.b.label, "change")
        return Section("figures", "Side by side", (), columns, tuple(rows))

    def tables(self) -> Iterator[Section]:
        found, per = self.found, "per step" if self.found.scope == "step" else "in all"
        alone = ("GPU op", "operator", per, f"time {per}")
        for key, docs, band in (("came", found.came, self.b), ("went", found.went, self.a)):
            yield self._table(key, f"Only in {band.label}", alone, [(self._alone(d), d.name) for d in docs], band)
        runs = ("before", "after", "ops", "times per step", "time before", "time after", "change")
        merged = [(self._merged(doc), doc.after[0].name) for doc in found.merged]
        yield replace(self._table("merged", "Merged, split or replaced", runs, merged, self.b), named=1)
        pairs = ("GPU op", "operator", per, "median before", "median after", "change per step", "steps differ by")
        for key, title, paired in (
            ("slower", "Slower", found.slower),
            ("faster", "Faster", found.faster),
            ("exchanged", "Another kernel of the same operator", found.exchanged),
        ):
            yield self._table(key, title, pairs, [(self._paired(doc), doc.name_after) for doc in paired], self.b)
        moved = [((self.short[doc.name], number(doc.count)), doc.name) for doc in found.moved]
        yield self._table("moved", "At another place of the step", ("GPU op", per), moved, self.b)
        calls = (self.a.label, self.b.label, "change")
        launches = [(_launches(doc), "") for doc in found.launches]
        yield self._table("launches", f"Launches {per}", ("API", "operator", *calls), launches)
        blocking = [(_blocking(doc), "") for doc in found.blocking_calls]
        yield self._table("blocking", "Blocking calls per step", ("API", "operator", "inside", *calls), blocking)

    def _table(
        self,
        key: str,
        title: str,
        columns: tuple[str, ...],
        rows: Sequence[tuple[tuple[str, ...], str]],
        band: Band | None = None,
    ) -> Section:
        """Rows, each with the name of the GPU op that shows it in this band's step. Those of GPU ops are inferred."""
        listed = rows[:MOST_ROWS]
        sentences = [INFERRED] if rows and band is not None and self.found.scope == "step" else []
        if key in ("slower", "faster") and rows:
            sentences.append(BEYOND_SPREAD)
        if len(rows) > len(listed):
            sentences.append(f"{number(len(rows) - len(listed))} more rows are in the JSON of the comparison.")
        firsts = {} if band is None else _first_ops(band)
        ops = tuple(None if band is None or name not in firsts else (band.key, firsts[name]) for _, name in listed)
        return Section(key, title, tuple(sentences), columns, tuple(row for row, _ in listed), ops)

    def _alone(self, doc: CameDoc) -> tuple[str, ...]:
        return self.short[doc.name], operator(doc), number(doc.count), duration(doc.ns)

    def _merged(self, doc: MergedDoc) -> tuple[str, ...]:
        sizes = f"{number(doc.ops_before)} → {number(doc.ops_after)}"
        times = (duration(doc.ns_before), duration(doc.ns_after), change(doc.ns_before, doc.ns_after, "ns"))
        return self._run(doc.before), self._run(doc.after), sizes, number(doc.count), *times

    def _run(self, ops: Sequence[OpsDoc]) -> str:
        names = [self.short[op.name] + (f" ×{op.count}" if op.count > 1 else "") for op in ops]
        more = [f"{len(names) - MOST_NAMES} more"] if len(names) > MOST_NAMES else []
        return " + ".join([*names[:MOST_NAMES], *more])

    def _paired(self, doc: PairedDoc) -> tuple[str, ...]:
        name = self.short[doc.name_after]
        if doc.name_before != doc.name_after:
            name = f"{self.short[doc.name_before]} → {name}"
        was, now = doc.median_before_ns, doc.median_after_ns
        medians = (apart(was, now, "ns"), apart(now, was, "ns"))
        return (
            name,
            operator(doc),
            number(doc.count),
            *medians,
            signed_duration(doc.change_ns),
            duration(doc.spread_ns),
        )


def _launches(doc: LaunchChangeDoc) -> tuple[str, ...]:
    return printable(doc.api), printable(doc.operator or MISSING), *counts(doc)


def _blocking(doc: BlockingChangeDoc) -> tuple[str, ...]:
    inside = " › ".join(printable(frame) for frame in doc.stack[-STACK_DEPTH:])
    return printable(doc.api), printable(doc.operator or MISSING), inside or MISSING, *counts(doc)


def _first_ops(band: Band) -> dict[str, int]:
    """By name the row of the first such GPU op of the typical step."""
    trace = band.analysis.context.trace
    return {trace.name(int(trace.gpu_ops.name[row])): row for row in alike_steps(band).ops[::-1].tolist()}


_COLUMNS: Final = ("#", "in the way of graphs", "what to do", "what says so")


def graph_sections(opened: OpenedReport) -> list[Section]:
    """One of a capture; of traces one each, those that tell the same together. None where nothing replays or should."""
    document = opened.report.document
    if document.profile is not None:
        doctors = graph_doctors(document.traces, document.profile)
        found = document.profile.graph_findings
        return list(_section(engaged_lines(doctors, found), found, ""))
    alike: dict[tuple[str, ...], list[str]] = {}
    sections = {}
    for band in opened.shown_first:
        doctor = band.analysis.document.graph_doctor
        if doctor is not None:
            lines = engaged_lines({"": doctor}, doctor.findings)
            key = (*lines, *(what(each) + how(each, verbose=True) for each in doctor.findings))
            alike.setdefault(key, []).append(band.label)
            sections[key] = (lines, doctor.findings)
    titles = {key: ", ".join(labels) if len(opened.first) > 1 else "" for key, labels in alike.items()}
    return [section for key, parts in sections.items() for section in _section(*parts, titles[key])]


def _section(lines: list[str], found: list[FindingDoc], title: str) -> Iterator[Section]:
    texts = ((what(each), how(each, verbose=False), "; ".join(each.evidence)) for each in found)
    rows = tuple((str(order), *map(one_line, words)) for order, words in enumerate(texts, 1))
    if lines or rows:
        yield Section("graphs", printable(title), tuple(lines), _COLUMNS if rows else (), rows)
