"""A profiled model: several modes of one decode step side by side, the unprofiled step time as the truth.

Samples and calibration come from a capture's manifest, W and the split of the idle time from its `cuda` traces.
Every definition is in docs/metrics.md, "A profiled model". What can't be told is null, with its reason under
``withheld``.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from math import isfinite
from statistics import median
from typing import Any, Final

import msgspec

from ..figures.analyses import TraceAnalysis
from ..figures.communication import NO_COLLECTIVES, NOT_IN_COMMON
from ..figures.figure import known, settle
from ..figures.observer import observer_effect
from ..figures.verdict import StepFacts, verdict
from ..model import units
from ..model.capture import AS_WRITTEN, COMPILED, GRAPH_OF, UNGRAPHED, WARM_CACHE_NOTE, Manifest, ProcessRecord
from ..model.document import (
    TAX_FIELDS,
    BoundDoc,
    CalibrationDoc,
    FloorDoc,
    ModeDoc,
    ProcessDoc,
    ProfileDoc,
    StepTimeDoc,
    VerdictDoc,
    WarningDoc,
    baseline,
)
from ..step_model import bound_ns, serial_ns
from .graph_reasons import profile_findings
from .measured_mode import MeasuredMode, median_or_none
from .next_steps import ModeFigures, next_steps
from .select import of_mode

OVER_STEP: Final = 0.05  # share of T that N·τ, measured apart, may lie over it


def measured_modes(manifest: Manifest, analyses: Sequence[TraceAnalysis]) -> dict[str, MeasuredMode]:
    """The modes of one process, or of one rank."""
    return {
        name: MeasuredMode(name, record, of_mode(analyses, name), manifest) for name, record in manifest.modes.items()
    }


def mode_documents(modes: dict[str, MeasuredMode]) -> dict[str, ModeDoc]:
    """Their figures, in their order, failed ones included."""
    return {name: _mode_document(mode, modes) for name, mode in modes.items()}


def profile_document(manifest: Manifest, analyses: Sequence[TraceAnalysis]) -> ProfileDoc:
    """The profile part of the report, of one process or one rank."""
    modes = measured_modes(manifest, analyses)
    documents = mode_documents(modes)
    base = baseline(documents)
    calibration = manifest.calibration
    return ProfileDoc(
        calibration=None if calibration is None else CalibrationDoc(**msgspec.structs.asdict(calibration)),
        floor=None if manifest.floor is None else FloorDoc(**msgspec.structs.asdict(manifest.floor)),
        modes=documents,
        seconds=dict(manifest.seconds),
        verdict=None if base is None else documents[base].verdict,
        graph_findings=profile_findings(modes, base, manifest.target.batch_size),
    )


def _mode_document(mode: MeasuredMode, modes: dict[str, MeasuredMode]) -> ModeDoc:
    document = ModeDoc(
        **_time_figures(mode, modes),
        **_idle_figures(mode),
        **_prediction_figures(mode, modes),
        **_cost_figures(mode),
        processes=[_process_document(p) for p in mode.record.processes],
        host_submit_source=_source(mode),
        bound=known(_bound_document(mode), mode.error or "needs T and W"),
        verdict=known(_verdict(mode, modes), mode.error or "nothing was timed"),
        observer_effect=observer_effect(mode.sessions),
        error=mode.error,
        warnings=mode_warnings(mode),
        withheld={},
    )
    document, reasons = settle(document)
    return msgspec.structs.replace(document, withheld=reasons)


def _time_figures(mode: MeasuredMode, modes: dict[str, MeasuredMode]) -> dict[str, Any]:
    no_trace = mode.error or "no `cuda` trace of this mode with steps"
    untold = mode.error or _why_waiting_is_untold(mode) or no_trace
    eager = modes.get("eager")
    return {
        "step_ns": known(mode.step_ns, mode.error or "nothing was timed"),
        "host_submit_ns": known(mode.host_submit_ns, mode.error or "it was not measured"),
        "tau_step_ns": known(mode.tau_step_ns, mode.error or "needs host_submit_ns and launches"),
        "tau_api_ns": known(mode.tau_api_ns, no_trace),
        "gpu_work_ns": known(mode.busy_ns, no_trace),
        "gpu_work_without_waiting_ns": known(mode.without_waiting_ns, untold),
        "waiting_ns": known(mode.waiting_ns, untold),
        "gpu_work_uncertainty_ns": known(mode.uncertainty_ns, no_trace),
        "launches": known(mode.launches, no_trace),
        "kernels": known(mode.kernels, no_trace),
        "gpu_ops": known(mode.gpu_ops, no_trace),
        "floor_ns": known(mode.floor_ns, _why_no_floor(mode.manifest)),
        "speedup": known(_speedup(eager, mode) if eager else None, "no repeat has both eager and this mode"),
    }


def _why_waiting_is_untold(mode: MeasuredMode) -> str | None:
    """None without a trace."""
    if not mode.cuda:
        return None
    found = [a.document.communication for a in mode.cuda]
    return next((each.reason or NOT_IN_COMMON for each in found if each is not None), NO_COLLECTIVES)


def _idle_figures(mode: MeasuredMode) -> dict[str, Any]:
    if mode.exposed_ns is None:
        why = mode.error or "needs T and W"
    elif not mode.resolved:
        why = "below resolution: T − W is smaller than W's uncertainty"
    elif mode.shares is None:
        why = "the `cuda` pass has no steady idle time that could be split, or no calibration to replace the profiler's"
    else:
        why = ""
    fraction = None
    if mode.resolved and mode.exposed_ns is not None and mode.step_ns is not None and mode.step_ns.median > 0:
        fraction = mode.exposed_ns / mode.step_ns.median
    taxes = {name: None if mode.taxes_ns is None else mode.taxes_ns[tax] for tax, name in TAX_FIELDS.items()}
    figures = {"exposed_idle_ns": mode.exposed_ns, "true_idle_fraction": fraction, **taxes}
    return {name: known(value, why) for name, value in figures.items()}


def _prediction_figures(mode: MeasuredMode, modes: dict[str, MeasuredMode]) -> dict[str, Any]:
    """The graph time that the ungraphed mode predicts, beside both; its error against the graph that was measured."""
    source = modes.get(UNGRAPHED.get(mode.name, mode.name))
    graph = modes.get(GRAPH_OF.get(mode.name, mode.name)) if mode.name != AS_WRITTEN else None
    predicted = source.predicted_graph_ns if source else None
    if source is not None and source.holds_waiting:
        needed = "the work of its source holds waiting for other ranks, which can't be told from transfer"
    else:
        needed = f"needs W of {UNGRAPHED.get(mode.name, mode.name)} and a whole calibration (launchscope calibrate)"
    replays = source is not None and source.replays_graphs
    error = None
    if predicted is not None and graph is not None and graph.step_ns is not None and graph.exposed_ns:
        error = (predicted - graph.step_ns.median) / graph.exposed_ns
    return {
        "predicted_graph_ns": known(predicted, "the step replays graphs already" if replays else needed),
        "predicted_graph_error": known(error, "needs the prediction, and T and W of the graph mode"),
    }


def _cost_figures(mode: MeasuredMode) -> dict[str, Any]:
    graphed = mode.name in UNGRAPHED
    compiled = mode.name in COMPILED
    as_written = mode.name == AS_WRITTEN  # by whose hand, and when, nobody measured
    unmeasured = mode.error or "it was not measured"
    no_graph = unmeasured if graphed or as_written else "not a graph mode"
    no_compile = unmeasured if as_written else mode.error or "no process compiled from a cold cache"
    memory = mode.median_of("graph_memory_bytes")
    checks = [p.output for p in mode.record.processes if p.output is not None]
    unchecked = "eager is the reference" if mode.name == "eager" else mode.error or "no output to compare"
    uncompared = "no floating-point output compared" if checks else unchecked
    return {
        "capture_ns": known(mode.median_of("capture_ns"), no_graph),
        "graph_memory_bytes": known(None if memory is None else round(memory), no_graph),
        "compile_ns": known(mode.compile_ns, no_compile if compiled or as_written else "not compiled"),
        "output_matches_eager": known(all(c.matches for c in checks) if checks else None, unchecked),
        "max_abs_error": known(_largest(c.max_abs_error for c in checks), uncompared),
        "max_relative_error": known(_largest(c.max_relative_error for c in checks), uncompared),
        "output_tolerance": known(min((c.tolerance for c in checks), default=None), unchecked),
    }


def _largest(errors: Iterable[float | None]) -> float | None:
    return max((error for error in errors if error is not None and isfinite(error)), default=None)


def _speedup(eager: MeasuredMode, mode: MeasuredMode) -> float | None:
    """T_eager ÷ T, paired by repeat: the median of the pairs' ratios; None without a pair."""
    by_repeat = {p.repeat: median(p.samples_ns) for p in eager.timed}
    pairs = [(by_repeat[p.repeat], median(p.samples_ns)) for p in mode.timed if p.repeat in by_repeat]
    return median_or_none(theirs / own for theirs, own in pairs if own > 0)


def _why_no_floor(manifest: Manifest) -> str:
    if manifest.floor is None:
        return "the bytes that a step reads could not be counted"
    return "this machine's bandwidth was not measured (launchscope calibrate)"


def _source(mode: MeasuredMode) -> str | None:
    if mode.host_submit_ns is None:
        return None
    return "as profiled" if mode.submits_as_profiled else "unprofiled"


def _bound_document(mode: MeasuredMode) -> BoundDoc | None:
    if mode.step_ns is None or mode.work_ns is None or mode.launches is None:
        return None
    tau = mode.tau_step_ns
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
        note="; ".join(_bound_notes(mode, mode.step_ns, mode.work_ns, mode.launches, tau)) or None,
    )


def _bound_notes(
    mode: MeasuredMode, step: StepTimeDoc, work_ns: float, launches: float, tau: float | None
) -> Iterator[str]:
    """How not to read the bound."""
    if mode.holds_waiting:
        unsplit = units.duration(mode.unsplit_ns)
        yield f"W holds {unsplit} inside collectives, waiting for other ranks included, as recorded"
    note = None if tau is None else _bound_note(mode, step, work_ns, launches * tau)
    if note is not None:
        yield note


def _bound_note(mode: MeasuredMode, step: StepTimeDoc, work_ns: float, host_ns: float) -> str | None:
    """How not to read the bound; None where N·τ doesn't set it."""
    if host_ns <= work_ns:
        return None
    if host_ns <= max(step.median * (1 + OVER_STEP), step.ci_high or 0.0):
        return "where launching is the limit, N·τ is the step itself: T ÷ bound ≈ 1 proves nothing by itself"
    how = "under the profiler" if mode.submits_as_profiled else "alone, into an empty queue,"
    return f"N·τ is longer than T, so it bounds nothing here: submitting a step {how} took the host longer"


def _verdict(mode: MeasuredMode, modes: dict[str, MeasuredMode]) -> VerdictDoc | None:
    if mode.step_ns is None:
        return None
    calibration = mode.manifest.calibration
    graph = modes.get(GRAPH_OF.get(mode.name, ""))
    unreliable = sorted(
        {reason for a in mode.cuda if not a.document.coverage.reliable for reason in a.document.coverage.unreliable}
    )
    if not mode.cuda:
        unreliable = ["no `cuda` trace of this mode with steps, so its GPU work is not known"]
    steps = [a.document.steps for a in mode.cuda if a.document.steps]
    return verdict(
        StepFacts(
            basis="profile",
            step_ns=mode.step_ns.median,
            gpu_work_ns=_work_of_step(mode),
            waiting_ns=mode.waiting_ns or 0.0,
            unsplit_ns=mode.unsplit_of_step_ns,
            waits_for=_waits_for(mode),
            alone=all(a.context.waits is None for a in mode.cuda),
            gpu_ops=1.0 if mode.gpu_ops is None else mode.gpu_ops,
            launches=mode.launches or 0.0,
            tau_ns=mode.tau_step_ns,
            taxes_ns=mode.taxes_ns,
            work_uncertainty_ns=mode.uncertainty_ns or 0.0,
            host_as_profiled=mode.submits_as_profiled,
            graph_launches=median_or_none(s.graph_launches.median or 0.0 for s in steps) or 0.0,
            unreliable=tuple(unreliable),
            floor_ns=mode.floor_ns,
            node_gap_ns=calibration.node_gap_ns if calibration else None,
            predicted_graph_ns=mode.predicted_graph_ns if mode.name in GRAPH_OF else None,
            graph_obstacle=graph.error if graph else None,
            blocking=_blocking(mode.cuda),
            measured=tuple(next_steps(mode.name, {name: _figures_of(m) for name, m in modes.items()})),
        )
    )


def _waits_for(mode: MeasuredMode) -> int | None:
    """The rank for which it waits mostly in every recording; null where that differs."""
    found = {a.context.waits_for for a in mode.cuda}
    return found.pop() if len(found) == 1 else None


def _work_of_step(mode: MeasuredMode) -> float | None:
    """W in a step of length T: what collectives wait, or may wait, in it as it would be without the profiler."""
    if mode.work_ns is None:
        return None
    unsplit = mode.unsplit_ns if mode.holds_waiting else 0.0
    return mode.work_ns - unsplit + mode.unsplit_of_step_ns + (mode.waiting_ns or 0.0)


def _figures_of(mode: MeasuredMode) -> ModeFigures:
    predictor = mode.name in UNGRAPHED
    return ModeFigures(
        step_ns=mode.step_ns,
        work_ns=mode.work_ns,
        work_uncertainty_ns=mode.uncertainty_ns,
        kernels=mode.kernels,
        floor_ns=mode.floor_ns,
        floor_bytes=mode.manifest.floor.bytes if mode.manifest.floor else None,
        bandwidth=mode.manifest.calibration.bandwidth_bytes_per_s if mode.manifest.calibration else None,
        graph_memory_bytes=mode.median_of("graph_memory_bytes") if predictor else None,
        capture_ns=mode.median_of("capture_ns"),
        compile_ns=mode.compile_ns,
        streams_saving_ns=mode.streams_saving_ns,
        predicted_graph_ns=mode.predicted_graph_ns,
        matches=all(p.output.matches for p in mode.record.processes if p.output is not None),
    )


def _blocking(analyses: Iterable[TraceAnalysis]) -> tuple[str, ...]:
    """Blocking calls inside the step, in words, without repeats."""
    return tuple(dict.fromkeys(words for analysis in analyses for words in analysis.context.blocking_words))


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


NOISY: Final = 0.10  # half the 95 % interval ÷ T from which the report warns
OFF_FLOOR: Final = 1.02  # floor ÷ W above which one of the two is wrong


def mode_warnings(mode: MeasuredMode) -> list[WarningDoc]:
    """What changes how to read this mode's numbers; docs/warnings.md lists the codes."""
    return [*_circumstances(mode), *_doubts(mode), *_notes(mode)]


def _circumstances(mode: MeasuredMode) -> Iterator[WarningDoc]:
    """What went on while it was measured."""
    step = mode.step_ns
    if step is not None and step.median > 0 and step.ci_low is not None and step.ci_high is not None:
        spread = (step.ci_high - step.ci_low) / 2 / step.median
        if spread >= NOISY:
            yield WarningDoc(
                code="noisy_host", message=f"T ±{units.share(spread)}: noisy host; more --repeats narrow it"
            )
    states = [s for p in mode.record.processes for s in (p.before, p.after) if s is not None]
    slowed = ", ".join(sorted({reason for s in states for reason in s.throttle_reasons}))
    if slowed:
        text = f"the GPU was throttled ({slowed}): times are longer than they could be; cool it and profile again"
        yield WarningDoc(code="throttled", message=text)
    others = max((s.other_processes or 0 for s in states), default=0)
    if others:
        text = f"{others} other processes used the GPU meanwhile: times hold their work; profile on a GPU of your own"
        yield WarningDoc(code="shared_gpu", message=text, count=others)
    failed = [p.error for p in mode.record.processes if p.error]
    if failed and mode.timed:
        text = f"{len(failed)} processes of this mode failed: {failed[0]}"
        yield WarningDoc(code="process_failed", message=text, count=len(failed))


def _doubts(mode: MeasuredMode) -> Iterator[WarningDoc]:
    """Figures that contradict each other, or that come from a place they should not."""
    if mode.exposed_ns is not None and mode.exposed_ns < -(mode.uncertainty_ns or 0.0):
        text = f"W is {units.duration(-mode.exposed_ns)} longer than T: the profiler stretched it; T stands"
        yield WarningDoc(code="work_over_step", message=text)
    if mode.floor_ns is not None and mode.work_ns is not None and mode.floor_ns > OFF_FLOOR * mode.work_ns:
        floor = units.duration(mode.floor_ns)
        text = f"the floor of {floor} is over W: the step reads less than was counted; take it with care"
        yield WarningDoc(code="floor_over_work", message=text)
    for reason in dict.fromkeys(reason for a in mode.cuda for reason in a.document.coverage.unreliable):
        yield WarningDoc(
            code="unreliable_trace", message=f"W and the taxes come from a trace that can't be trusted: {reason}"
        )
    covered = [a.document.graphs.coverage_by_count for a in mode.cuda]
    lowest = min((c for c in covered if c is not None), default=None)
    if mode.name in UNGRAPHED and lowest is not None and lowest < 1.0:
        text = f"only {units.share(lowest)} of the kernels ran in a graph: it did not fully engage; see its launches"
        yield WarningDoc(code="graph_not_engaged", message=text)
    if mode.host_submit_ns is not None and mode.submits_as_profiled:
        text = "host time is as profiled: the step waits for the GPU inside, or fills the launch queue"
        yield WarningDoc(code="host_as_profiled", message=text)


def _notes(mode: MeasuredMode) -> Iterator[WarningDoc]:
    """What the measuring processes noticed themselves, each told once."""
    processes = mode.record.processes
    for note in dict.fromkeys(note for p in processes for note in p.notes if note != WARM_CACHE_NOTE):
        yield WarningDoc(code="note", message=note)
    for note in dict.fromkeys(p.output.note for p in processes if p.output is not None and p.output.note):
        yield WarningDoc(code="output_check", message=f"output check: {note}")
