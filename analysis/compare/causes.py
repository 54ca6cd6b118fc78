"""What changed in a step from one snapshot to another, in words, and the place of a figure that is too high."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Final

from msgspec.structs import replace

from ..model.kernel_names import short_names
from ..model.names import is_compiled, kind_of_kernel, same_op, unnumbered, users_line
from ..model.trace import OpKind
from ..model.units import duration, number, plural, printable
from .documents import BlockingChangeDoc, CameDoc
from .likely_causes import (
    COVERAGE_NOISE,
    NOT_SPLIT,
    NOTEWORTHY,
    PACE,
    SAME,
    OfOperator,
    StepChanges,
    graph_change,
    of_changes,
    signed_duration,
)
from .snapshot import BlockingSite, KernelSite, LaunchSite, Snapshot

_LINE: Final = re.compile(r"\(\d+\)")


def causes(before: Snapshot, after: Snapshot) -> list[str]:
    """Sentences, the most important first; none where nothing changed."""
    more, fewer = _kernel_changes(before, after), _kernel_changes(after, before)
    short = short_names(sorted({change.name for change in (*more, *fewer)}))
    coverage = before.graph_coverage, after.graph_coverage
    changes = StepChanges(
        blocking_calls=_blocking_changes(before, after),
        graphs=graph_change((before.graph_launches, after.graph_launches), coverage),
        coverage=coverage,
        launches=(before.launches, after.launches),
        kernels=(before.kernels, after.kernels),
        memcpys=(before.memcpys, after.memcpys),
        kernels_before=_kernels(before),
        kernels_after=_kernels(after),
        came=more,
        went=fewer,
    )
    return list(of_changes(changes, short)) or [*_launches(before, after), *_pace(before, after)]


def look_first(figure: str, before: Snapshot | None, after: Snapshot) -> str | None:
    """The place that contributes the most to a figure of a step, or to what came of it; null where none is known."""
    match figure:
        case "blocking_calls":
            return _blocking_place(before, after)
        case "memcpys":
            return _kernel_place(before, after, OpKind.MEMCPY.word)
        case "kernels" | "gpu_work":
            return _kernel_place(before, after, OpKind.KERNEL.word)
        case "graph_memory" | "runs":
            return None
        case "step_time" if before is not None:
            return None  # what changed is told by the causes
        case "launches" | "graph_coverage" | "graph_launches" if _lost(before, after):
            return _blocking_place(before, after) or _launch_place(None, after)
        case _:
            return _launch_place(before, after)


def _lost(before: Snapshot | None, after: Snapshot) -> bool:
    was = 1.0 if before is None else before.graph_coverage
    return was is not None and after.graph_coverage is not None and was - after.graph_coverage > COVERAGE_NOISE


def _kernels(side: Snapshot) -> list[OfOperator]:
    return [
        OfOperator(site.name, site.operator, site.per_step)
        for site in side.kernel_sites
        if site.category == OpKind.KERNEL.word
    ]


def _launches(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """More or fewer launches by operator, where nothing else tells why."""
    was, now = _by_operator(before), _by_operator(after)
    if _know_operators(before.launch_sites) == _know_operators(after.launch_sites):
        for operator in sorted(was.keys() | now.keys(), key=lambda key: -abs(now.get(key, 0) - was.get(key, 0)))[:1]:
            change = round(now.get(operator, 0) - was.get(operator, 0), 3)
            if abs(change) > SAME:
                counts = f"{number(was.get(operator, 0))} → {number(now.get(operator, 0))} per step"
                which = "" if operator is None else f" from {printable(operator)}"
                word = "more" if change > 0 else "fewer"
                yield f"{plural(abs(change), 'launch', 'launches')} {word}{which} ({counts})."


def _pace(before: Snapshot, after: Snapshot) -> Iterator[str]:
    """The same GPU ops, slower or faster."""
    was, now = before.gpu_work_ns, after.gpu_work_ns
    if not was or not now or before.fingerprint != after.fingerprint or abs(now - was) < NOTEWORTHY * was:
        return
    changes = [(after_ns - before_ns, name) for name, before_ns, after_ns in _spent(before, after)]
    word, most, why = "slower" if now > was else "faster", "", PACE
    if changes:
        change, name = max(changes) if now > was else min(changes)
        most = f", most of it in {short_names([name])[name]} ({signed_duration(change)})"
        why = PACE if kind_of_kernel(name) is None else NOT_SPLIT
    yield f"The same GPU ops run {word}: {duration(was)} → {duration(now)} per step{most}: {why}."


def _spent(before: Snapshot, after: Snapshot) -> list[tuple[str, float, float]]:
    """Name, ns per step before and after, of the GPU ops that both have."""
    sides = []
    for side in (before, after):
        spent: dict[tuple[str, str], float] = defaultdict(float)
        for site in side.kernel_sites:
            spent[_op(site)] += site.ns_per_step
        sides.append(spent)
    was, now = sides
    return [(name, was[name, category], ns) for (name, category), ns in now.items() if (name, category) in was]


def _blocking_changes(before: Snapshot, after: Snapshot) -> list[BlockingChangeDoc]:
    """Calls that came or went, the largest change first; a line that only moved is no new call."""
    known = {_know_operators(side.blocking_sites) for side in (before, after) if side.blocking_sites}
    change = _change_by_call(before, after)
    if len(known) > 1 and min(change.values()) < -SAME:  # else what came has come, by whatever name
        before, after = _without_operators(before), _without_operators(after)
        change = _change_by_call(before, after)
    places: dict[tuple[str, str | None, tuple[str, ...]], list[float]] = defaultdict(lambda: [0.0, 0.0])
    stacks: dict[tuple[str, str | None, tuple[str, ...]], tuple[str, ...]] = {}
    for index, side in enumerate((before, after)):
        for site in side.blocking_sites:
            key = site.api, site.operator, tuple(_LINE.sub("()", frame) for frame in site.stack)
            places[key][index] += site.per_step
            stacks[key] = site.stack
    docs = [
        BlockingChangeDoc(
            api=api,
            operator=operator,
            stack=list(stacks[api, operator, stack]),
            before=was,
            after=now,
            change=round(now - was, 4),
        )
        for (api, operator, stack), (was, now) in places.items()
        if abs(change[api, operator]) > SAME and abs(now - was) > SAME
    ]
    return sorted(docs, key=lambda doc: (-abs(doc.change), doc.api, doc.operator or "", doc.stack))


def _change_by_call(before: Snapshot, after: Snapshot) -> dict[tuple[str, str | None], float]:
    change: dict[tuple[str, str | None], float] = defaultdict(float)
    for side, sign in ((before, -1), (after, 1)):
        for site in side.blocking_sites:
            change[site.api, site.operator] += sign * site.per_step
    return change


def _without_operators(side: Snapshot) -> Snapshot:
    return replace(side, blocking_sites=tuple(replace(site, operator=None, stack=()) for site in side.blocking_sites))


def _kernel_changes(before: Snapshot, after: Snapshot) -> list[CameDoc]:
    """GPU ops of which there are more after, the longest first."""
    was: dict[tuple[str, str], float] = defaultdict(float)
    for old in before.kernel_sites:
        was[_op(old)] += old.per_step
    found = []
    for site in after.kernel_sites:
        key = _op(site)
        count = round(site.per_step - was[key], 3)
        was[key] = max(was[key] - site.per_step, 0.0)
        if count > SAME:
            operator, inferred = _operator_of(site, count, before, after)
            operator = None if is_compiled(operator) else operator
            line = _line_of(operator, count, before, after)
            found.append(
                CameDoc(
                    name=site.name,
                    category=site.category,
                    operator=operator,
                    operator_inferred=inferred,
                    stack=[] if line is None else [line],
                    count=count,
                    ns=site.ns_per_step * count / site.per_step,
                )
            )
    return sorted(found, key=lambda change: (-change.ns, change.name))


def _operator_of(site: KernelSite, count: float, before: Snapshot, after: Snapshot) -> tuple[str | None, bool]:
    """The operator that makes more of them than before, and so many, else the one that makes most of this name."""
    found = _change_by_operator(before, after, kernels=site.category == OpKind.KERNEL.word)
    changes = {operator: change for operator, change in found.items() if change > SAME}
    if site.operator not in changes:
        fitting = [operator for operator, change in changes.items() if operator and abs(change - count) < SAME]
        if len(fitting) == 1:
            return fitting[0], False
        if site.category == OpKind.MEMCPY.word and count < site.per_step - SAME:
            return None, False  # which of several operators copies more is not known
    return site.operator, site.operator_inferred


def _change_by_operator(before: Snapshot, after: Snapshot, *, kernels: bool) -> dict[str | None, float]:
    """Change per step of kernels, or of launches of other ops, by operator; nothing where one side records none."""
    change: dict[str | None, float] = defaultdict(float)
    if _know_operators(before.launch_sites) and _know_operators(after.launch_sites):
        for side, sign in ((before, -1), (after, 1)):
            for site in side.launch_sites:
                change[site.operator] += sign * (
                    site.kernels_per_step if kernels else site.per_step - site.kernels_per_step
                )
    return change


def _line_of(operator: str | None, count: float, before: Snapshot, after: Snapshot) -> str | None:
    """The user's line from which this operator launches so many more than before; null unless both recorded lines."""
    sites = [site for site in after.launch_sites if site.operator == operator]
    grown = _grown(sites, [site for site in before.launch_sites if site.operator == operator])
    if not _knows_lines(before) or not _knows_lines(after):
        return None
    return next((site.line for change, site in grown if change <= count + SAME), None)


def _grown(after: Sequence[LaunchSite], before: Sequence[LaunchSite]) -> list[tuple[float, LaunchSite]]:
    """Places that launch more than before, those that grew the most first; a line that only moved did not."""
    was: dict[tuple[str | None, str], float] = defaultdict(float)
    for site in before:
        was[_maker(site), _unlined(site.line)] += site.per_step
    now: dict[tuple[str | None, str], float] = defaultdict(float)
    example: dict[tuple[str | None, str], LaunchSite] = {}
    for site in after:
        key = _maker(site), _unlined(site.line)
        now[key] += site.per_step
        example.setdefault(key, site)
    grown = [(count - was[key], example[key]) for key, count in now.items() if count - was[key] > SAME]
    return sorted(grown, key=lambda each: -each[0])


def _unlined(line: str | None) -> str:
    return _LINE.sub("()", line or "")


def _op(site: KernelSite) -> tuple[str, str]:
    """What tells the op in both snapshots."""
    return same_op(site.name, site.category), site.category


def _by_operator(side: Snapshot) -> dict[str | None, float]:
    counts: dict[str | None, float] = defaultdict(float)
    for site in side.launch_sites:
        counts[_maker(site)] += site.per_step
    return counts


def _maker(site: LaunchSite) -> str | None:
    return None if site.operator is None else unnumbered(site.operator)


def _know_operators(sites: Sequence[LaunchSite] | Sequence[BlockingSite]) -> bool:
    return any(site.operator is not None for site in sites)


def _knows_lines(side: Snapshot) -> bool:
    return any(site.line is not None for site in side.launch_sites)


def _launch_place(before: Snapshot | None, after: Snapshot) -> str | None:
    sites: Sequence[tuple[float, LaunchSite]] = [(site.per_step, site) for site in after.launch_sites]
    if before is not None and _know_operators(before.launch_sites) == _know_operators(after.launch_sites):
        sites = _grown(_alike(after, before), _alike(before, after)) or sites
    named = [each for each in sites if each[1].operator is not None] or sites
    named = [each for each in named if not is_compiled(each[1].operator)] or named
    if not named:
        return None
    count, site = named[0]
    if site.operator is None and site.line is None:
        return None
    where = "" if site.operator is None else f" from {printable(site.operator)}"
    return f"{plural(round(count, 2), 'launch', 'launches')} per step{where}{_at(site.line)}"


def _alike(side: Snapshot, other: Snapshot) -> Sequence[LaunchSite]:
    """Launch sites by operator alone where one of the two recorded no lines."""
    if _knows_lines(side) == _knows_lines(other):
        return side.launch_sites
    return [
        LaunchSite(operator=operator, per_step=count, kernels_per_step=0.0)
        for operator, count in _by_operator(side).items()
    ]


def _blocking_place(before: Snapshot | None, after: Snapshot) -> str | None:
    sites = [(site.per_step, site.api, site.operator, site.stack) for site in after.blocking_sites]
    if before is not None:
        changes = _blocking_changes(before, after)
        sites = [(doc.change, doc.api, doc.operator, tuple(doc.stack)) for doc in changes if doc.change > 0] or sites
    if not sites:
        return None
    count, api, operator, stack = sites[0]
    where = "" if operator is None else f" in {printable(operator)}"
    return f"{printable(api)}{where}{_at(users_line(stack))} ({number(round(count, 3))} per step)"


def _kernel_place(before: Snapshot | None, after: Snapshot, category: str) -> str | None:
    changes = [] if before is None else [doc for doc in _kernel_changes(before, after) if doc.category == category]
    if changes:
        first = max(changes, key=lambda doc: (not is_compiled(doc.name), doc.count))
        name, operator, count = first.name, first.operator, first.count
        line = first.stack[0] if first.stack else None
    else:
        sites = [site for site in after.kernel_sites if site.category == category]
        if not sites:
            return None
        site = max(sites, key=lambda each: each.per_step)
        name, operator, count = site.name, site.operator, site.per_step
        line = next((each.line for each in after.launch_sites if each.operator == operator), None)
    where = "" if operator is None else f" from {printable(operator)}"
    which = short_names([name])[name] if category == OpKind.KERNEL.word else printable(name)
    return f"{number(round(count, 2))} × {which} per step{where}{_at(line)}"


def _at(line: str | None) -> str:
    return "" if line is None else f", at {printable(line)}"
