"""Why two traces differ, in words: what a person would look at first stands first."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, Protocol

from .compare_document import BlockingChangeDoc, ComparisonDoc, FigureDoc, OpsDoc, PairedDoc
from .export.kernel_names import short_names
from .trace import OpKind
from .units import duration, number, plural, printable, share

TOLD: Final = 3  # operators, blocking calls, kernels of one kind that are told; tables have the rest

NOTEWORTHY: Final = 0.01
"""Share of a step's GPU work from which slower or faster kernels are a cause: the clock alone moves by less."""

ALIKE: Final = 0.05
"""Share of ops with a counterpart below which what stands in place of what says nothing; compiled, a fifth have."""

PACE: Final = "other clocks, other shapes, other neighbours, or something else on the GPU"

_LINE: Final = re.compile(r"\(\d+\): ")  # of a Python frame: 'model.py(42): forward'
_NOT_THE_USERS: Final = re.compile(r"(^|/)(torch|transformers|site-packages|dist-packages|lib/python[\d.]+)/|^<")


class OneSided(Protocol):
    """GPU ops of one name that one of two sides alone has, per step."""

    @property
    def name(self) -> str: ...
    @property
    def category(self) -> str: ...
    @property
    def operator(self) -> str | None: ...
    @property
    def operator_inferred(self) -> bool: ...
    @property
    def stack(self) -> Sequence[str]: ...  # outermost first
    @property
    def count(self) -> float: ...
    @property
    def ns(self) -> float: ...


def likely_causes(comparison: ComparisonDoc) -> list[str]:
    """Sentences, the most important first; one that says so when nothing changed."""
    if comparison.scope == "whole":
        return list(_of_whole_files(comparison))
    short = short_names_of(comparison)
    causes = [
        *blocking_sentences(comparison.blocking_calls),
        *_graphs(comparison),
        *_copies(comparison),
        *_other_ops(comparison, short),
        *_exchanged(comparison.exchanged, short),
        *_pace(comparison, short),
    ]
    causes += _host(comparison, explained=bool(causes))
    return causes or ["Nothing changed beyond what the traces' own steps differ by."]


def short_names_of(comparison: ComparisonDoc) -> dict[str, str]:
    """A short name for every GPU op of the comparison."""
    names = [doc.name for doc in (*comparison.came, *comparison.went)]
    names += [doc.name for doc in comparison.moved]
    names += [op.name for doc in comparison.merged for op in (*doc.before, *doc.after)]
    pairs = (*comparison.slower, *comparison.faster, *comparison.exchanged)
    return short_names(sorted({*names, *(name for doc in pairs for name in (doc.name_before, doc.name_after))}))


def _of_whole_files(comparison: ComparisonDoc) -> Iterator[str]:
    short = short_names_of(comparison)
    if comparison.graph_coverage in ("lost", "won"):
        yield from _graphs(comparison)
    for docs, where in ((comparison.came, comparison.after.name), (comparison.went, comparison.before.name)):
        if docs:
            names = ", ".join(short[doc.name] for doc in docs[:TOLD])
            yield f"{plural(len(docs), 'name')} of GPU ops only in {where}: {names}{', …' if len(docs) > TOLD else ''}."
    yield "More can't be told without steps on both sides."


def blocking_sentences(changes: Sequence[BlockingChangeDoc]) -> Iterator[str]:
    """Calls that came before those that went: a wait costs more than its own time."""
    for sign, what in ((1, "more"), (-1, "fewer")):
        rows = [row for row in changes if row.change * sign > 0]
        for row in rows[:TOLD]:
            where = "" if row.operator is None else f" in {row.operator}"
            line = users_line(row.stack)
            at = "" if line is None else f", at {printable(line)}"
            counts = f"{number(row.before)} → {number(row.after)} per step"
            yield f"{plural(abs(row.change), 'blocking call')} {what}: {row.api}{where}{at} ({counts})."
        if len(rows) > TOLD:
            yield f"{plural(len(rows) - TOLD, 'other blocking call')} {what}."


def users_line(stack: Sequence[str]) -> str | None:
    """The innermost Python frame of the user's own files, else the innermost one; None without any."""
    frames = [frame for frame in stack if _LINE.search(frame)]
    own = [frame for frame in frames if not _NOT_THE_USERS.search(frame)]
    return next(reversed(own or frames), None)


def _graphs(comparison: ComparisonDoc) -> Iterator[str]:
    if comparison.graph_coverage not in ("lost", "won"):
        return
    coverage, launches = comparison.figure("graph_coverage"), comparison.figure("launches")
    assert coverage is not None, "both scopes have it"
    assert launches is not None, "both scopes have it"
    yield graphs_sentence(
        comparison.graph_coverage,
        (launches.before, launches.after),
        (coverage.before, coverage.after),
        per=" per step" if comparison.scope == "step" else "",
    )


def graphs_sentence(
    what: str,
    launches: tuple[float | None, float | None],
    coverage: tuple[float | None, float | None],
    per: str = " per step",
) -> str:
    """Graph replays were lost or won."""
    counts = f"launches {number(launches[0])} → {number(launches[1])}"
    covered = f"{share(coverage[0])} → {share(coverage[1])} of the kernels run in graphs"
    return f"Graph replays were {what}: {counts}{per}, {covered}."


def _copies(comparison: ComparisonDoc) -> Iterator[str]:
    copies = comparison.figure("memcpys")
    if copies is None or not copies.change:
        return
    yield copies_sentence(copies.before, copies.after, comparison.came if copies.change > 0 else comparison.went)


def copies_sentence(before: float | None, after: float | None, ops: Iterable[OneSided]) -> str:
    """More memory copies than before, or fewer; of the ops that one side alone has, the copies are named."""
    change = (after or 0.0) - (before or 0.0)
    copies = [op for op in ops if op.category == OpKind.MEMCPY.word]
    which = ", ".join(f"{printable(op.name)}{_in_operator(op)}" for op in copies[:TOLD])
    count = f"{plural(abs(change), 'memory copy', 'memory copies')} {_more(change)} per step"
    return f"{count}{': ' + which if which else ''} ({number(before)} → {number(after)})."


def _more(change: float) -> str:
    return "more" if change > 0 else "fewer"


def _in_operator(doc: OneSided | PairedDoc) -> str:
    return "" if doc.operator is None else f" in {printable(doc.operator)}{' (inferred)' * doc.operator_inferred}"


def _other_ops(comparison: ComparisonDoc, short: Mapping[str, str]) -> list[str]:
    """GPU ops that came, went or were merged, those of the most ops first."""
    told = [
        *alone_sentences(comparison.came, "extra", short),
        *alone_sentences(comparison.went, "fewer", short),
        *_merged(comparison, short),
    ]
    return [sentence for _, sentence in sorted(told, key=lambda each: -each[0])]


def alone_sentences(docs: Iterable[OneSided], what: str, short: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Kernels that one side alone runs, by operator; each sentence with the number of ops that it is about."""
    by_operator: dict[str | None, list[OneSided]] = {}
    for doc in docs:
        if doc.category != OpKind.MEMCPY.word:
            by_operator.setdefault(doc.operator, []).append(doc)
    ranked = sorted(by_operator.items(), key=lambda item: (-sum(doc.count for doc in item[1]), item[0] or ""))
    for operator, its in ranked[:TOLD]:
        count, spent_ns = sum(doc.count for doc in its), sum(doc.ns for doc in its)
        first = max(its, key=lambda doc: doc.count)
        line = users_line(first.stack)
        where = "" if operator in (None, first.name) else _in_operator(first).replace(" in ", " from ", 1)
        where += "" if line is None else f", at {printable(line)}"
        more = f" and {len(its) - 1} more" if len(its) > 1 else ""
        kernels = plural(count, f"{what} kernel")
        yield count, f"{kernels}{where} per step, {duration(spent_ns)}: {short[first.name]}{more}."
    if len(ranked) > TOLD:
        rest = sum(doc.count for _, its in ranked[TOLD:] for doc in its)
        yield 0, f"{plural(rest, f'{what} kernel')} from {plural(len(ranked) - TOLD, 'other operator')} per step."


def _merged(comparison: ComparisonDoc, short: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    docs = comparison.merged
    if not docs:
        return
    before, after = sum(doc.count * doc.ops_before for doc in docs), sum(doc.count * doc.ops_after for doc in docs)
    what = "were merged into" if before > after else "were split into" if before < after else "were replaced by"
    spent = f"{duration(sum(d.ns_before for d in docs))} → {duration(sum(d.ns_after for d in docs))} of GPU time"
    launches = comparison.figure("launches")
    if launches is not None and launches.change:
        spent += f", launches {number(launches.before)} → {number(launches.after)}"
    if comparison.pairs < ALIKE * max(comparison.ops_before, comparison.ops_after):
        shared = f"{number(comparison.pairs)} of {number(comparison.ops_before)} and {number(comparison.ops_after)}"
        yield max(before, after), f"Hardly any GPU op of the two steps is the same ({shared}): two models? ({spent})."
        return
    example = f"{_run(docs[0].before, short)} → {_run(docs[0].after, short)}"
    sentence = f"{plural(before, 'GPU op')} {what} {number(after)} per step ({spent}), as {example} (inferred)."
    yield max(before, after), sentence


def _run(ops: Sequence[OpsDoc], short: Mapping[str, str]) -> str:
    shown = " + ".join(short[op.name] + (f" ×{op.count}" if op.count > 1 else "") for op in ops[:TOLD])
    return shown + (f" + {len(ops) - TOLD} more" if len(ops) > TOLD else "")


def _exchanged(docs: Sequence[PairedDoc], short: Mapping[str, str]) -> Iterator[str]:
    for doc in docs[:TOLD]:
        names = f"{short[doc.name_before]} → {short[doc.name_after]}"
        yield f"Another kernel{_in_operator(doc)}: {names}, {signed_duration(doc.change_ns)} per step (inferred)."


def _pace(comparison: ComparisonDoc, short: Mapping[str, str]) -> Iterator[str]:
    """The same kernels, slower or faster."""
    busy = comparison.figure("busy_ns")
    work = 0.0 if busy is None else max(busy.before or 0.0, busy.after or 0.0)
    for docs, word in ((comparison.slower, "slower"), (comparison.faster, "faster")):
        same = [doc for doc in docs if doc.matched_by == "name"]
        change = sum(doc.change_ns for doc in same)
        if not same or abs(change) < NOTEWORTHY * work:
            continue
        first = same[0]
        each = f"{duration(first.median_before_ns)} → {duration(first.median_after_ns)} each"
        kernels = plural(sum(doc.count for doc in same), "kernel")
        most = f"most of it in {short[first.name_before]}, {each}"
        yield f"The same kernels run {word}: {signed_duration(change)} per step in {kernels}, {most}: {PACE}."


def _host(comparison: ComparisonDoc, *, explained: bool) -> Iterator[str]:
    """The step took longer, or less long, with the same work: the host's doing."""
    step = comparison.figure("step_ns")
    if explained or step is None or not step.change or not _beyond_spread(step):
        return
    sign = math.copysign(1.0, step.change)
    idle = {f.name: f.change * sign for f in comparison.figures if f.name.startswith("idle.") and f.change}
    largest = max(idle, key=lambda name: idle[name], default=None)
    if largest is None or idle[largest] <= 0:
        return
    word, cause = "longer" if sign > 0 else "shorter", largest.removeprefix("idle.").removesuffix("_ns")
    why = "the host (Python, dispatcher, CPU clock, another process), not the GPU work"
    yield f"The step takes {duration(abs(step.change))} {word} with the same GPU ops, most in idle `{cause}`: {why}."


def signed_duration(ns: float) -> str:
    """A change: ``+2.00 µs``."""
    return f"+{duration(ns)}" if ns > 0 else duration(ns)


def _beyond_spread(figure: FigureDoc | None) -> bool:
    return (
        figure is not None
        and figure.change is not None
        and figure.spread is not None
        and abs(figure.change) > max(figure.spread, NOTEWORTHY * abs(figure.before or 0.0))
    )
