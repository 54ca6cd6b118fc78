"""A finished check, told: the answer, then per target and mode a table, and for each failure where to look first."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, Final

import msgspec

from ..model.units import MISSING, apart, number, percents, plural, written
from ..render import json_text, outputs_of
from ..story import Block, Column, Fact, Heading, Headline, Listing, Row, Table
from .baselines import Baseline
from .documents import (
    GRAVEST_FIRST,
    HOLDS,
    INCONCLUSIVE,
    REGRESSION,
    RUNS,
    TO_FIX,
    CheckDoc,
    CheckedSideDoc,
    ComparedSideDoc,
    FindingDoc,
    PartDoc,
)
from .finding import value_of
from .limits import FIGURES
from .snapshot import Snapshot

CAUSES: Final = 5  # shown without --verbose
COMMIT: Final = 12  # characters that tell commits apart
DATE: Final = 10  # characters of an ISO 8601 time
NAMED: Final = 3  # targets and modes that the answer names

ANSWERS: Final = {
    REGRESSION: ("REGRESSION", "is broken", "are broken", "all {} limits are broken"),
    TO_FIX: ("TO FIX", "can't be checked", "can't be checked", "none of {} limits can be checked"),
    INCONCLUSIVE: ("INCONCLUSIVE", "can't be told", "can't be told", "none of {} limits can be told"),
}
"""The outcome as a word, and what it makes of one limit, of several, and of all."""
WORDS: Final = {HOLDS: "holds", REGRESSION: "REGRESSION", TO_FIX: "to fix", INCONCLUSIVE: "can't tell"}

SITES: Final = 8  # operators that are shown
MINUTE: Final = 16  # characters of an ISO 8601 time

_LIST: Final = (
    Column("target", right=False, least=12, foreign=True),
    Column("mode", right=False),
    Column("gpu", right=False),
    Column("saved", right=False),
    Column("commit", right=False),
    Column("processes"),
    Column("file", right=False, behind=True, least=24, foreign=True),
)
_FIGURES: Final = (Column("figure", right=False), Column("value", right=False, least=24, wraps=True))
_SITES: Final = (
    Column("launches per step"),
    Column("operator", right=False, least=14, foreign=True),
    Column("inside", right=False, least=16, foreign=True),
)


def answer(doc: CheckDoc) -> str:
    """The whole check in one line: how many limits don't hold, and which."""
    limits = [finding for part in doc.parts for finding in part.findings]
    if not limits:
        return "Nothing was checked."
    if doc.outcome == HOLDS:
        return "The only limit holds." if len(limits) == 1 else f"All {number(len(limits))} limits hold."
    grave = sum(finding.outcome == doc.outcome for finding in limits)
    word, one, several, every = ANSWERS[doc.outcome]
    if len(limits) == 1:
        what = f"the only limit {one}"
    elif grave == len(limits):
        what = every.format(number(grave))
    else:
        what = f"{number(grave)} of {number(len(limits))} limits {one if grave == 1 else several}"
    return f"{word}: {what}: {_which_parts(doc.parts, doc.outcome)}"


def _which_parts(parts: Iterable[PartDoc], outcome: str) -> str:
    named = []
    for part in parts:
        figures = dict.fromkeys(finding.figure for finding in part.findings if finding.outcome == outcome)
        if figures:
            named.append(f"{where(part.current)} ({', '.join(figures)})")
    more = [f"and {number(len(named) - NAMED)} more"] if len(named) > NAMED else []
    return "; ".join([*named[:NAMED], *more])


def where(side: CheckedSideDoc) -> str:
    """Target and mode: ``llama_1b.py, graph``."""
    return f"{side.target}, {side.mode}"


def gravity(finding: FindingDoc) -> int:
    """What sorts a regression before the others, and what holds behind them."""
    return GRAVEST_FIRST.index(finding.outcome)


def parts_in_order(doc: CheckDoc) -> list[PartDoc]:
    """The part with the gravest finding first."""
    return sorted(doc.parts, key=lambda part: min(map(gravity, part.findings), default=len(GRAVEST_FIRST)))


def allowed(finding: FindingDoc) -> str:
    """The limit as it was written, and the value that it comes to where the baseline has a part in it."""
    if finding.figure == RUNS:
        return _value(finding, finding.allowed)
    if finding.allowed is None or not finding.limit.startswith(("+", "-")):
        return finding.limit
    return f"{finding.limit} ({apart(finding.allowed, finding.measured, finding.unit)})"


def _value(finding: FindingDoc, value: float | None, other: float | None = None) -> str:
    """One of its values, in digits that tell it from the other; whether a mode runs is a matter of yes and no."""
    if finding.figure == RUNS and value is not None:
        return "yes" if value else "no"
    return apart(value, other, finding.unit)


def change(finding: FindingDoc) -> str:
    """From the baseline: of a time in per cent with its interval and processes, of a count the difference."""
    interval = finding.interval
    if interval is not None:
        whole, unit = (finding.baseline or 0.0, "points") if finding.unit == "share" else (1.0, "%")
        low, high = (None if each is None else each * whole for each in (interval.low, interval.high))
        by, span = changed(interval.change * whole, low, high, unit)
        return f"{by} ({span})"
    if finding.measured is None or finding.baseline is None or finding.figure == RUNS:
        return MISSING
    difference = finding.measured - finding.baseline
    if not difference:
        return "0"
    size = abs(difference)
    by = f"{size * 100:.3g} points" if finding.unit == "share" else written(size, finding.unit)
    return f"{'+' if difference > 0 else '−'}{by}"


def processes(finding: FindingDoc) -> str:
    """How many processes a change rests on: ``8 pairs``, ``8, 8``."""
    interval = finding.interval
    if interval is None:
        return MISSING
    if interval.paired:
        return plural(interval.processes, "pair")
    return f"{number(interval.processes)}, {number(interval.processes_baseline)}"


def changed(change: float, low: float | None, high: float | None, unit: str = "%") -> tuple[str, str]:
    """A change and its interval, ``+5.1 %`` and ``+3.9 to +6.2 %``; in words where that has no ends."""
    if low is None or high is None:
        return percents(change, unit=unit)[0], "too few processes"
    by, first, last = percents(change, low, high, unit=unit)
    return by, f"{first.removesuffix(f' {unit}')} to {last}"


def in_words(finding: FindingDoc) -> dict[str, str]:
    """What is known of one finding, by what it is called in a table."""
    return {
        "measured": _value(finding, finding.measured, finding.allowed),
        "allowed": allowed(finding),
        "baseline": _value(finding, finding.baseline),
        "change": change(finding),
        "processes": processes(finding),
        "asked for by": finding.where,
    }


def details(finding: FindingDoc) -> list[str]:
    """Everything known of one finding, as ``name: value`` lines for outputs without a table."""
    values = in_words(finding) | {"look first": finding.first_look or MISSING}
    return [f"{name}: {value}" for name, value in values.items() if value != MISSING]


def _tell(doc: CheckDoc, *, verbose: bool) -> Iterator[Block]:
    """The whole story; ``verbose`` tells every cause, and those of parts that hold."""
    good = {HOLDS: True, REGRESSION: False}.get(doc.outcome)
    yield Headline(answer(doc), good)
    if doc.notes:
        yield Fact("notes", doc.notes)
    parts = [part for part in parts_in_order(doc) if part.findings or verbose]
    for part in parts:
        yield from _tell_part(part, divides=len(parts) > 1, verbose=verbose)


def _tell_part(part: PartDoc, *, divides: bool, verbose: bool) -> Iterator[Block]:
    yield Heading(where(part.current), _about(part.current), divides)
    if part.baseline is not None:
        yield Fact("baseline", [" · ".join(filter(None, [part.baseline.source, _about(part.baseline)]))])
    if part.differs:
        differs = (f"{name} {now}, the baseline's {was}" for name, (was, now) in part.differs.items())
        yield Fact("other machine", ["; ".join(differs)], concern=True)
    findings = sorted(part.findings, key=gravity)
    if findings:
        yield Listing(_table(findings).without_empty_columns(MISSING))
    failed = [finding for finding in findings if finding.outcome != HOLDS]
    yield from _failures(failed)
    if part.causes and (failed or verbose):
        more = 0 if verbose else len(part.causes) - CAUSES
        shown = part.causes[:CAUSES] if more > 0 else part.causes
        yield numbered("likely causes", shown, [f"{plural(more, 'more change')}: -v"] if more > 0 else [])


def _failures(failed: Sequence[FindingDoc]) -> Iterator[Block]:
    """Each failure in a sentence, with where to look first; what several have in common is alike once."""
    alike: dict[tuple[str, str | None], list[str]] = {}
    for finding in failed:
        alike.setdefault((finding.message, finding.first_look), []).append(finding.figure)
    for (message, first_look), (figure, *others) in alike.items():
        also = [f"the same of {', '.join(others)}"] if others else []
        look = [] if first_look is None else [f"look first: {first_look}"]
        yield Fact(figure, [message, *also, *look], concern=True)


def _about(side: CheckedSideDoc) -> str:
    """Where figures come from."""
    processes = plural(side.processes, "process", "processes") if side.processes else None
    return about(side, processes, gpu_of(side))


def about(side: CheckedSideDoc | ComparedSideDoc, *more: str | None) -> str:
    """What is known of where figures come from: commit, date, and more."""
    commit = None if side.commit is None else f"commit {_short(side.commit)}"
    return " · ".join(filter(None, [commit, (side.created or "")[:DATE], *more]))


def gpu_of(side: CheckedSideDoc | ComparedSideDoc) -> str | None:
    """The GPU's name, where it is known."""
    gpu = side.machine.get("gpu")
    return None if gpu is None else str(gpu)


def _short(commit: str) -> str:
    return commit[:COMMIT] + ("+" if commit.endswith("+") and len(commit) > COMMIT else "")


def _table(findings: Sequence[FindingDoc]) -> Table:
    is_estimate = any(finding.interval is not None for finding in findings)
    columns = (
        Column("figure", right=False),
        Column("measured"),
        Column("allowed"),
        Column("outcome", right=False),
        Column("baseline"),
        Column("change (99 %)" if is_estimate else "change"),
        Column("processes"),
        Column("asked for by", right=False, optional=True),
    )
    rows = []
    for finding in findings:
        measured, allowed, *others = in_words(finding).values()
        cells = [finding.figure, measured, allowed, WORDS[finding.outcome], *others]
        rows.append(Row(cells, strong=finding.outcome == REGRESSION))
    return Table(columns, rows)


def numbered(label: str, sentences: Sequence[str], more: Sequence[str] = ()) -> Fact:
    """Sentences by their weight, with their numbers where there are several."""
    lines = [f"{n}. {each}" for n, each in enumerate(sentences, 1)] if len(sentences) > 1 else list(sentences)
    return Fact(label, [*lines, *more])


def _render_json(doc: CheckDoc) -> str:
    return json_text(_encodable(msgspec.to_builtins(doc)))


def _encodable(value: Any) -> Any:
    """The same value with every text fit for UTF-8: names of files may hold bytes that are none."""
    match value:
        case str():
            return value.encode("utf-8", "backslashreplace").decode()
        case dict():
            return {_encodable(key): _encodable(each) for key, each in value.items()}
        case list() | tuple():
            return [_encodable(each) for each in value]
        case _:
            return value


render_terminal, render_json, render_markdown = outputs_of(_tell, _render_json)


def render_baselines(baselines: Sequence[Baseline], *, folder: Path, width: int, color: bool) -> str:
    """One row per baseline, then their files as the folder has them; ``width`` columns at most, 60 at least."""
    from ..render import terminal

    rows = []
    for each in baselines:
        its, file = each.snapshot, str(each.path.relative_to(folder))
        rows.append(Row([its.target, its.mode, *_origin(its), number(len(its.timings)), file]))
    return terminal.render([Listing(Table(_LIST, rows))], width=width, color=color)


def render_baseline_figures(baselines: Sequence[Baseline], *, width: int, color: bool) -> str:
    """Of each baseline where it is from, its figures, and the places that launch the most."""
    from ..render import terminal

    blocks = [
        block for index, each in enumerate(baselines) for block in _tell_baseline(each.snapshot, divides=index > 0)
    ]
    return terminal.render(blocks, width=width, color=color)


def _tell_baseline(snapshot: Snapshot, *, divides: bool) -> Iterator[Block]:
    yield Heading(f"{snapshot.target} · {snapshot.mode}", " · ".join(_origin(snapshot)), divides)
    rows = []
    for name, kind in FIGURES.items():
        value = value_of(snapshot, name)
        if value is not None:
            rows.append(Row([name, written(value, kind.unit)]))
        elif name in snapshot.withheld:
            rows.append(Row([name, f"{MISSING} ({snapshot.withheld[name]})"]))
    yield Listing(Table(_FIGURES, rows, headless=True))
    sites = snapshot.launch_sites[:SITES]
    if sites:
        places = [Row([number(its.per_step), its.operator or "no operator", its.line or MISSING]) for its in sites]
        more = len(snapshot.launch_sites) - len(sites)
        yield Listing(Table(_SITES, places, more).without_empty_columns(MISSING))


def _origin(snapshot: Snapshot) -> list[str]:
    """GPU, when it was saved, commit."""
    known = (snapshot.machine.get("gpu"), (snapshot.saved or "")[:MINUTE], (snapshot.commit or "")[:COMMIT])
    return [str(each or MISSING) for each in known]
