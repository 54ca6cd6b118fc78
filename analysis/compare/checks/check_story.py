"""A finished check, told: the answer, then per target and mode a table, and for each failure where to look first."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final

import msgspec

from ...model.units import MISSING, plural
from ...render.outputs import json_text, outputs_of
from ...story.blocks import Block, Fact, Heading, Headline, Listing
from ...story.tables import Column, Row, Table
from ..check_document import HOLDS, REGRESSION, CheckDoc, FindingDoc, PartDoc, SideDoc
from . import words as check_words

CAUSES: Final = 5  # told without --verbose
COMMIT: Final = 12  # characters that tell commits apart
DATE: Final = 10  # characters of an ISO 8601 time


def _tell(doc: CheckDoc, *, verbose: bool) -> Iterator[Block]:
    """The whole story; ``verbose`` tells every cause, and those of parts that hold."""
    good = {HOLDS: True, REGRESSION: False}.get(doc.outcome)
    yield Headline(check_words.answer(doc), good)
    if doc.notes:
        yield Fact("notes", doc.notes)
    parts = [part for part in check_words.parts_in_order(doc) if part.findings or verbose]
    for part in parts:
        yield from _tell_part(part, divides=len(parts) > 1, verbose=verbose)


def _tell_part(part: PartDoc, *, divides: bool, verbose: bool) -> Iterator[Block]:
    yield Heading(check_words.where(part.current), _about(part.current), divides)
    if part.baseline is not None:
        yield Fact("baseline", [" · ".join(filter(None, [part.baseline.source, _about(part.baseline)]))])
    if part.differs:
        yield Fact("other machine", [_differs(part.differs)], concern=True)
    findings = sorted(part.findings, key=check_words.gravity)
    if findings:
        yield Listing(_table(findings).without_empty_columns(MISSING))
    failed = [finding for finding in findings if finding.outcome != HOLDS]
    yield from _failures(failed)
    if part.causes and (failed or verbose):
        yield _causes(part.causes, verbose=verbose)


def _failures(failed: Sequence[FindingDoc]) -> Iterator[Block]:
    """Each failure in a sentence, with where to look first; what several have in common is told once."""
    told: dict[tuple[str, str | None], list[str]] = {}
    for finding in failed:
        told.setdefault((finding.message, finding.first_look), []).append(finding.figure)
    for (message, first_look), (figure, *others) in told.items():
        also = [f"the same of {', '.join(others)}"] if others else []
        look = [] if first_look is None else [f"look first: {first_look}"]
        yield Fact(figure, [message, *also, *look], concern=True)


def _about(side: SideDoc) -> str:
    """Where figures come from."""
    gpu = side.machine.get("gpu")
    processes = plural(side.processes, "process", "processes") if side.processes else None
    return about(commit=side.commit, created=side.created, processes=processes, gpu=None if gpu is None else str(gpu))


def about(*, commit: str | None, created: str | None, **more: str | None) -> str:
    """What is known of where figures come from: commit, date, and more."""
    told = [None if commit is None else f"commit {_short(commit)}", None if created is None else created[:DATE]]
    return " · ".join(part for part in [*told, *more.values()] if part)


def _short(commit: str) -> str:
    return commit[:COMMIT] + ("+" if commit.endswith("+") and len(commit) > COMMIT else "")


def _differs(differs: dict[str, list[str]]) -> str:
    told = (f"{part} {now}, the baseline's {was}" for part, (was, now) in differs.items())
    return "; ".join(told)


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
    rows = [
        Row(
            [
                finding.figure,
                check_words.measured(finding),
                check_words.allowed(finding),
                check_words.WORDS[finding.outcome],
                check_words.baseline(finding),
                check_words.change(finding),
                check_words.processes(finding),
                finding.where,
            ],
            strong=finding.outcome == REGRESSION,
        )
        for finding in findings
    ]
    return Table(columns, rows)


def _causes(causes: Sequence[str], *, verbose: bool) -> Fact:
    told = causes if verbose else causes[:CAUSES]
    more = [f"{plural(len(causes) - len(told), 'more change')}: -v"] if len(told) < len(causes) else []
    return numbered("likely causes", told, more)


def numbered(label: str, sentences: Sequence[str], more: Sequence[str] = ()) -> Fact:
    """Sentences by their weight, with their numbers where there are several."""
    told = [f"{n}. {each}" for n, each in enumerate(sentences, 1)] if len(sentences) > 1 else list(sentences)
    return Fact(label, [*told, *more])


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
