"""What can be trusted, for people and programs: the outputs of ``launchscope doctor``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from .figures import parts, trace_story
from .figures.coverage import coverage_facts
from .model.units import MISSING, byte_size
from .profile.health import NO, DroppedStepDoc, TraceHealthDoc
from .render.outputs import json_text, outputs_of
from .report_story import unread_files
from .story.blocks import Block, Fact, Heading, Headline, Listing
from .story.counted_files import files_fact
from .story.tables import Column, Row, Table

if TYPE_CHECKING:
    from .report import Report


def _tell(report: Report, *, verbose: bool) -> Iterator[Block]:
    health = report.health()
    for trace in health.traces:
        yield from _tell_trace(trace, divides=len(health.traces) > 1, verbose=verbose)
    yield from files_fact(len(health.traces), len(health.unread), health.skipped)
    yield from unread_files(health.unread)


def _tell_trace(trace: TraceHealthDoc, *, divides: bool, verbose: bool) -> Iterator[Block]:
    yield Heading(trace_story.label(trace), f"{trace.source.format} · {byte_size(trace.source.bytes)}", divides)
    if trace.unreliable:
        yield Headline(f"NOT RELIABLE: {'; '.join(trace.unreliable)}", False)
    else:
        worst = next((answer for answer in trace.trust if answer.trusted == NO), None)
        yield Headline("RELIABLE" + (f": but not for {worst.figure} ({worst.reason})" if worst else ""), True)
    rows = [Row([answer.figure, answer.trusted, answer.reason or MISSING]) for answer in trace.trust]
    columns = [Column("figure", right=False), Column("to be trusted", right=False)]
    yield Listing(Table([*columns, Column("because", right=False, least=30, wraps=True)], rows))
    yield from parts.warnings(trace.warnings, verbose=verbose)
    if trace.coverage.gpu_ops or verbose:  # else everything is
        yield from parts.withheld(trace.withheld, verbose=verbose)
    yield from coverage_facts(trace.coverage, verbose=verbose)
    if trace.first_step is not None:
        yield Fact("first step", [trace.first_step])
    if trace.dropped:
        yield Fact("dropped", list(_dropped(trace.dropped, verbose=verbose)))
    if trace.advice:
        yield Fact("next time", [*trace.advice, "docs/recording.md shows how"])
    else:
        yield Fact("next time", ["record it the same way: it answers all that a trace can"])


def _dropped(dropped: Sequence[DroppedStepDoc], *, verbose: bool) -> Iterator[str]:
    """Each reason with its steps."""
    most = len(dropped) if verbose else parts.TOLD
    steps: dict[str, list[str]] = {}
    for each in dropped:
        steps.setdefault(each.reason, []).append(each.step)
    for reason, names in list(steps.items())[:most]:
        more = f" and {len(names) - most:,} more" if len(names) > most else ""
        yield f"{reason}: {', '.join(names[:most])}{more}"
    if len(steps) > most:
        yield f"… {len(steps) - most:,} more reasons"


render_terminal, render_json, render_markdown = outputs_of(
    _tell, lambda report: json_text(report.health()), markdown_in_full=True
)
