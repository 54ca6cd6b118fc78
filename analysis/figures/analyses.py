"""All analyses of one trace, and its part of the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from dataclasses import dataclass, replace
from typing import Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..facts.gap_causes import Threads
from ..facts.gaps import Gaps, find_gaps
from ..facts.host_submit import submits_as_profiled
from ..facts.launches import LaunchTimes, launch_times, launches_doc, queue_depth
from ..facts.ranks.collectives import Collectives, collectives_of
from ..facts.ranks.waiting import Waits
from ..facts.replays import GraphReplays, graph_replays
from ..facts.stacks import CallStacks
from ..facts.steps import Steps, find_steps, periods_ns, steady_windows, step_busy_ns
from ..facts.trace_times import StepWaits, TraceTimes, trace_times, with_waiting
from ..model.capture import Calibration
from ..model.document import (
    BlockingCallDoc,
    CommunicationDoc,
    DeviceDoc,
    MemoryOpsDoc,
    QueueDepthDoc,
    ShortKernelsDoc,
    SourceDoc,
    SteadyDoc,
    StepsDoc,
    TraceDoc,
    WarningDoc,
)
from ..model.freed_memory import return_freed_memory
from ..model.graph_document import GraphDoctorDoc
from ..model.statistics import summarize
from ..model.trace import NONE, OpKind, Trace
from .blocking import blocking_calls, blocking_words
from .communication import communication_doc, not_split, without_warning
from .coverage import Coverage, coverage
from .graphs.doctor import graph_doctor
from .graphs.findings import trace_findings
from .graphs.scope import Examined
from .kernels import kernel_table, memory_ops, short_kernels
from .observer import KERNEL_STRETCH_NS
from .serving.anatomy import serving
from .trace_verdict import trace_bound, trace_verdict
from .withheld import withheld_figures

_MOST_AT_ONCE: Final = 700_000
"""Host ops up to which stacks and gaps are found at the same time; of more, both together take too much memory."""


@dataclass(frozen=True, eq=False)
class TraceAnalysis:
    """One trace with everything that was found in it. Mode, pass and repeat are null outside captures."""

    trace: Trace
    name: str
    mode: str | None
    trace_pass: str | None
    repeat: int | None
    steps: Steps
    coverage: Coverage
    gaps: Mapping[int, Gaps]  # by device, whole scope
    steady: Mapping[int, Gaps | None]  # by device, None without a window of kept steps
    launch_times: LaunchTimes
    graphs: GraphReplays
    blocking_words: tuple[str, ...]  # blocking calls inside kept steps, in words
    collectives: Collectives  # of the headline device
    times: TraceTimes | None  # of a step of the headline device; None without a GPU op
    node_gap_ns: float | None  # ν of the machine that recorded it, where that is known
    document: TraceDoc
    waits: Waits | None = None  # what the other ranks' traces tell; None where none was given
    waits_for: int | None = None  # the rank for which most of its waiting is; None where there is none

    @property
    def headline_steady(self) -> Gaps | None:
        """The steady gaps of the headline device, or None."""
        device = self.document.headline_device
        return None if device is None else self.steady[device]

    @property
    def unreliable(self) -> tuple[str, ...]:
        """Why the trace is not reliable; empty where it is."""
        return self.coverage.unreliable


def analyze_trace(
    trace: Trace,
    *,
    name: str,
    mode: str | None = None,
    trace_pass: str | None = None,
    repeat: int | None = None,
    marks_ns: Sequence[tuple[int, int]] = (),
    step_regex: str | None = None,
    host_submit_ns: float | None = None,
    calibration: Calibration | None = None,
) -> TraceAnalysis:
    """Run every analysis.

    ``host_submit_ns`` is the unprofiled one of the same mode: it gives τ_step. ``calibration`` is of the machine that
    recorded the trace.
    """
    with ThreadPoolExecutor(1) as other:  # numpy lets go of the interpreter
        stacks_to_come = other.submit(CallStacks.of, trace)
        if len(trace.host_ops) > _MOST_AT_ONCE:
            wait([stacks_to_come])
            return_freed_memory(len(trace.gpu_ops))
        graphs = graph_replays(trace)
        steps = find_steps(trace, marks_ns=marks_ns, step_regex=step_regex, replays=graphs)
        threads = Threads(trace)
        whole = {device: find_gaps(trace, steps, device, None, threads) for device in trace.devices}
        return_freed_memory(len(trace.gpu_ops))
        windows = {device: steady_windows(trace, steps, device) for device in trace.devices}
        steady = {d: find_gaps(trace, steps, d, windows[d], threads) if windows[d] else None for d in trace.devices}
        del threads
        return_freed_memory(len(trace.gpu_ops))
        stacks = stacks_to_come.result()
    covered = coverage(trace, steps, graphs)
    return_freed_memory(len(trace.gpu_ops))
    times = launch_times(trace)
    headline = max(whole, key=lambda device: whole[device].busy_ns, default=None)
    collectives = collectives_of(trace, steps, headline)
    communication, step_times = None, None
    if headline is not None:
        communication = communication_doc(collectives, _busy_ns(trace, steps, whole[headline]))
        exposed = collectives.exposed_ns if len(collectives) else None
        step_times = trace_times(trace, steps, whole[headline], steady[headline], exposed)
    words = blocking_words(trace, steps)
    blocking = blocking_calls(trace, steps, stacks)
    step_figures = None if headline is None else _steps_document(trace, steps, headline)
    depth = QueueDepthDoc(median=None, max=None)
    if headline is not None:
        depth = queue_depth(trace, headline, windows[headline] or None)
    return_freed_memory(len(trace.gpu_ops))
    document = TraceDoc(
        name=name,
        mode=mode,
        trace_pass=trace_pass,
        repeat=repeat,
        rank=trace.rank,
        source=SourceDoc(path=trace.source.path, format=trace.source.format, bytes=trace.source.bytes),
        coverage=covered.counts,
        headline_device=headline,
        warnings=[*covered.warnings(), *_waiting_unknown(communication, step_times)],
        withheld={},
        devices=[_device_document(trace, whole[device], steady[device]) for device in trace.devices],
        steps=step_figures,
        launches=launches_doc(trace, times, stacks, steps),
        blocking_calls=blocking,
        graphs=graphs.to_doc(trace),
        graph_doctor=None
        if headline is None
        else _graph_doctor(
            Examined(
                trace,
                steps,
                graphs,
                stacks,
                whole[headline],
                steady[headline],
                own_capture=trace_pass is not None,
                calibration=calibration,
            ),
            blocking,
            step_figures,
        ),
        kernels=[] if headline is None else kernel_table(trace, headline, steps=steps),
        short_kernels=_short_kernels(trace, headline, times, step_figures, depth, host_submit_ns),
        queue_depth=depth,
        memory_ops=MemoryOpsDoc(bytes=None, ns=0) if headline is None else memory_ops(trace, headline),
        bound=None if step_times is None or step_times.host_ns is None else trace_bound(step_times),
        verdict=trace_verdict(
            step_times,
            covered.unreliable,
            words,
            own_capture=trace_pass is not None,
            node_gap_ns=calibration.node_gap_ns if calibration else None,
        ),
        communication=communication,
    )
    if headline is not None:
        anatomy = serving(trace, steps, graphs, headline, whole[headline], steady[headline])
        told = {"serving_reason": anatomy} if isinstance(anatomy, str) else {"serving": anatomy}
        document = msgspec.structs.replace(document, **told)
    return TraceAnalysis(
        trace=trace,
        name=name,
        mode=mode,
        trace_pass=trace_pass,
        repeat=repeat,
        steps=steps,
        coverage=covered,
        gaps=whole,
        steady=steady,
        launch_times=times,
        graphs=graphs,
        blocking_words=words,
        collectives=collectives,
        times=step_times,
        node_gap_ns=calibration.node_gap_ns if calibration else None,
        document=msgspec.structs.replace(document, withheld=withheld_figures(document)),
    )


def with_waits(analysis: TraceAnalysis, waits: Waits, waits_for: int | None, reason: str | None) -> TraceAnalysis:
    """The analysis of one of several ranks: its bound and its verdict rest on work without waiting.

    ``waits_for`` is the rank for which most of its waiting is, null where there is none. ``reason``: why not all of its
    collectives have a counterpart; null where all have one.
    """
    times, document = analysis.times, analysis.document
    if times is None or document.communication is None or document.headline_device is None:
        return replace(analysis, waits=waits, waits_for=waits_for)
    busy = _busy_ns(analysis.trace, analysis.steps, analysis.gaps[document.headline_device])
    communication = communication_doc(analysis.collectives, busy, waits, reason)
    times = with_waiting(times, StepWaits(busy, waits.exposed_waiting_ns, waits.unsplit_ns, waits.told))
    verdict = trace_verdict(
        times,
        analysis.unreliable,
        analysis.blocking_words,
        own_capture=analysis.trace_pass is not None,
        node_gap_ns=analysis.node_gap_ns,
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


def _busy_ns(trace: Trace, steps: Steps, whole: Gaps) -> NDArray[np.float64]:
    """GPU work of each kept step; of the whole file where there is none."""
    if not len(steps.kept_rows):
        return np.array([whole.busy_ns], np.float64)
    return step_busy_ns(trace, steps, whole.device)


def _graph_doctor(examined: Examined, blocking: list[BlockingCallDoc], steps: StepsDoc | None) -> GraphDoctorDoc:
    found = graph_doctor(examined)
    period = None if steps is None else steps.period_ns
    return msgspec.structs.replace(found, findings=trace_findings(found, blocking, period))


def _device_document(trace: Trace, whole: Gaps, steady: Gaps | None) -> DeviceDoc:
    return DeviceDoc(
        device=whole.device,
        name=trace.device_names.get(whole.device),
        window_ns=whole.window_ns,
        busy_ns=whole.busy_ns,
        idle_ns=whole.idle_ns,
        op_sum_ns=whole.op_sum_ns,
        idle_fraction=_fraction(whole),
        gaps=whole.to_doc(),
        steady=None
        if steady is None
        else SteadyDoc(
            window_ns=steady.window_ns,
            busy_ns=steady.busy_ns,
            idle_ns=steady.idle_ns,
            idle_fraction=_fraction(steady),
            gaps=steady.to_doc(),
        ),
    )


def _fraction(gaps: Gaps) -> float:
    """Idle ÷ window; 0 for a window of no length."""
    return gaps.idle_ns / gaps.window_ns if gaps.window_ns else 0.0


def _steps_document(trace: Trace, steps: Steps, device: int) -> StepsDoc | None:
    """Figures per kept step of one device; null without a kept step."""
    kept = len(steps.kept_rows)
    if not kept:
        return None
    ops, launches = trace.gpu_ops, trace.launches
    on_device = np.where(ops.device == device, steps.op_step, NONE)
    periods = periods_ns(trace, steps, device)
    linked = ops.is_kernel & (ops.launch_row != NONE)
    in_graph = linked.copy()
    in_graph[linked] = launches.is_graph[ops.launch_row[linked]]
    return StepsDoc(
        count=kept,
        period_ns=summarize(periods) if len(periods) else None,
        busy_ns=summarize(step_busy_ns(trace, steps, device)),
        kernels=summarize(steps.count_kept(on_device[ops.is_kernel])),
        launches=summarize(steps.count_kept(steps.launch_step)),
        graph_launches=summarize(steps.count_kept(steps.launch_step[launches.is_graph])),
        blocking_calls=summarize(steps.count_kept(steps.blocking_step)),
        memcpys=summarize(steps.count_kept(on_device[ops.kind == OpKind.MEMCPY])),
        gpu_ops=summarize(steps.count_kept(on_device)),
        kernels_in_graphs=summarize(steps.count_kept(on_device[in_graph])),
        kernels_with_launch=summarize(steps.count_kept(on_device[linked])),
    )


def _short_kernels(
    trace: Trace,
    device: int | None,
    times: LaunchTimes,
    steps: StepsDoc | None,
    depth: QueueDepthDoc,
    host_submit_ns: float | None,
) -> ShortKernelsDoc:
    """Against τ_step where it can be told, else against the median launch overhead."""
    if device is None:
        return ShortKernelsDoc(below_10us=None, below_tau=None, tau_ns=None, tau_source=None)
    launches = steps.launches.median if steps is not None else None
    if steps is not None and launches and host_submit_ns is not None and not submits_as_profiled(steps, depth):
        return short_kernels(trace, device, tau_ns=host_submit_ns / launches, tau_source="tau_step")
    overhead = summarize(times.overhead_ns).median
    return short_kernels(trace, device, tau_ns=overhead, tau_source="median launch overhead")
