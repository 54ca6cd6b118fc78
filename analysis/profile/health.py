"""What of a trace can be trusted, what can't, and how to record a better one: ``launchscope doctor``.

Nothing is measured here that the report does not hold: its warnings and counts are read as answers to what people ask.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, Protocol

import msgspec

from ..faults.impossible import CANT_BE
from ..faults.lost_records import NSYS_RECORD
from ..figures import trace_story, verdict_blocks
from ..figures.analyses import TraceAnalysis
from ..figures.coverage import coverage_facts, steps_fact
from ..figures.verdict_blocks import files_fact, unread_files
from ..model import units
from ..model.document import CoverageDoc, SkippedDoc, SourceDoc, UnreadDoc, WarningDoc
from ..model.trace import HostKind
from ..model.units import MISSING, byte_size
from ..render import json_text, outputs_of
from ..story import Block, Column, Fact, Heading, Headline, Listing, Row, Table

SCHEMA: Final = "launchscope.doctor/1"
ENOUGH_STEPS: Final = 10
"""Kept steps from which a median is steady; docs/recording.md asks for as many."""

YES, CARE, NO = "yes", "with care", "no"

_LOSSES: Final = {
    "cut_file": "the file is cut",
    "damaged_file": "the file is damaged",
    "lost_records": "the profiler lost records",
    "lost_ops": "GPU ops of launch calls are missing",
    "graph_nodes_missing": "GPU ops of graph replays are missing, or not linked to their launch",
    "under_recorded": "GPU ops of graph replays are missing",
    "unreadable_times": "records have no readable time",
    "perfetto_json": "every GPU op is up to 1 µs too short",
}

_WHOLE_REPLAYS: Final = "graph replays were recorded without the GPU ops in them"

_COARSE: Final = {"whole_us": "times are whole µs", "coarse_times": "times are told to a quarter of a µs"}
_ODD_OPS: Final = {
    "impossible_durations": "some durations can't be",
    "duplicates": "some GPU ops are in the file twice",
}


class TrustDoc(msgspec.Struct, frozen=True, kw_only=True):
    """May one group of figures be trusted?"""

    figure: str
    trusted: str  # yes, with care, no
    reason: str | None  # null for a plain yes


class DroppedStepDoc(msgspec.Struct, frozen=True, kw_only=True):
    step: str
    reason: str


class TraceHealthDoc(msgspec.Struct, frozen=True, kw_only=True):
    """One trace."""

    name: str
    mode: str | None
    trace_pass: str | None = msgspec.field(name="pass")
    repeat: int | None
    rank: int | None
    source: SourceDoc
    complete: bool  # false: records are known to be lost
    unreliable: list[str]  # why no verdict rests on it; empty where it is reliable
    coverage: CoverageDoc
    first_step: str | None  # name of the first kept step; null without
    dropped: list[DroppedStepDoc]
    trust: list[TrustDoc]
    warnings: list[WarningDoc]
    withheld: dict[str, str]
    advice: list[str]  # how to record a better one; empty where nothing is to be gained


class HealthDocument(msgspec.Struct, frozen=True, kw_only=True):
    """All traces, in the order of the report."""

    schema: str = SCHEMA
    launchscope: str
    traces: list[TraceHealthDoc]
    unread: list[UnreadDoc]
    skipped: list[SkippedDoc] = []


def trace_health(analysis: TraceAnalysis) -> TraceHealthDoc:
    """The state of one trace."""
    document, steps = analysis.document, analysis.context.steps
    kept = steps.kept_rows.tolist()
    return TraceHealthDoc(
        name=document.name,
        mode=document.mode,
        trace_pass=document.trace_pass,
        repeat=document.repeat,
        rank=document.rank,
        source=document.source,
        complete=analysis.context.trace.complete,
        unreliable=list(analysis.document.coverage.unreliable),
        coverage=document.coverage,
        first_step=steps.names[kept[0]] if kept else None,
        dropped=[DroppedStepDoc(step=steps.names[step], reason=reason) for step, reason in steps.reasons.items()],
        trust=list(_trust(analysis)),
        warnings=document.warnings,
        withheld=document.withheld,
        advice=list(_advice(analysis)),
    )


def _trust(analysis: TraceAnalysis) -> Iterator[TrustDoc]:
    codes, counts = _codes(analysis), analysis.document.coverage
    if not counts.gpu_ops:
        yield _answer("every figure of the GPU", NO, "no GPU op in the file")
        return
    lost = [reason for code, reason in _LOSSES.items() if code in codes]
    coarse = [reason for code, reason in _COARSE.items() if code in codes]
    odd = [reason for code, reason in _ODD_OPS.items() if code in codes]
    whole = [f"{_WHOLE_REPLAYS}: pauses in them count as work"] if "graph_level" in codes else []
    impossible = [reason for reason in analysis.document.coverage.unreliable if reason.endswith(CANT_BE)]
    yield _answer("GPU work and kernels", NO if impossible else CARE, *impossible, *lost, *whole, *coarse, *odd)
    if impossible:
        yield _answer("idle time", NO, *impossible)
    elif lost:
        yield _answer("idle time", NO, f"{lost[0]}: what is missing looks like idle time")
    else:
        stray = ["one gap is over half of the window, and no steady part leaves it out"]
        wrong = [_ODD_OPS["impossible_durations"]] if "impossible_durations" in codes else []
        yield _answer("idle time", CARE, *whole, *coarse, *wrong, *(stray if _is_stray(analysis) else []))
    yield _causes(analysis, codes, lost)
    yield _host_time(analysis)
    yield _steps(analysis)
    yield _operators(analysis)
    if counts.kernels_in_graphs or whole:
        lacking = [_LOSSES["under_recorded"]] if "under_recorded" in codes else []
        yield _answer("graph replays", NO, *lacking, *([_WHOLE_REPLAYS] if whole else []))
    if "several_ranks" in codes:
        yield _answer("one rank by itself", CARE, "several processes are merged in the file")


def _causes(analysis: TraceAnalysis, codes: set[str], lost: Sequence[str]) -> TrustDoc:
    figure, counts = "why the GPU was idle", analysis.document.coverage
    if not counts.launches:
        return _answer(figure, NO, "no API calls in the file")
    if "skew" in codes and any("before their launch" in reason for reason in analysis.document.coverage.unreliable):
        return _answer(figure, NO, "GPU ops start before they are launched: clocks or correlation ids are wrong")
    if any("no launch in the file" in reason for reason in analysis.document.coverage.unreliable):
        return _answer(figure, NO, f"{counts.unlinked:,} of {counts.gpu_ops:,} GPU ops have no launch in the file")
    orphans = [f"{counts.unlinked:,} of {counts.gpu_ops:,} GPU ops have no launch"] if counts.unlinked else []
    return _answer(figure, CARE, *lost, *orphans)


def _host_time(analysis: TraceAnalysis) -> TrustDoc:
    """Never a plain yes: a profiler is part of what it measures."""
    if not analysis.document.coverage.launches:
        return _answer("host time", NO, "no API calls in the file")
    stacks = ", with Python stacks much slower" if _holds(analysis, HostKind.PYTHON) else ""
    return _answer(
        "host time", CARE, f"the profiler makes the host slower{stacks}; only launchscope profile measures by how much"
    )


def _steps(analysis: TraceAnalysis) -> TrustDoc:
    steps = analysis.document.steps
    if steps is None:
        return _answer("figures per step", NO, analysis.document.withheld.get("steps", "no steps"))
    few = [f"only {units.plural(steps.count, 'step')} kept"] if steps.count < ENOUGH_STEPS else []
    source = analysis.document.coverage.step_source
    guessed = ["steps were found by repetition: check that one is what you call a step"]
    return _answer("figures per step", CARE, *(guessed if source == "repetition" else []), *few)


def _operators(analysis: TraceAnalysis) -> TrustDoc:
    figure = "operators of kernels"
    if _holds(analysis, HostKind.OPERATOR):
        return _answer(figure, YES)
    if any(kernel.operator for kernel in analysis.document.kernels):
        return _answer(figure, CARE, "none was recorded; inferred")
    if _is_of(analysis, "nsys", "proton"):
        return _answer(figure, NO, "this profiler records none")
    return _answer(figure, NO, "graph replays run none" if _graphs_alone(analysis) else "none was recorded")


def _has_cpu_side(analysis: TraceAnalysis) -> bool:
    """Whether the profiler recorded the host beyond its API calls."""
    return any(_holds(analysis, kind) for kind in (HostKind.OPERATOR, HostKind.ANNOTATION, HostKind.PYTHON))


def _graphs_alone(analysis: TraceAnalysis) -> bool:
    """Whether there are no operators since graphs were replayed."""
    return _has_cpu_side(analysis) and analysis.document.coverage.kernels_in_graphs > 0


def _answer(figure: str, worst: str, *reasons: str) -> TrustDoc:
    """``worst`` where there is a reason, else yes."""
    return TrustDoc(figure=figure, trusted=worst if reasons else YES, reason="; ".join(reasons) or None)


def _advice(analysis: TraceAnalysis) -> Iterator[str]:
    """What would make the next recording better, the most useful first."""
    codes, counts, steps = _codes(analysis), analysis.document.coverage, analysis.document.steps
    is_nsys, is_proton = _is_of(analysis, "nsys"), _is_of(analysis, "proton")
    if not counts.gpu_ops:
        how = f"with `{NSYS_RECORD}`" if is_nsys else "CPU and CUDA activity together"
        yield f"record {how} while the GPU works, and synchronise before the recording stops"
        return
    if not counts.launches and is_nsys:
        yield f"record with `{NSYS_RECORD}` and export the report whole: API calls explain the gaps"
    elif not counts.launches and is_proton:
        yield "record with torch.profiler or nsys: Proton has no API calls, which explain the gaps"
    elif not counts.launches:
        yield "record CPU and CUDA activity together and keep the file whole: API calls explain the gaps"
    if "graph_level" in codes:
        yield f"record with `{NSYS_RECORD}`: only then are the GPU ops of a replay in the file"
    elif "perfetto_json" in codes:
        yield "analyze the trace that was opened in Perfetto: its JSON export cuts times to whole µs"
    elif codes & set(_LOSSES):
        yield "record fewer steps in a fresh process, synchronise before the recording stops, copy the file whole"
    if "impossible_durations" in codes:
        yield "record again, with a newer driver or profiler: times of this file can't be"
    if "skew" in codes:
        yield "record one profiler session per process: later ones can carry wrong correlation ids"
    if counts.step_source in ("none", "repetition") and not is_proton:
        range_of = "an NVTX range" if is_nsys else "profiler.step() or a record_function"
        yield f"mark the steps with {range_of}: then they need no guessing"
    if steps is None or steps.count < ENOUGH_STEPS:
        yield f"record {ENOUGH_STEPS} to 20 steady decode steps, without warm-up, compilation and prefill"
    elif _is_stray(analysis):
        yield "start the recording at the loop of steps, and leave everything else out"
    if _holds(analysis, HostKind.PYTHON):
        yield "leave Python stacks (with_stack) off for timing; a second trace with them tells which line launched what"
    if (
        counts.launches
        and not _holds(analysis, HostKind.OPERATOR)
        and not is_nsys
        and analysis.context.trace_pass is None
    ):
        if _graphs_alone(analysis):
            yield "record the step without graphs too: only then do operators say what a kernel belongs to"
        elif not _has_cpu_side(analysis):
            yield "add ProfilerActivity.CPU: operators say what a kernel belongs to"
    if "whole_us" in codes and "perfetto_json" not in codes:
        yield "record with torch 2.3 or newer: it writes nanoseconds"
    if "duplicates" in codes:
        yield "give the profiler's own file: in this one GPU ops stand twice"
    if "several_ranks" in codes:
        yield "give each rank's own file: correlation ids of merged ones may collide"


def _is_of(analysis: TraceAnalysis, *writers: str) -> bool:
    return analysis.document.source.format.startswith(writers)


def _codes(analysis: TraceAnalysis) -> set[str]:
    return {warning.code for warning in analysis.document.warnings}


def _is_stray(analysis: TraceAnalysis) -> bool:
    """Stray work in the window, and no steady part without it."""
    stray = any(warning.code == "stray_work" for warning in analysis.document.warnings)
    return stray and analysis.context.headline_steady is None


def _holds(analysis: TraceAnalysis, kind: HostKind) -> bool:
    return bool((analysis.context.trace.host_ops.kind == kind).any())


def health_document(
    version: str, analyses: Iterable[TraceAnalysis], unread: Sequence[UnreadDoc], skipped: Sequence[SkippedDoc]
) -> HealthDocument:
    """All traces of a report."""
    traces = [trace_health(each) for each in analyses]
    return HealthDocument(launchscope=version, traces=traces, unread=list(unread), skipped=list(skipped))


class HasHealth(Protocol):
    """A report."""

    def health(self) -> HealthDocument: ...


def _tell(report: HasHealth, *, verbose: bool) -> Iterator[Block]:
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
    yield from verdict_blocks.warnings(trace.warnings, verbose=verbose, events=True)
    if trace.coverage.gpu_ops or verbose:  # else everything is
        yield from verdict_blocks.withheld(trace.withheld, verbose=verbose)
    yield from coverage_facts(trace.coverage, verbose=verbose)
    yield steps_fact(trace.coverage)
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
    most = len(dropped) if verbose else verdict_blocks.SHOWN
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
