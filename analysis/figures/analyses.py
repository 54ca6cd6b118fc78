"""All analyses of one trace, and its part of the report."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Any, Final

import msgspec

from ..facts.collectives import Collectives
from ..facts.context import Context
from ..facts.gaps import Gaps
from ..facts.launches import LaunchTimes
from ..facts.ranks.waiting import Waits
from ..facts.replays import GraphReplays
from ..facts.steps import Steps
from ..facts.trace_times import TraceTimes
from ..model.document import CommunicationDoc, DeviceDoc, SourceDoc, SteadyDoc, TraceDoc, WarningDoc
from ..model.freed_memory import return_freed_memory
from ..model.trace import Trace
from .blocking import blocking_calls
from .communication import communication_doc, not_split, without_warning
from .coverage import coverage
from .graphs.doctor import graph_doctor
from .graphs.findings import trace_findings
from .kernels import kernel_table, memory_ops, short_kernels
from .observer import KERNEL_STRETCH_NS
from .serving.anatomy import serving
from .trace_verdict import trace_bound, trace_verdict
from .withheld import withheld_figures

_MOST_AT_ONCE: Final = 700_000
"""Host ops up to which stacks and gaps are found at the same time; of more, both together take too much memory."""


@dataclass(frozen=True, eq=False)
class TraceAnalysis:
    """One trace: its facts, its part of the report, and what the other ranks' traces add to both."""

    context: Context
    document: TraceDoc
    times: TraceTimes | None  # of a step of the headline device; None without a GPU op
    waits: Waits | None = None  # what the other ranks' traces tell; None where none was given
    waits_for: int | None = None  # the rank for which most of its waiting is; None where there is none

    @property
    def trace(self) -> Trace:
        return self.context.trace

    @property
    def name(self) -> str:
        return self.context.name

    @property
    def mode(self) -> str | None:
        return self.context.mode

    @property
    def trace_pass(self) -> str | None:
        return self.context.trace_pass

    @property
    def repeat(self) -> int | None:
        return self.context.repeat

    @property
    def steps(self) -> Steps:
        return self.context.steps

    @property
    def gaps(self) -> Mapping[int, Gaps]:
        return self.context.gaps

    @property
    def headline_steady(self) -> Gaps | None:
        return self.context.headline_steady

    @property
    def launch_times(self) -> LaunchTimes:
        return self.context.launch_times

    @property
    def graphs(self) -> GraphReplays:
        return self.context.replays

    @property
    def collectives(self) -> Collectives:
        return self.context.collectives

    @property
    def unreliable(self) -> tuple[str, ...]:
        """Why the trace is not reliable; empty where it is."""
        return tuple(self.document.coverage.unreliable)


def analyze_trace(trace: Trace, **known: Any) -> TraceAnalysis:
    """Every figure of a trace. ``known`` is what its capture knows of it, as fields of a Context."""
    context = Context(trace, **known)
    _find_gaps_and_stacks(context)
    document = _document(context)
    context.release("stacks", "line_of_stack", "operators", "linked_kernels", "graph_kernels")
    return TraceAnalysis(context, document, context.times)


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
    covered = coverage(context)
    context.release("trace_facts", "busy")
    return_freed_memory(len(trace.gpu_ops))
    times, blocking = context.times, blocking_calls(context)
    communication = None if headline is None else communication_doc(context.collectives, context.busy_ns)
    depth = context.queue_depth
    return_freed_memory(len(trace.gpu_ops))
    document = TraceDoc(
        name=context.name,
        mode=context.mode,
        trace_pass=context.trace_pass,
        repeat=context.repeat,
        rank=trace.rank,
        source=SourceDoc(path=trace.source.path, format=trace.source.format, bytes=trace.source.bytes),
        coverage=covered.counts,
        headline_device=headline,
        warnings=[*covered.warnings(), *_waiting_unknown(communication, times)],
        withheld={},
        devices=[_device_document(context, device) for device in trace.devices],
        steps=context.step_figures,
        launches=context.launches,
        blocking_calls=blocking,
        graphs=context.replays.to_doc(trace),
        graph_doctor=None if headline is None else graph_doctor(context),
        kernels=kernel_table(context),
        short_kernels=short_kernels(context),
        queue_depth=depth,
        memory_ops=memory_ops(context),
        bound=None if times is None or times.host_ns is None else trace_bound(times),
        verdict=trace_verdict(
            times,
            covered.unreliable,
            context.blocking_words,
            own_capture=context.own_capture,
            node_gap_ns=context.node_gap_ns,
        ),
        communication=communication,
        **_serving(context),
    )
    if document.graph_doctor is not None:
        period = None if document.steps is None else document.steps.period_ns
        findings = trace_findings(document.graph_doctor, blocking, period)
        doctor = msgspec.structs.replace(document.graph_doctor, findings=findings)
        document = msgspec.structs.replace(document, graph_doctor=doctor)
    return msgspec.structs.replace(document, withheld=withheld_figures(document))


def _serving(context: Context) -> dict[str, Any]:
    anatomy = serving(context)
    return {"serving_reason": anatomy} if isinstance(anatomy, str) else {"serving": anatomy}


def with_waits(analysis: TraceAnalysis, waits: Waits, waits_for: int | None, reason: str | None) -> TraceAnalysis:
    """The analysis of one of several ranks: its bound and its verdict rest on work without waiting.

    ``waits_for`` is the rank for which most of its waiting is, null where there is none. ``reason``: why not all of its
    collectives have a counterpart; null where all have one.
    """
    context, times, document = analysis.context, analysis.times, analysis.document
    if times is None or document.communication is None:
        return replace(analysis, waits=waits, waits_for=waits_for)
    communication = communication_doc(context.collectives, context.busy_ns, waits, reason)
    times = waits.with_waiting(times, context.busy_ns)
    verdict = trace_verdict(
        times,
        analysis.unreliable,
        context.blocking_words,
        own_capture=context.own_capture,
        node_gap_ns=context.node_gap_ns,
        alone=False,
        waits_for=waits_for,
    )
    document = msgspec.structs.replace(
        document,
        communication=communication,
        bound=None if document.bound is None else trace_bound(times),
        verdict=verdict,
        warnings=[*without_warning(document.warnings), *_waiting_unknown(communication, times)],
    )
    document = msgspec.structs.replace(document, withheld=withheld_figures(document))
    return replace(analysis, waits=waits, waits_for=waits_for, times=times, document=document)


def _waiting_unknown(communication: CommunicationDoc | None, times: TraceTimes | None) -> list[WarningDoc]:
    return [] if times is None else not_split(communication, times.work_ns, times.gpu_ops * KERNEL_STRETCH_NS)


def _device_document(context: Context, device: int) -> DeviceDoc:
    whole, steady = context.gaps[device], context.steady[device]
    return DeviceDoc(
        device=device,
        name=context.trace.device_names.get(device),
        window_ns=whole.window_ns,
        busy_ns=whole.busy_ns,
        idle_ns=whole.idle_ns,
        op_sum_ns=whole.op_sum_ns,
        idle_fraction=whole.idle_fraction,
        gaps=whole.to_doc(),
        steady=None
        if steady is None
        else SteadyDoc(
            window_ns=steady.window_ns,
            busy_ns=steady.busy_ns,
            idle_ns=steady.idle_ns,
            idle_fraction=steady.idle_fraction,
            gaps=steady.to_doc(),
        ),
    )
