"""All analyses of one trace, and its part of the report."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass
from typing import Any, Final

import msgspec

from ..facts.context import Context
from ..facts.trace_times import Waits
from ..model.document import SourceDoc, TraceDoc
from ..model.freed_memory import return_freed_memory
from ..model.trace import Trace
from .coverage import COVERAGE
from .queue_depth import QUEUE_DEPTH
from .registry import FIGURES
from .serving.serving_story import SERVING
from .trace_notices import notices

_MOST_AT_ONCE: Final = 700_000
"""Host ops up to which stacks and gaps are found at the same time; of more, both together take too much memory."""


@dataclass(frozen=True, eq=False)
class TraceAnalysis:
    """One trace: its facts, its part of the report, and what the other ranks' traces add to both."""

    context: Context
    document: TraceDoc


def analyze_trace(trace: Trace, **known: Any) -> TraceAnalysis:
    """Every figure of a trace. ``known`` is what its capture knows of it, as fields of a Context."""
    context = Context(trace, **known)
    _find_gaps_and_stacks(context)
    document = _document(context)
    context.release("stacks", "line_of_stack", "operators", "linked_kernels", "graph_kernels")
    return TraceAnalysis(context, document)


def _find_gaps_and_stacks(context: Context) -> None:
    """The facts that take the most time and memory, so that the memory of each is free for the next."""
    trace, ops = context.trace, len(context.trace.gpu_ops)
    with ThreadPoolExecutor(1) as other:  # numpy lets go of the interpreter
        stacks = other.submit(lambda: context.stacks)
        if len(trace.host_ops) > _MOST_AT_ONCE:
            wait([stacks])
            return_freed_memory(ops)
        for gaps in (context.gaps, context.steady):
            for device in trace.devices:
                gaps[device]
            return_freed_memory(ops)
        context.release("threads")
        return_freed_memory(ops)
        stacks.result()


def _document(context: Context) -> TraceDoc:
    trace, headline = context.trace, context.headline
    COVERAGE.of(context)
    notices(context)
    context.release("trace_facts", "busy")
    return_freed_memory(len(trace.gpu_ops))
    QUEUE_DEPTH.of(context)
    return_freed_memory(len(trace.gpu_ops))
    found: dict[str, Any] = {figure.name: figure.of(context) for figure in FIGURES}
    return_freed_memory(len(trace.gpu_ops))
    return TraceDoc(
        name=context.name,
        mode=context.mode,
        trace_pass=context.trace_pass,
        repeat=context.repeat,
        rank=trace.rank,
        source=SourceDoc(path=trace.source.path, format=trace.source.format, bytes=trace.source.bytes),
        headline_device=headline,
        withheld=_withheld(context),
        serving_reason=SERVING.reasons(context).get(SERVING.name),
        figures={f.name: msgspec.to_builtins(found[f.name]) for f in FIGURES if not f.is_of_contract},
        **{figure.name: found[figure.name] for figure in FIGURES if figure.is_of_contract},
    )


def _withheld(context: Context) -> dict[str, str]:
    """Path in the document → reason, for every figure that is null for want of data."""
    reasons = {} if context.headline is not None else {"headline_device": "no GPU op in the file"}
    for figure in FIGURES:
        reasons |= figure.reasons(context)
    return reasons


def with_waits(analysis: TraceAnalysis, waits: Waits, waits_for: int | None, reason: str | None) -> TraceAnalysis:
    """The analysis of one of several ranks: its bound and its verdict rest on work without waiting.

    ``waits_for`` is the rank for which most of its waiting is, null where there is none. ``reason``: why not all of its
    collectives have a counterpart; null where all have one.
    """
    context = analysis.context.with_other_ranks(waits, waits_for, reason)
    alone = analysis.context.figures
    context.figures.update({f.name: alone[f.name] for f in FIGURES if not f.across_ranks})
    found = {figure.name: figure.of(context) for figure in FIGURES if figure.across_ranks}
    document = msgspec.structs.replace(analysis.document, **found, withheld=_withheld(context))
    return TraceAnalysis(context, document)
