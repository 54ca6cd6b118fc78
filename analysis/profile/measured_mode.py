"""What was measured of one mode: from its processes' samples and its traces, each figure None where it can't be told.

The definitions are in docs/metrics.md, "A profiled model".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from statistics import median

import numpy as np

from ..facts.trace_times import QUEUE_FULL, submits_as_profiled
from ..figures.analyses import TraceAnalysis
from ..figures.observer import KERNEL_STRETCH_NS, taxes_without_observer
from ..model.capture import COMPILED, WARM_CACHE_NOTE, Manifest, ModeRecord, ProcessRecord
from ..model.document import TAXES, StepTimeDoc
from ..model.statistics import bootstrap_interval, median_of_medians
from ..model.trace import NONE
from ..step_model import floor_ns, predict_graph_ns
from .select import behind_figures, timing_records


@dataclass(frozen=True)
class MeasuredMode:
    """One mode's measurements; every property is None where it can't be told."""

    name: str
    record: ModeRecord
    analyses: list[TraceAnalysis]
    manifest: Manifest

    @property
    def processes(self) -> Sequence[ProcessRecord]:
        """All of them, those that failed or were not timed too."""
        return self.record.processes

    @cached_property
    def timed(self) -> list[ProcessRecord]:
        """Processes with unprofiled samples."""
        return [p for p in timing_records(self.record) if p.samples_ns]

    @cached_property
    def cuda(self) -> list[TraceAnalysis]:
        """Traces of the `cuda` pass that have steps: the reliable ones, or all where none is."""
        return behind_figures(self.analyses)

    @cached_property
    def step_ns(self) -> StepTimeDoc | None:
        """T with its interval."""
        if not self.timed:
            return None
        samples = [list(p.samples_ns) for p in self.timed]
        low, high = bootstrap_interval(samples) if len(samples) > 1 else (None, None)
        return StepTimeDoc(median=median_of_medians(samples), ci_low=low, ci_high=high)

    @cached_property
    def sessions(self) -> list[tuple[str, float, float]]:
        """(pass, median step time inside the session, median unprofiled step time) of each process that has both.

        Inside, a step's time is its period in the trace; the host's own clock stands in where there is none.
        """
        found = []
        for process in self.timed:
            periods = [
                a.document.steps.period_ns.median
                for a in self.analyses
                if (a.context.trace_pass, a.context.repeat) == (process.trace_pass, process.repeat)
                and a.document.steps is not None
                and a.document.steps.period_ns is not None
            ]
            inside = median_or_none(value for value in periods if value is not None) or median_or_none(
                process.session_ns
            )
            if process.trace_pass is not None and inside is not None:
                found.append((process.trace_pass, inside, median(process.samples_ns)))
        return found

    @cached_property
    def busy_ns(self) -> float | None:
        """W."""
        return self._per_step("busy_ns")

    @cached_property
    def without_waiting_ns(self) -> float | None:
        """W without what it waits inside collectives, where the other ranks' traces tell; median over processes."""
        known = [a.document.communication.work_without_waiting_ns for a in self.cuda if a.document.communication]
        return median_or_none(summary.median for summary in known if summary is not None and summary.median is not None)

    @cached_property
    def work_ns(self) -> float | None:
        """W, without waiting where that is known: what the GPU has to do in a step."""
        return self.busy_ns if self.without_waiting_ns is None else self.without_waiting_ns

    @cached_property
    def unsplit_ns(self) -> float:
        """Of W, inside collectives of which waiting and transfer can't be told apart; as recorded."""
        found = [
            0.0
            if a.context.times is None
            else a.context.times.exposed_ns
            if a.context.waits is None
            else float(np.median(a.context.waits.unsplit_ns))
            for a in self.cuda
        ]
        return median_or_none(found) or 0.0

    @cached_property
    def gpu_ops(self) -> float | None:
        return self._per_step("gpu_ops")

    @cached_property
    def launches(self) -> float | None:
        """N."""
        return self._per_step("launches")

    @cached_property
    def kernels(self) -> float | None:
        """K."""
        return self._per_step("kernels")

    def _per_step(self, figure: str) -> float | None:
        """Median over processes of a step figure's median in the `cuda` pass."""
        found = [getattr(a.document.steps, figure) for a in self.cuda]
        return median_or_none(each.median for each in found if each is not None and each.median is not None)

    @cached_property
    def holds_waiting(self) -> bool:
        """True where W may hold waiting for other ranks that could be told from transfer by their traces alone."""
        return self.unsplit_ns > (self.uncertainty_ns or 0.0)

    @cached_property
    def uncertainty_ns(self) -> float | None:
        return None if self.gpu_ops is None else self.gpu_ops * KERNEL_STRETCH_NS

    @cached_property
    def floor_ns(self) -> float | None:
        if self.manifest.floor is None or self.manifest.calibration is None:
            return None
        return floor_ns(self.manifest.floor, self.manifest.calibration)

    @cached_property
    def submits_as_profiled(self) -> bool:
        """True when the unprofiled submit time would hold blocked time: a sync inside the step, or a full queue."""
        return any(_submits_as_profiled(a) for a in self.cuda)

    @cached_property
    def host_submit_ns(self) -> float | None:
        if self.submits_as_profiled:
            return median_or_none(
                a.document.bound.host_submit_ns
                for a in self.cuda
                if a.document.bound is not None and a.document.bound.host_submit_ns is not None
            )
        return submit_ns(self.record)

    @cached_property
    def tau_step_ns(self) -> float | None:
        if self.host_submit_ns is None or not self.launches:
            return None
        return self.host_submit_ns / self.launches

    @cached_property
    def tau_api_ns(self) -> float | None:
        """Median launch overhead as traced."""
        medians = [a.document.launches.overhead_ns.median for a in self.cuda]
        return median_or_none(value for value in medians if value is not None)

    @cached_property
    def waiting_ns(self) -> float | None:
        """The part of T that is waiting inside collectives; None where it can't be told, or where there are none.

        T − W without waiting, by the shares of waiting and of idle time in the `cuda` pass: a profiled host is slower,
        so that others wait longer for it.
        """
        if self.step_ns is None or self.without_waiting_ns is None:
            return None
        not_working = max(self.step_ns.median - self.without_waiting_ns, 0.0)
        waiting, idle = self._waiting_and_idle_ns
        return not_working * waiting / (waiting + idle) if waiting + idle > 0 else 0.0

    @cached_property
    def unsplit_of_step_ns(self) -> float:
        """The part of T inside collectives of which waiting and transfer can't be told apart, by shares as waiting is.

        0 where nothing is to be told.
        """
        if not self.holds_waiting or self.step_ns is None or self.work_ns is None:
            return 0.0
        left = self.step_ns.median - (self.work_ns - self.unsplit_ns) - (self.waiting_ns or 0.0)
        periods = sum(
            a.document.steps.period_ns.count for a in self.cuda if a.document.steps and a.document.steps.period_ns
        )
        idle = sum(a.context.headline_steady.idle_ns for a in self.cuda if a.context.headline_steady is not None) / max(
            periods, 1
        )
        return max(left, 0.0) * self.unsplit_ns / (self.unsplit_ns + idle)

    @cached_property
    def _waiting_and_idle_ns(self) -> tuple[float, float]:
        """Exposed waiting and idle time of the steps with a period, all processes together.

        Idle is without the profiler's own, where that can be taken out.
        """
        waiting = idle = 0.0
        for analysis in self.cuda:
            gaps, waits = analysis.context.headline_steady, analysis.context.waits
            if gaps is None or waits is None or not waits.split.any():
                continue
            taxes = taxes_without_observer(analysis.context, self.manifest.calibration)
            idle += float(gaps.idle_ns) if taxes is None else sum(taxes.values())
            with_period = analysis.context.period_ns[gaps.device][analysis.context.steps.kept_rows] != NONE
            known = waits.split & with_period
            if known.any():
                waiting += float(waits.exposed_waiting_ns[known].mean() * with_period.sum())
        return waiting, idle

    @cached_property
    def exposed_ns(self) -> float | None:
        if self.step_ns is None or self.work_ns is None:
            return None
        return self.step_ns.median - self.work_ns - (self.waiting_ns or 0.0)

    @cached_property
    def resolved(self) -> bool:
        """True when T − W is not smaller than W's uncertainty, and not nothing."""
        exposed, uncertainty = self.exposed_ns, self.uncertainty_ns
        return exposed is not None and uncertainty is not None and exposed > 0 and exposed >= uncertainty

    @cached_property
    def shares(self) -> dict[str, float] | None:
        """Each tax's share of the steady idle time of the `cuda` pass, all processes together; they add up to 1."""
        totals = dict.fromkeys(TAXES, 0.0)
        for analysis in self.cuda:
            if analysis.context.headline_steady is None:
                continue
            taxes = taxes_without_observer(analysis.context, self.manifest.calibration)
            if taxes is None:
                return None
            for tax, ns in taxes.items():
                totals[tax] += ns
        idle = sum(totals.values())
        return {tax: ns / idle for tax, ns in totals.items()} if idle > 0 else None

    @cached_property
    def taxes_ns(self) -> dict[str, float] | None:
        """T − W by the taxes' shares."""
        if not self.resolved or self.exposed_ns is None or self.shares is None:
            return None
        return {tax: share * self.exposed_ns for tax, share in self.shares.items()}

    @cached_property
    def compile_ns(self) -> float | None:
        """Time of a cold compilation: fused and fused_graph compile the same step, and later processes find it done."""
        if self.name not in COMPILED:
            return None
        twins = [self.manifest.modes[name] for name in COMPILED if name in self.manifest.modes]
        cold = [
            p.compile_ns
            for record in twins
            for p in record.processes
            if p.compile_ns is not None and WARM_CACHE_NOTE not in p.notes
        ]
        return median_or_none(cold)

    @cached_property
    def replays_graphs(self) -> bool:
        """True when a step launches graphs."""
        return any(a.document.steps.graph_launches.median for a in self.cuda if a.document.steps)

    @cached_property
    def streams_saving_ns(self) -> float | None:
        """What its graph would save per step in a process that uses few streams, by the calibration."""
        calibration = self.manifest.calibration
        if calibration is None or self.gpu_ops is None or not self.replays_graphs:
            return None
        if calibration.node_gap_ns is None or calibration.node_gap_few_streams_ns is None:
            return None
        saving = (self.gpu_ops - 1) * (calibration.node_gap_ns - calibration.node_gap_few_streams_ns)
        exposed = self.exposed_ns if self.resolved else None
        # more than its idle time can't be saved: the process used few streams already
        return saving if exposed is not None and saving <= exposed + (self.uncertainty_ns or 0.0) else None

    @cached_property
    def predicted_graph_ns(self) -> float | None:
        """This step as one CUDA graph, by its own work and the calibration; None for one that replays graphs, and where
        the work holds waiting that nothing tells.
        """
        if self.holds_waiting:
            return None
        if self.work_ns is None or self.gpu_ops is None or self.manifest.calibration is None or self.replays_graphs:
            return None
        return predict_graph_ns(self.work_ns, self.gpu_ops, self.manifest.calibration)

    @cached_property
    def error(self) -> str | None:
        """Why nothing was timed, or None."""
        if self.timed:
            return None
        failed = [p.error for p in self.record.processes if p.error]
        return self.record.error or (failed[0] if failed else "no process of this mode finished its timing")

    def median_of(self, figure: str) -> float | None:
        """Median over processes of a figure of the manifest."""
        found = [getattr(p, figure) for p in self.record.processes]
        return median_or_none(value for value in found if value is not None)


def _submits_as_profiled(analysis: TraceAnalysis) -> bool:
    """While it waits for other ranks a rank's queue fills: then only a step that fills it by itself counts."""
    steps = analysis.document.steps
    if steps is None:
        return False
    if analysis.context.waits is None:
        return submits_as_profiled(steps, analysis.document.queue_depth)
    return bool(steps.blocking_calls.median) or (steps.launches.median or 0) >= QUEUE_FULL


def submit_ns(record: ModeRecord) -> float | None:
    """Unprofiled host time to submit a step: the median over a mode's processes of their medians; None unmeasured."""
    return median_or_none(median(p.host_submit_ns) for p in timing_records(record) if p.host_submit_ns)


def median_or_none(values: Iterable[float]) -> float | None:
    """The median; None of nothing."""
    found = list(values)
    return median(found) if found else None
