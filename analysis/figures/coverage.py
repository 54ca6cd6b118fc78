"""Coverage: what of a trace can be used, counted before any other figure, and whether its figures are to be trusted.

The rules are those of docs/warnings.md, "When a trace is not reliable".
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..facts.context import Context
from ..model.document import CoverageDoc, TraceDoc
from ..model.units import number, part, plural, ratio
from ..story import Fact
from .figure import Figure

UNLINKED_SHARE: Final = 0.10
"""Over this share of the kept ops without a launch, gaps can't be explained."""

SKEWED_SHARE: Final = 0.01
"""Over this share of ops that start before their launch call, the clocks or the correlation ids are wrong."""

IMPOSSIBLE_SHARE: Final = 0.01
"""Over this share of GPU ops, launches or blocking calls that can't have lasted so long, no time of the file is one."""

LOST_SHARE: Final = 0.01
"""Over this share of the kept steps' launch calls without a GPU op, records were lost."""

IMPOSSIBLE: Final = "have durations that can't be"
"""The end of a reason, of more than that share."""

_CUT_CODES: Final = ("cut_file", "damaged_file")


def coverage_doc(context: Context) -> CoverageDoc:
    """Count, and say whether the trace is reliable."""
    return _counts(context, list(_reasons(context)))


def _told(trace: TraceDoc, verbose: bool) -> Iterator[Fact]:
    yield from coverage_facts(trace.coverage, verbose=verbose)


def coverage_facts(c: CoverageDoc, *, verbose: bool) -> Iterator[Fact]:
    """What the file holds, and how much of it can be used."""
    counts = [f"{number(c.events)} events", plural(c.gpu_ops, "GPU op"), plural(c.kernels, "kernel")]
    counts += [plural(c.launches, "launch", "launches"), f"{number(c.graph_launches)} of them graph launches"]
    linked = f"launch in the file for {number(c.linked)} of {number(c.gpu_ops)} GPU ops ({ratio(c.linked, c.gpu_ops)})"
    oddities = [
        (c.negative_latency, "start before their launch call does"),
        (c.same_stream_overlaps, "overlap an earlier one of their stream"),
        (c.zero_duration, "take no time"),
    ]
    odd = [f"{number(count)} {text}" for count, text in oddities if count or verbose]
    if c.negative_queue and verbose:
        odd.append(f"{plural(c.negative_queue, 'launch', 'launches')} return after their GPU op started (normal)")
    lines = [" · ".join(counts), " · ".join([linked, "reliable" if c.reliable else "NOT RELIABLE", *odd])]
    kept = f"{number(c.steps_found - c.steps_dropped)} of {number(c.steps_found)} kept"
    lines.append(f"steps: {kept}, found by {c.step_source.replace('_', ' ')}" if c.steps_found else "steps: none found")
    yield Fact("coverage", lines)


def _counts(context: Context, unreliable: list[str]) -> CoverageDoc:
    facts = context.trace_facts
    trace, ops, launches = context.trace, context.trace.gpu_ops, context.trace.launches
    linked = int(facts.linked.sum())
    return CoverageDoc(
        events=trace.events,
        gpu_ops=len(ops),
        kernels=int(ops.is_kernel.sum()),
        launches=len(launches),
        graph_launches=int(launches.is_graph.sum()),
        linked=linked,
        unlinked=len(ops) - linked,
        kernels_in_graphs=int((ops.is_kernel & trace.in_graph()).sum()),
        zero_duration=int((ops.dur_ns == 0).sum()),
        negative_latency=int(facts.is_early.sum()),
        negative_queue=int((ops.start_ns[trace.first_ops()] < launches.end_ns).sum()),
        same_stream_overlaps=int(facts.overlaps.early.sum()),
        steps_found=context.steps.found,
        steps_dropped=context.steps.dropped,
        step_source=context.steps.source,
        reliable=not unreliable,
        unreliable=unreliable,
    )


def _reasons(context: Context) -> Iterator[str]:
    """Why the trace is unreliable; nothing where it is reliable."""
    facts = context.trace_facts
    if not facts.gpu_ops:
        yield "no GPU op in the file"
        return
    unlinked, kept = int((facts.kept & ~facts.linked).sum()), int(facts.kept.sum())
    early = int(facts.is_early.sum())
    if not len(context.trace.launches):
        yield "no launches in the file"
    elif unlinked > UNLINKED_SHARE * kept:
        yield f"{part(unlinked, kept)} kept GPU ops have no launch in the file"
    if early > SKEWED_SHARE * facts.gpu_ops:
        yield f"{part(early, facts.gpu_ops)} GPU ops start before their launch call does"
    yield from _impossible(context)
    if len(context.replays.differing):
        yield "replays of one graph differ in their number of GPU ops"
    if len(facts.cut_calls):
        yield f"the recording ends inside a kept step: {len(facts.cut_calls):,} of its launch calls have no GPU op"
    elif len(facts.lost_calls) > LOST_SHARE * (len(facts.lost_calls) + facts.launches_kept):
        calls = len(facts.lost_calls) + facts.launches_kept
        yield f"{part(len(facts.lost_calls), calls)} launch calls of the kept steps have no GPU op: records were lost"
    if any(notice.code == "perfetto_json" for notice in context.trace.notices):
        yield "Perfetto's JSON export cut every time to whole µs"
    if not context.trace.complete:
        cut = any(notice.code in _CUT_CODES for notice in context.trace.notices)
        yield "the file is cut or damaged: what it lacks is not known" if cut else "records are known to be lost"


def _impossible(context: Context) -> Iterator[str]:
    _, *of_tables = context.trace_facts.impossible
    for what, rows in zip(("GPU ops", "launches", "blocking calls"), of_tables, strict=True):
        if rows.sum() > IMPOSSIBLE_SHARE * len(rows):
            yield f"{part(int(rows.sum()), len(rows))} {what} {IMPOSSIBLE}"


COVERAGE: Final = Figure(
    "coverage", "what a file holds and how much of it can be used", CoverageDoc, coverage_doc, facts=_told
)
