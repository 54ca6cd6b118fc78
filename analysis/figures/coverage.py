"""Coverage: what of a trace can be used, counted before any other figure, and whether its figures are to be trusted.

The rules are those of docs/warnings.md, "When a trace is not reliable".
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

from ..facts.context import Context
from ..faults.checks import unreliable
from ..model.document import CoverageDoc, TraceDoc
from ..model.units import number, plural, ratio
from ..story import Fact
from .figure import Figure


def coverage_doc(context: Context) -> CoverageDoc:
    """Count, and say whether the trace is reliable."""
    return _counts(context, unreliable(context))


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
    yield Fact("coverage", lines)


_SOURCES: Final = {
    "capture": "the marks of the capture",
    "profiler_step": "ProfilerStep",
    "annotation": "annotation",
    "repetition": "the repetition of launches",
}


def steps_fact(c: CoverageDoc) -> Fact:
    """How the steps were found, how many were kept, and why the others were dropped."""
    if not c.steps_found:
        return Fact("steps", ["none found: everything is told of one window over the whole file"])
    kept = f"{number(c.steps_found - c.steps_dropped)} of {number(c.steps_found)} kept"
    why = "; ".join(f"{number(count)} dropped: {reason}" for reason, count in c.dropped_because.items())
    return Fact("steps", ["; ".join(filter(None, (f"{kept}, found by {_SOURCES[c.step_source]}", why)))])


def _counts(context: Context, reasons: list[str]) -> CoverageDoc:
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
        reliable=not reasons,
        unreliable=reasons,
        dropped_because=dict(Counter(why.partition(":")[0] for why in context.steps.reasons.values()).most_common()),
    )


COVERAGE: Final = Figure(
    "coverage", "what a file holds and how much of it can be used", CoverageDoc, coverage_doc, facts=_told
)
