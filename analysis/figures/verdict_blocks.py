"""The verdict, what to do next, warnings, withheld figures and unread files as blocks: of a trace, a mode, a rank."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Final

from ..model import units
from ..model.document import ActionDoc, EventDoc, SkippedDoc, UnreadDoc, VerdictDoc, WarningDoc
from ..model.units import MISSING, brief, duration, number, plural, share
from ..story import Column, Fact, Headline, Listing, Row, Table

_OF_A_SUMMARY: Final = re.compile(r"(?<=_ns)\.(median|p10|p90)$")
SHOWN: Final = 5  # warnings, and reasons for what is withheld, without --verbose


def headline(verdict: VerdictDoc, subject: str | None = None) -> Headline:
    """The verdict as a sentence."""
    name = verdict.verdict_class
    if name == "insufficient":
        return Headline(f"{subject + ': ' if subject else ''}NO VERDICT: {verdict.reason}", None)
    edge = " (on the edge)" if verdict.on_the_edge and "on the edge" not in verdict.reason else ""
    opening = f"{subject} is {name.upper()}" if subject else name.upper()
    return Headline(f"{opening}{edge}: {verdict.reason}", name == "gpu-bound")


def actions(
    proposed: Sequence[ActionDoc], step_ns: float | None, speedups: Mapping[str, float | None] | None = None
) -> Iterator[Listing]:
    """What to do next, numbered, each marked as measured or predicted; a mode's own speedup is the one to tell."""
    rows = []
    for order, action in enumerate(proposed, 1):
        after = action.step_ns
        left = "" if after is None else f"→ {duration(after)}"
        paired = (speedups or {}).get(action.mode or "")
        gain = "" if after is None or step_ns is None or after <= 0 else units.times(paired or step_ns / after)
        shown = "; ".join(text for text in (saving(action), action.detail, *reasons(action)) if text)
        rows.append(Row([str(order), action.what, left, gain, basis(action), shown]))
    if rows:
        columns = [
            Column("", right=False),
            Column("what to do next", right=False, least=22, wraps=True),
            Column("leaves"),
            Column("speedup"),
            Column("basis", right=False),
            Column("saves", right=False, least=20, wraps=True),
        ]
        yield Listing(Table(columns, rows, headless=True).without_empty_columns(""))


def basis(action: ActionDoc) -> str:
    """Measured or predicted; nothing where nobody told the gain."""
    open_ended = action.saves_ns is None and action.step_ns is None
    return "" if open_ended and (action.basis == "measured" or not saving(action)) else action.basis


def reasons(action: ActionDoc) -> Iterator[str]:
    """The evidence of what is predicted, and how to try it: measured ways have been tried."""
    if action.basis == "predicted":
        if action.evidence:
            yield action.evidence
        if action.how:
            yield f"try {action.how}"


def saving(action: ActionDoc) -> str:
    """What it saves, with its range."""
    low, high = duration(action.low_ns), duration(action.high_ns)
    known_range = MISSING not in (low, high) and low != high  # equal: closer than what is told of them
    start = f"{low} to" if action.low_ns else "at most"
    span = f"{start} {high}" if known_range else ""
    if action.saves_ns is None:
        return f"{span} to gain" if span else ""
    saves = f"saves {duration(action.saves_ns)} ({share(action.share)})"
    return f"{saves}, {span}" if span and action.basis != "measured" else saves


def warnings(found: Sequence[WarningDoc], *, verbose: bool, events: bool = False) -> Iterator[Fact]:
    """Warnings in full; without ``verbose`` the first few. ``events``: with the one record that proves each."""
    shown = found if verbose else found[:SHOWN]
    texts = [
        f"{warning.message} [{warning.code}]{_proof(warning.event) if events or verbose else ''}" for warning in shown
    ]
    if len(found) > len(shown):
        texts.append(f"… {plural(len(found) - len(shown), 'more warning')}")
    if texts:
        yield Fact("warnings", texts, concern=True)


def _proof(event: EventDoc | None) -> str:
    if event is None:
        return ""
    side = "after" if event.after_ns >= 0 else "before"
    return f" · seen in {brief(event.name)}, {duration(abs(event.after_ns))} {side} the first GPU op: {event.why}"


def withheld(reasons: dict[str, str], *, verbose: bool) -> Iterator[Fact]:
    """The figures that the data can't support; those that share a reason are told together, a summary as one."""
    paths: dict[str, dict[str, None]] = {}
    for path, reason in reasons.items():
        paths.setdefault(reason, {})[_OF_A_SUMMARY.sub("", path)] = None
    texts = [f"{', '.join(names)}: {reason}" for reason, names in paths.items()]
    shown = texts if verbose else texts[:SHOWN]
    if len(shown) < len(texts):
        shown = [*shown, f"… {len(texts) - len(shown)} more"]
    if shown:
        yield Fact("withheld", shown, concern=True)


def counted_files(read: int, unread: int, skipped: Sequence[SkippedDoc]) -> str | None:
    """``300 files: 285 read, 3 unread, 12 skipped, because …``; None where all were read."""
    if not unread and not skipped:
        return None
    left = sum(each.count for each in skipped)
    counts = {"read": read, "unread": unread, "skipped": left}
    line = ", ".join(f"{number(count)} {what}" for what, count in counts.items() if count or what == "read")
    why = "; ".join(f"{each.reason} ({_named(each)})" for each in skipped)
    return f"{plural(read + unread + left, 'file')}: {line}" + (f", because: {why}" if skipped else "")


def files_fact(read: int, unread: int, skipped: Sequence[SkippedDoc]) -> list[Fact]:
    """The line as a fact; none where all were read."""
    line = counted_files(read, unread, skipped)
    return [] if line is None else [Fact("files", [line], concern=unread > 0)]


def _named(skipped: SkippedDoc) -> str:
    more = f" and {skipped.count - 1:,} more" if skipped.count > 1 else ""
    return f"{skipped.first}{more}"


def unread_files(unread: list[UnreadDoc]) -> list[Listing]:
    """The files of which nothing is told, each with its reason."""
    if not unread:
        return []
    columns = [
        Column(f"{plural(len(unread), 'file')} not told", right=False, least=24, foreign=True),
        Column("reason", right=False, least=30, wraps=True),
    ]
    return [Listing(Table(columns, [Row([each.path, each.reason]) for each in unread]))]
