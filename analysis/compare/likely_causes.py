"""Why two traces differ, in words: what a person would look at first stands first."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from ..model.kernel_names import short_names
from ..model.names import is_compiled, kind_of_kernel, users_line
from ..model.trace import OpKind
from ..model.units import apart, duration, number, plural, printable
from .documents import BlockingChangeDoc, CameDoc, ComparisonDoc, FigureDoc, OpsDoc, PairedDoc

MOST: Final = 3  # operators, blocking calls, kernels of one kind in a sentence; tables have the rest

NOTEWORTHY: Final = 0.01
"""Share of a step's GPU work from which slower or faster kernels are a cause: the clock alone moves by less."""

ALIKE: Final = 0.05
"""Share of ops with a counterpart below which what stands in place of what says nothing; compiled, a fifth have."""

SAME: Final = 1e-3
"""Counts per step that differ by less are the same: means that were shared out among places are rounded."""

_LONGEST_EXAMPLE: Final = 120  # characters of names; tables have the longer ones

PACE: Final = "other clocks, other shapes, other neighbours, or something else on the GPU"

NOT_SPLIT: Final = "waiting for other ranks, or transfer: their traces, given together, tell which"
"""Why collectives take longer or less long, as far as one rank's trace tells."""


COVERAGE_NOISE: Final = 0.005
"""Warm-up steps of a file are in its graph coverage: smaller changes say nothing."""

HARDLY_ANY: Final = 0.05
"""Share of kernels in graphs up to which a step is as good as without them."""

Pair = tuple[float | None, float | None]
"""A figure before and after."""


class OfOperator(NamedTuple):
    """Kernels of one name and its operator."""

    name: str
    operator: str | None
    per_step: float


class InCollectives(NamedTuple):
    """What one rank spends inside collectives, ns per step."""

    waiting_ns: float
    transfer_ns: float


class StepChanges(NamedTuple):
    """What changed in a step, between two recordings or two snapshots. Pairs are before and after, per step."""

    blocking_calls: Sequence[BlockingChangeDoc]
    graphs: str | None  # what ``graph_change`` says
    coverage: Pair
    launches: Pair
    kernels: Pair
    memcpys: Pair
    kernels_before: Sequence[OfOperator]  # all of them, not those alone that changed
    kernels_after: Sequence[OfOperator]
    came: Sequence[CameDoc]
    went: Sequence[CameDoc]


def likely_causes(
    comparison: ComparisonDoc,
    before: Sequence[OfOperator] = (),
    after: Sequence[OfOperator] = (),
    in_collectives: tuple[InCollectives, InCollectives] | None = None,
) -> list[str]:
    """Sentences, the most important first; one that says so when nothing changed.

    ``before`` and ``after`` are all kernels of a step: a comparison has those alone that changed. ``in_collectives``
    is null where waiting and transfer can't be told apart on either side.
    """
    if comparison.scope == "whole":
        return list(_of_whole_files(comparison))
    short = short_names_of(comparison)
    changes = StepChanges(
        blocking_calls=comparison.blocking_calls,
        graphs=comparison.graph_coverage,
        coverage=_pair(comparison, "graph_coverage"),
        launches=_pair(comparison, "launches"),
        kernels=_pair(comparison, "kernels"),
        memcpys=_pair(comparison, "memcpys"),
        kernels_before=before,
        kernels_after=after,
        came=comparison.came,
        went=comparison.went,
    )
    causes = [
        *_other_model(comparison),
        *of_changes(changes, short, _merged(comparison, short)),
        *_exchanged(comparison.exchanged, short),
        *_pace(comparison, short, in_collectives),
    ]
    causes += _host(comparison, explained=bool(causes))
    return causes or ["Nothing changed beyond what the traces' own steps differ by."]


def of_changes(
    changes: StepChanges, short: Mapping[str, str], merged: Iterable[tuple[float, str]] = ()
) -> Iterator[str]:
    """Sentences, the most important first. ``merged``: those of ops that were merged, with the number of ops."""
    yield from _blocking(changes.blocking_calls)
    yield from _graphs(changes.graphs, changes.launches, changes.coverage, " per step")
    yield from _compiled(changes.kernels_before, changes.kernels_after, changes.kernels)
    yield from _copies(changes)
    by_ops = [*_alone(changes.came, "extra", short), *_alone(changes.went, "fewer", short), *merged]
    yield from (sentence for _, sentence in sorted(by_ops, key=lambda each: -each[0]))


def _pair(comparison: ComparisonDoc, name: str) -> Pair:
    figure = comparison.figure(name)
    return (None, None) if figure is None else (figure.before, figure.after)


def short_names_of(comparison: ComparisonDoc) -> dict[str, str]:
    """A short name for every GPU op of the comparison."""
    names = [doc.name for doc in (*comparison.came, *comparison.went)]
    names += [doc.name for doc in comparison.moved]
    names += [op.name for doc in comparison.merged for op in (*doc.before, *doc.after)]
    pairs = (*comparison.slower, *comparison.faster, *comparison.exchanged)
    return short_names(sorted({*names, *(name for doc in pairs for name in (doc.name_before, doc.name_after))}))


def _of_whole_files(comparison: ComparisonDoc) -> Iterator[str]:
    short = short_names_of(comparison)
    launches, coverage = _pair(comparison, "launches"), _pair(comparison, "graph_coverage")
    yield from _graphs(comparison.graph_coverage, launches, coverage, "")
    for docs, where in ((comparison.came, comparison.after.name), (comparison.went, comparison.before.name)):
        if docs:
            names = ", ".join(short[doc.name] for doc in docs[:MOST])
            yield f"{plural(len(docs), 'name')} of GPU ops only in {where}: {names}{', …' if len(docs) > MOST else ''}."
    yield "More can't be told without steps on both sides."


def _blocking(changes: Sequence[BlockingChangeDoc]) -> Iterator[str]:
    """Calls that came before those that went: a wait costs more than its own time."""
    for sign, what in ((1, "more"), (-1, "fewer")):
        rows = [row for row in changes if row.change * sign > 0]
        for row in rows[:MOST]:
            where = "" if row.operator is None else f" in {row.operator}"
            line = users_line(row.stack)
            at = "" if line is None else f", at {printable(line)}"
            counts = f"{number(row.before)} → {number(row.after)} per step"
            yield f"{plural(abs(row.change), 'blocking call')} {what}: {row.api}{where}{at} ({counts})."
        if len(rows) > MOST:
            yield f"{plural(len(rows) - MOST, 'other blocking call')} {what}."


def _other_model(comparison: ComparisonDoc) -> Iterator[str]:
    if comparison.merged and _is_other_model(comparison):
        shared = f"{number(comparison.pairs)} of {number(comparison.ops_before)} and {number(comparison.ops_after)}"
        spent = _spent(comparison)
        yield f"Hardly any GPU op of the two steps is the same ({shared}): two models? ({spent})."


def _is_other_model(comparison: ComparisonDoc) -> bool:
    return comparison.pairs < ALIKE * max(comparison.ops_before, comparison.ops_after)


def graph_change(graph_launches: Pair, coverage: Pair) -> str | None:
    """``lost``, ``won``: a graph is launched less, or more, often, or hardly any kernel is in one now, or was before.

    ``fewer``, ``more``: of the kernels run in graphs, with the same replays. Graph launches are per step, None where
    they can't be told.
    """
    (launches, launches_now), (was, now) = graph_launches, coverage
    if was is None or now is None:
        return None
    if abs(now - was) <= COVERAGE_NOISE:
        return "same"
    by = 0.0 if launches is None or launches_now is None else launches_now - launches
    if now < was:
        return "lost" if by < 0 or now <= HARDLY_ANY else "fewer"
    return "won" if by > 0 or was <= HARDLY_ANY else "more"


def _graphs(what: str | None, launches: Pair, coverage: Pair, per: str) -> Iterator[str]:
    counts = f"launches {number(launches[0])} → {number(launches[1])}{per}"
    covered = f"{apart(*coverage, 'share')} → {apart(*coverage[::-1], 'share')}"
    if what in ("fewer", "more"):
        yield f"{what.title()} of the kernels run in graphs: {covered}, {counts}."
    elif what in ("lost", "won"):
        yield f"Graph replays were {what}: {counts}, {covered} of the kernels run in graphs."


def _compiled(before: Iterable[OfOperator], after: Iterable[OfOperator], kernels: Pair) -> Iterator[str]:
    """Operators that torch.compile had merged run on their own: a residual, a graph break, skipped code."""
    before = list(before)
    if not any(is_compiled(each.name) for each in before) or (kernels[1] or 0.0) <= (kernels[0] or 0.0):
        return
    was, now = _by_operator(before), _by_operator(after)
    alone = {operator: count for operator, count in now.items() if count > SAME and operator not in was}
    if alone:
        ranked = sorted(alone, key=lambda operator: (-alone[operator], operator))
        which = ", ".join(f"{printable(operator)} ({number(alone[operator])})" for operator in ranked[:MOST])
        more = f" and {len(ranked) - MOST} more" if len(ranked) > MOST else ""
        counts = f"kernels {number(kernels[0])} → {number(kernels[1])} per step"
        yield f"What torch.compile had merged runs on its own: {which}{more}, {counts}: a graph break, or skipped code."


def _by_operator(kernels: Iterable[OfOperator]) -> dict[str, float]:
    """Kernels per step by operator, those of torch.compile's own left out."""
    counts: dict[str, float] = defaultdict(float)
    for name, operator, per_step in kernels:
        if operator is not None and not is_compiled(name) and not is_compiled(operator):
            counts[operator] += per_step
    return {operator: round(count, 3) for operator, count in counts.items()}


def _copies(changes: StepChanges) -> Iterator[str]:
    """More memory copies than before, or fewer; of the ops that one side alone has, the copies are named."""
    was, now = changes.memcpys
    if was is None or now is None or abs(now - was) <= SAME:
        return
    alone = changes.came if now > was else changes.went
    copies = [op for op in alone if op.category == OpKind.MEMCPY.word]
    which = ", ".join(f"{printable(op.name)}{_in_operator(op)}" for op in copies[:MOST])
    count = f"{plural(abs(now - was), 'memory copy', 'memory copies')} {'more' if now > was else 'fewer'} per step"
    yield f"{count}{': ' + which if which else ''} ({number(was)} → {number(now)})."


def _in_operator(doc: CameDoc | PairedDoc) -> str:
    return "" if doc.operator is None else f" in {printable(doc.operator)}{' (inferred)' * doc.operator_inferred}"


def _alone(docs: Iterable[CameDoc], what: str, short: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    """Kernels and sets that one side alone runs, by operator; each sentence with the number of ops it is about."""
    by_operator: dict[tuple[str, str | None], list[CameDoc]] = {}
    for doc in docs:
        if doc.category != OpKind.MEMCPY.word:
            by_operator.setdefault((doc.category, doc.operator), []).append(doc)
    ranked = sorted(by_operator.items(), key=lambda item: (-sum(doc.count for doc in item[1]), item[0][1] or ""))
    for (category, operator), its in ranked[:MOST]:
        count, spent_ns = sum(doc.count for doc in its), sum(doc.ns for doc in its)
        first = max(its, key=lambda doc: doc.count)
        line = users_line(first.stack)
        where = "" if operator in (None, first.name) else _in_operator(first).replace(" in ", " from ", 1)
        where += "" if line is None else f", at {printable(line)}"
        more = f" and {len(its) - 1} more" if len(its) > 1 else ""
        ops = plural(count, f"{what} {category}")
        yield count, f"{ops}{where} per step, {duration(spent_ns)}: {short[first.name]}{more}."
    if len(ranked) > MOST:
        rest = sum(doc.count for _, its in ranked[MOST:] for doc in its)
        kinds = {category for (category, _), _ in ranked[MOST:]}
        ops = plural(rest, f"{what} {kinds.pop() if len(kinds) == 1 else 'GPU op'}")
        yield 0, f"{ops} from {plural(len(ranked) - MOST, 'other operator')} per step."


def _merged(comparison: ComparisonDoc, short: Mapping[str, str]) -> Iterator[tuple[float, str]]:
    docs = comparison.merged
    if not docs or _is_other_model(comparison):
        return
    before, after = sum(doc.count * doc.ops_before for doc in docs), sum(doc.count * doc.ops_after for doc in docs)
    what = "were merged into" if before > after else "were split into" if before < after else "were replaced by"
    examples = (f"{run_of_ops(doc.before, short)} → {run_of_ops(doc.after, short)}" for doc in docs)
    example = next((f", as {text}" for text in examples if len(text) <= _LONGEST_EXAMPLE), "")
    sentence = f"{plural(before, 'GPU op')} {what} {number(after)} per step ({_spent(comparison)}){example} (inferred)."
    yield max(before, after), sentence


def _spent(comparison: ComparisonDoc) -> str:
    """GPU time of the runs that stand in place of each other, and the launches of the step."""
    docs, launches = comparison.merged, comparison.figure("launches")
    spent = f"{duration(sum(d.ns_before for d in docs))} → {duration(sum(d.ns_after for d in docs))} of GPU time"
    if launches is not None and launches.change:
        spent += f", launches {number(launches.before)} → {number(launches.after)}"
    return spent


def run_of_ops(ops: Sequence[OpsDoc], short: Mapping[str, str]) -> str:
    """The first names of a run, ``gemm ×2 + silu``."""
    shown = " + ".join(short[op.name] + (f" ×{op.count}" if op.count > 1 else "") for op in ops[:MOST])
    return shown + (f" + {len(ops) - MOST} more" if len(ops) > MOST else "")


def _exchanged(docs: Sequence[PairedDoc], short: Mapping[str, str]) -> Iterator[str]:
    for doc in docs[:MOST]:
        names = f"{short[doc.name_before]} → {short[doc.name_after]}"
        yield f"Another kernel{_in_operator(doc)}: {names}, {signed_duration(doc.change_ns)} per step (inferred)."


def _pace(
    comparison: ComparisonDoc, short: Mapping[str, str], in_collectives: tuple[InCollectives, InCollectives] | None
) -> Iterator[str]:
    """The same GPU ops, slower or faster. A collective that takes longer is no slower kernel: it may wait."""
    busy, change = comparison.figure("busy_ns"), comparison.same_change_ns
    if change is None:
        return
    least = NOTEWORTHY * (0.0 if busy is None else max(busy.before or 0.0, busy.after or 0.0))
    same = [doc for doc in (*comparison.slower, *comparison.faster) if doc.matched_by == "name"]
    collectives = [doc for doc in same if kind_of_kernel(doc.name_before) is not None]
    if collectives and max(abs(doc.change_ns) for doc in collectives) >= least:
        yield _collectives_sentence(collectives, short, in_collectives)
    others = [doc for doc in same if doc not in collectives]
    of_others = change - _changed_by(collectives)
    yield from _slower_or_faster(others, of_others, least, short, but=" but collectives" if collectives else "")


def _slower_or_faster(
    docs: Sequence[PairedDoc], change_ns: float, least_ns: float, short: Mapping[str, str], *, but: str
) -> Iterator[str]:
    """``change_ns``: in all, of which the docs are what can be told."""
    sides = ([doc for doc in docs if doc.change_ns > 0], [doc for doc in docs if doc.change_ns <= 0])
    directions = [side for side in sorted(sides, key=lambda side: -abs(_changed_by(side))) if side]
    if not directions or abs(_changed_by(directions[0])) < least_ns:
        return
    parts = (
        f"{signed_duration(_changed_by(side))} in {number(sum(doc.count for doc in side))} ({_most(side, short)})"
        for side in directions
    )
    word = "slower" if change_ns > 0 else "faster"
    in_all = f"{signed_duration(change_ns)} per step, of which {' and '.join(parts)}"
    yield f"The same GPU ops{but} run {word}: {in_all}: {PACE}."


def _collectives_sentence(
    docs: Sequence[PairedDoc],
    short: Mapping[str, str],
    in_collectives: tuple[InCollectives, InCollectives] | None,
) -> str:
    change, why = _changed_by(docs), NOT_SPLIT
    if in_collectives is not None:
        why = ", ".join(
            f"{what} {apart(was, now, 'ns')} → {apart(now, was, 'ns')}"
            for what, was, now in zip(("waiting", "transfer"), *in_collectives, strict=True)
        )
    word, count = "longer" if change > 0 else "less long", number(sum(doc.count for doc in docs))
    largest = sorted(docs, key=lambda doc: -abs(doc.change_ns))
    most = _most(largest, short)
    return f"Collectives take {word}: {signed_duration(change)} per step in {count} ({most}): {why}."


def _most(docs: Sequence[PairedDoc], short: Mapping[str, str]) -> str:
    """``docs``: the largest change first."""
    return f"most of it in {short[docs[0].name_before]}, {medians(docs[0])} each"


def _changed_by(docs: Sequence[PairedDoc]) -> float:
    return sum(doc.change_ns for doc in docs)


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
    yield (
        f"As profiled, the step takes {duration(abs(step.change))} {word} with the same GPU ops, most in idle "
        f"`{cause}`: {why}."
    )


def signed_duration(ns: float) -> str:
    """A change: ``+2.00 µs``."""
    return f"+{duration(ns)}" if ns > 0 else duration(ns)


def medians(doc: PairedDoc) -> str:
    """Of one op before and after, with digits that tell them apart."""
    was, now = doc.median_before_ns, doc.median_after_ns
    return f"{apart(was, now, 'ns')} → {apart(now, was, 'ns')}"


def _beyond_spread(figure: FigureDoc | None) -> bool:
    return (
        figure is not None
        and figure.change is not None
        and figure.spread is not None
        and abs(figure.change) > max(figure.spread, NOTEWORTHY * abs(figure.before or 0.0))
    )
