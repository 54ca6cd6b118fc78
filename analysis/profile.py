"""A profiled model: several modes of one decode step side by side, the unprofiled step time as the truth.

Samples and calibration come from a capture's manifest, W and the split of the idle time from its `cuda` traces.
Every definition is in docs/metrics.md, "A profiled model". What can't be told is null, with its reason under
``withheld``.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from statistics import median
from typing import Any, Final

from .analyses import TraceAnalysis
from .bound import bound_ns, floor_ns, predict_graph_ns, serial_ns
from .capture import Calibration, Manifest, ModeRecord, ProcessRecord
from .document import (
    TAXES,
    BoundDoc,
    CalibrationDoc,
    ModeDoc,
    ProcessDoc,
    ProfileDoc,
    StepTimeDoc,
    VerdictDoc,
    WarningDoc,
)
from .host_submit import submits_as_profiled
from .next_steps import ModeFigures, next_steps
from .observer import observer_effect, taxes_without_observer
from .statistics import bootstrap_interval
from .verdict import KERNEL_STRETCH_NS, StepFacts, percent_text, time_text, verdict

NOISY: Final = 0.10  # half the 95 % interval ÷ T from which the report warns
OFF_FLOOR: Final = 1.02  # floor ÷ W above which one of the two is wrong

UNGRAPHED: Final = {"graph": "eager", "fused_graph": "fused"}
GRAPHED: Final = {"eager": "graph", "fused": "fused_graph"}
TAX_FIELDS: Final = {
    "launch": "launch_tax_ns",
    "stall": "stall_tax_ns",
    "node": "node_tax_ns",
    "sync": "sync_tax_ns",
    "between_steps": "between_steps_ns",
    "other": "other_idle_ns",
}


def profile_document(manifest: Manifest, analyses: Sequence[TraceAnalysis]) -> ProfileDoc:
    """The profile part of the report: one ModeDoc per mode of the manifest, in its order, failed ones included."""
    modes = {
        name: _Mode(name, record, [a for a in analyses if _is_of(a, name)], manifest)
        for name, record in manifest.modes.items()
    }
    documents = {name: _mode_document(mode, modes) for name, mode in modes.items()}
    baseline = next((m for m in ("eager", *documents) if m in documents and documents[m].step_ns is not None), None)
    return ProfileDoc(
        calibration=_calibration_document(manifest.calibration),
        modes=documents,
        seconds=dict(manifest.seconds),
        verdict=documents[baseline].verdict if baseline else None,
    )


def submit_ns(record: ModeRecord) -> float | None:
    """Unprofiled host time to submit a step: the median over a mode's processes of their medians; None unmeasured."""
    return _median(median(p.host_submit_ns) for p in _timing(record) if p.host_submit_ns)


def _timing(record: ModeRecord) -> list[ProcessRecord]:
    """Processes that times may be taken from: not the one that recorded stacks."""
    return [p for p in record.processes if p.trace_pass != "stacks"]


def _is_of(analysis: TraceAnalysis, mode: str) -> bool:
    return analysis.mode == (None if mode == "as_written" else mode)


@dataclass(frozen=True)
class _Mode:
    """One mode's measurements; every property is None where it can't be told."""

    name: str
    record: ModeRecord
    analyses: list[TraceAnalysis]
    manifest: Manifest

    @cached_property
    def timed(self) -> list[ProcessRecord]:
        """Processes with unprofiled samples."""
        return [p for p in _timing(self.record) if p.samples_ns]

    @cached_property
    def cuda(self) -> list[TraceAnalysis]:
        """Traces of the `cuda` pass that have steps: the reliable ones, or all where none is."""
        found = [a for a in self.analyses if a.trace_pass == "cuda" and a.document.steps is not None]
        return [a for a in found if a.document.coverage.reliable] or found

    @cached_property
    def step_ns(self) -> StepTimeDoc | None:
        """T with its interval."""
        if not self.timed:
            return None
        samples = [list(p.samples_ns) for p in self.timed]
        low, high = bootstrap_interval(samples) if len(samples) > 1 else (None, None)
        return StepTimeDoc(median=median(median(s) for s in samples), ci_low=low, ci_high=high)

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
                if (a.trace_pass, a.repeat) == (process.trace_pass, process.repeat)
                and a.document.steps is not None
                and a.document.steps.period_ns is not None
            ]
            inside = _median(value for value in periods if value is not None) or _median(process.session_ns)
            if process.trace_pass is not None and inside is not None:
                found.append((process.trace_pass, inside, median(process.samples_ns)))
        return found

    @cached_property
    def work_ns(self) -> float | None:
        """W."""
        return self._per_step("busy_ns")

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
        found = [getattr(a.document.steps, figure).median for a in self.cuda]
        return _median(value for value in found if value is not None)

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
        return any(submits_as_profiled(a.document.steps, a.document.queue_depth) for a in self.cuda if a.document.steps)

    @cached_property
    def host_submit_ns(self) -> float | None:
        if self.submits_as_profiled:
            return _median(
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
        return _median(value for value in medians if value is not None)

    @cached_property
    def exposed_ns(self) -> float | None:
        if self.step_ns is None or self.work_ns is None:
            return None
        return self.step_ns.median - self.work_ns

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
            if analysis.headline_steady is None:
                continue
            taxes = taxes_without_observer(analysis.trace, analysis.headline_steady, self.manifest.calibration)
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
    def predicted_graph_ns(self) -> float | None:
        """This step as one CUDA graph, from its ungraphed work and the calibration."""
        if self.work_ns is None or self.gpu_ops is None or self.manifest.calibration is None:
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
        return _median(value for value in found if value is not None)


def _mode_document(mode: _Mode, modes: dict[str, _Mode]) -> ModeDoc:
    figures = _Figures()
    _time_figures(figures, mode, modes)
    _idle_figures(figures, mode)
    _prediction_figures(figures, mode, modes)
    _cost_figures(figures, mode)
    bound = _bound_document(mode)
    if bound is None:
        figures.withheld["bound"] = mode.error or "needs T and W"
    judged = _verdict(mode, modes)
    if judged is None:
        figures.withheld["verdict"] = mode.error or "nothing was timed"
    return ModeDoc(
        **figures.values,
        processes=[_process_document(p) for p in mode.record.processes],
        host_submit_source=_source(mode),
        bound=bound,
        verdict=judged,
        observer_effect=observer_effect(mode.sessions),
        error=mode.error,
        warnings=_warnings(mode),
        withheld=figures.withheld,
    )


class _Figures:
    """The figures of one mode, each with its reason where it is null."""

    def __init__(self) -> None:
        self.values: dict[str, Any] = {}
        self.withheld: dict[str, str] = {}

    def put(self, name: str, value: object, otherwise: str) -> None:
        self.values[name] = value
        if value is None:
            self.withheld[name] = otherwise


def _time_figures(figures: _Figures, mode: _Mode, modes: dict[str, _Mode]) -> None:
    untimed = mode.error or "nothing was timed"
    no_trace = mode.error or "no `cuda` trace of this mode with steps"
    figures.put("step_ns", mode.step_ns, untimed)
    figures.put("host_submit_ns", mode.host_submit_ns, mode.error or "it was not measured")
    figures.put("tau_step_ns", mode.tau_step_ns, mode.error or "needs host_submit_ns and launches")
    figures.put("tau_api_ns", mode.tau_api_ns, no_trace)
    figures.put("gpu_work_ns", mode.work_ns, no_trace)
    figures.put("gpu_work_uncertainty_ns", mode.uncertainty_ns, no_trace)
    figures.put("launches", mode.launches, no_trace)
    figures.put("kernels", mode.kernels, no_trace)
    figures.put("gpu_ops", mode.gpu_ops, no_trace)
    figures.put("floor_ns", mode.floor_ns, _why_no_floor(mode.manifest))
    eager = modes.get("eager")
    figures.put("speedup", _speedup(eager, mode) if eager else None, "no repeat has both eager and this mode")


def _idle_figures(figures: _Figures, mode: _Mode) -> None:
    if mode.exposed_ns is None:
        why = mode.error or "needs T and W"
    elif not mode.resolved:
        why = "below resolution: T − W is smaller than W's uncertainty"
    elif mode.shares is None:
        why = "the `cuda` pass has no steady idle time that could be split, or no calibration to replace the profiler's"
    else:
        why = ""
    figures.put("exposed_idle_ns", mode.exposed_ns, why)
    fraction = None
    if mode.resolved and mode.exposed_ns is not None and mode.step_ns is not None and mode.step_ns.median > 0:
        fraction = mode.exposed_ns / mode.step_ns.median
    figures.put("true_idle_fraction", fraction, why)
    for tax, name in TAX_FIELDS.items():
        figures.put(name, None if mode.taxes_ns is None else mode.taxes_ns[tax], why)


def _prediction_figures(figures: _Figures, mode: _Mode, modes: dict[str, _Mode]) -> None:
    """The graph time that the ungraphed mode predicts, beside both; its error against the graph that was measured."""
    source = modes.get(UNGRAPHED.get(mode.name, mode.name))
    graph = modes.get(GRAPHED.get(mode.name, mode.name)) if mode.name != "as_written" else None
    predicted = source.predicted_graph_ns if source else None
    figures.put(
        "predicted_graph_ns",
        predicted,
        f"needs W of {UNGRAPHED.get(mode.name, mode.name)} and a whole calibration (launchscope calibrate)",
    )
    error = None
    if predicted is not None and graph is not None and graph.step_ns is not None and graph.exposed_ns:
        error = (predicted - graph.step_ns.median) / graph.exposed_ns
    figures.put("predicted_graph_error", error, "needs the prediction, and T and W of the graph mode")


def _cost_figures(figures: _Figures, mode: _Mode) -> None:
    graphed = mode.name in UNGRAPHED
    compiled = mode.name in ("fused", "fused_graph")
    no_graph = "not a graph mode" if not graphed else mode.error or "it was not measured"
    memory = mode.median_of("graph_memory_bytes")
    figures.put("capture_ns", mode.median_of("capture_ns"), no_graph)
    figures.put("graph_memory_bytes", None if memory is None else round(memory), no_graph)
    figures.put(
        "compile_ns",
        mode.median_of("compile_ns"),
        "not compiled" if not compiled else mode.error or "it was not measured",
    )
    checks = [p.output for p in mode.record.processes if p.output is not None]
    unchecked = "eager is the reference" if mode.name == "eager" else mode.error or "no output to compare"
    errors = [c.max_abs_error for c in checks if c.max_abs_error is not None and isfinite(c.max_abs_error)]
    figures.put("output_matches_eager", all(c.matches for c in checks) if checks else None, unchecked)
    figures.put("max_abs_error", max(errors, default=None), unchecked if not checks else "no floating-point output")


def _speedup(eager: _Mode, mode: _Mode) -> float | None:
    """T_eager ÷ T, paired by repeat: the median of the pairs' ratios; None without a pair."""
    by_repeat = {p.repeat: median(p.samples_ns) for p in eager.timed}
    pairs = [(by_repeat[p.repeat], median(p.samples_ns)) for p in mode.timed if p.repeat in by_repeat]
    return _median(theirs / own for theirs, own in pairs if own > 0)


def _why_no_floor(manifest: Manifest) -> str:
    if manifest.floor is None:
        return "the bytes that a step reads could not be counted"
    return "this machine's bandwidth was not measured (launchscope calibrate)"


def _source(mode: _Mode) -> str | None:
    if mode.host_submit_ns is None:
        return None
    return "as profiled" if mode.submits_as_profiled else "unprofiled"


def _bound_document(mode: _Mode) -> BoundDoc | None:
    if mode.step_ns is None or mode.work_ns is None or mode.launches is None:
        return None
    tau, note = mode.tau_step_ns, None
    if tau is not None and mode.launches * tau > mode.work_ns:
        note = "where launching is the limit, N·τ is the step itself: T ÷ bound ≈ 1 proves nothing by itself"
    return BoundDoc(
        basis="profile",
        gpu_work_ns=mode.work_ns,
        launches=mode.launches,
        tau_ns=tau,
        bound_ns=None if tau is None else bound_ns(mode.work_ns, mode.launches, tau),
        serial_ns=None if tau is None else serial_ns(mode.work_ns, mode.launches, tau),
        step_ns=mode.step_ns.median,
        host_submit_ns=mode.host_submit_ns,
        host_submit_source=_source(mode),
        note=note,
    )


def _verdict(mode: _Mode, modes: dict[str, _Mode]) -> VerdictDoc | None:
    if mode.step_ns is None:
        return None
    calibration = mode.manifest.calibration
    graph = modes.get(GRAPHED.get(mode.name, ""))
    unreliable = sorted({reason for a in mode.cuda if not a.document.coverage.reliable for reason in a.unreliable})
    if not mode.cuda:
        unreliable = ["no `cuda` trace of this mode with steps, so its GPU work is not known"]
    steps = [a.document.steps for a in mode.cuda if a.document.steps]
    return verdict(
        StepFacts(
            basis="profile",
            step_ns=mode.step_ns.median,
            gpu_work_ns=mode.work_ns,
            gpu_ops=1.0 if mode.gpu_ops is None else mode.gpu_ops,
            launches=mode.launches or 0.0,
            tau_ns=mode.tau_step_ns,
            taxes_ns=mode.taxes_ns,
            work_uncertainty_ns=mode.uncertainty_ns or 0.0,
            graph_launches=_median(s.graph_launches.median or 0.0 for s in steps) or 0.0,
            unreliable=tuple(unreliable),
            floor_ns=mode.floor_ns,
            node_gap_ns=calibration.node_gap_ns if calibration else None,
            predicted_graph_ns=mode.predicted_graph_ns if mode.name in GRAPHED else None,
            graph_obstacle=graph.error if graph else None,
            blocking=_blocking(mode.cuda),
            measured=tuple(next_steps(mode.name, {name: _figures_of(m) for name, m in modes.items()})),
        )
    )


def _figures_of(mode: _Mode) -> ModeFigures:
    predictor = mode.name in UNGRAPHED
    return ModeFigures(
        step_ns=mode.step_ns,
        work_ns=mode.work_ns,
        kernels=mode.kernels,
        floor_ns=mode.floor_ns,
        floor_bytes=mode.manifest.floor.bytes if mode.manifest.floor else None,
        bandwidth=mode.manifest.calibration.bandwidth_bytes_per_s if mode.manifest.calibration else None,
        graph_memory_bytes=mode.median_of("graph_memory_bytes") if predictor else None,
        capture_ns=mode.median_of("capture_ns"),
        compile_ns=mode.median_of("compile_ns"),
        predicted_graph_ns=mode.predicted_graph_ns,
        matches=all(p.output.matches for p in mode.record.processes if p.output is not None),
    )


def _blocking(analyses: Iterable[TraceAnalysis]) -> tuple[str, ...]:
    """Blocking calls inside the step, in words, without repeats."""
    return tuple(dict.fromkeys(words for analysis in analyses for words in analysis.blocking_words))


def _warnings(mode: _Mode) -> list[WarningDoc]:
    """What changes how to read this mode's numbers."""
    states = [s for p in mode.record.processes for s in (p.before, p.after) if s is not None]
    found = []
    step = mode.step_ns
    if step is not None and step.median > 0 and step.ci_low is not None and step.ci_high is not None:
        spread = (step.ci_high - step.ci_low) / 2 / step.median
        if spread >= NOISY:
            found.append(("noisy_host", f"T ±{percent_text(spread)}: noisy host; more --repeats narrow it", 1))
    throttled = [s for s in states if s.throttle_reasons]
    if throttled:
        reasons = ", ".join(sorted({reason for s in throttled for reason in s.throttle_reasons}))
        found.append(("throttled", f"the GPU was throttled ({reasons}): times are longer than they could be", 1))
    others = max((s.other_processes or 0 for s in states), default=0)
    if others:
        found.append(("shared_gpu", f"{others} other processes used the GPU meanwhile: times hold their work", others))
    failed = [p.error for p in mode.record.processes if p.error]
    if failed and mode.timed:
        found.append(("process_failed", f"{len(failed)} processes of this mode failed: {failed[0]}", len(failed)))
    found += _doubts(mode)
    return [WarningDoc(code=code, message=message, count=count) for code, message, count in found]


def _doubts(mode: _Mode) -> list[tuple[str, str, int]]:
    """Figures that contradict each other."""
    found = []
    if mode.exposed_ns is not None and mode.exposed_ns < -(mode.uncertainty_ns or 0.0):
        words = f"W is {time_text(-mode.exposed_ns)} longer than T: the profiler stretched it"
        found.append(("work_over_step", words, 1))
    if mode.floor_ns is not None and mode.work_ns is not None and mode.floor_ns > OFF_FLOOR * mode.work_ns:
        words = f"the floor of {time_text(mode.floor_ns)} is over W: the step reads less than was counted"
        found.append(("floor_over_work", words, 1))
    reasons = dict.fromkeys(reason for a in mode.cuda for reason in a.unreliable)
    found += [("unreliable_trace", f"W and the taxes come from a trace that can't be trusted: {r}", 1) for r in reasons]
    covered = [a.document.graphs.coverage_by_count for a in mode.cuda]
    lowest = min((c for c in covered if c is not None), default=None)
    if mode.name in UNGRAPHED and lowest is not None and lowest < 1.0:
        words = f"only {percent_text(lowest)} of the kernels ran in a graph: it did not fully engage"
        found.append(("graph_not_engaged", words, 1))
    if mode.host_submit_ns is not None and mode.submits_as_profiled:
        words = "host time is as profiled: the step waits for the GPU inside, or fills the launch queue"
        found.append(("host_as_profiled", words, 1))
    notes = dict.fromkeys(p.output.note for p in mode.record.processes if p.output is not None and p.output.note)
    found += [("output_check", f"output check: {note}", 1) for note in notes]
    return found


def _process_document(process: ProcessRecord) -> ProcessDoc:
    clocks = [s.sm_clock_mhz for s in (process.before, process.after) if s is not None]
    return ProcessDoc(
        repeat=process.repeat,
        samples_ns=list(process.samples_ns),
        warmup_ns=list(process.warmup_ns),
        host_submit_ns=list(process.host_submit_ns),
        clocks_mhz=[clock for clock in clocks if clock is not None],
        started=process.started,
    )


def _calibration_document(calibration: Calibration | None) -> CalibrationDoc | None:
    if calibration is None:
        return None
    return CalibrationDoc(
        tau_floor_ns=calibration.tau_floor_ns,
        graph_launch_ns=calibration.graph_launch_ns,
        graph_launch_per_node_ns=calibration.graph_launch_per_node_ns,
        replay_gap_ns=calibration.replay_gap_ns,
        node_gap_ns=calibration.node_gap_ns,
        bandwidth_bytes_per_s=calibration.bandwidth_bytes_per_s,
        flops_per_s=dict(calibration.flops_per_s),
    )


def _median(values: Iterable[float]) -> float | None:
    """The median; None of nothing."""
    found = list(values)
    return median(found) if found else None
