"""Traces with the fusion advisor's findings: by themselves, and with what their capture knows beside them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from ..figures.analyses import TraceAnalysis
from ..figures.fusion.advisor import TAU_STEP, Rates, findings, fusion_doc
from ..figures.fusion.fused_run import Recorded, fused_run
from ..figures.fusion.scan import Finding, Occurrence
from ..figures.fusion.step import FusionStep, OpTimes, fusion_step, names_of_step, op_times
from ..model.capture import Calibration
from ..model.fusion_document import FusedRunDoc
from .advice import with_trace_advice
from .select import TIMES, mode_of, of_mode, of_pass, ranked

_EAGER: Final = "eager"
_FUSED: Final = "fused"
_GPU_BOUND: Final = "gpu-bound"


def with_fusion(analysis: TraceAnalysis) -> TraceAnalysis:
    """A trace outside a capture, by its own times; the advice is among its verdict's actions."""
    step = fusion_step(analysis.context)
    if step is None:
        return analysis
    found = _with(analysis, step, findings(step), _rates(analysis, None), None)
    document = found.document
    step_ns = None if document.bound is None else document.bound.step_ns
    advised = with_trace_advice(document.verdict, document.fusion, step_ns)
    return replace(found, document=msgspec.structs.replace(document, verdict=advised))


def with_captured_fusion(
    analyses: Sequence[TraceAnalysis], calibration: Calibration | None
) -> tuple[list[TraceAnalysis], FusedRunDoc | None]:
    """The traces of a capture, in order, and what its fused run did of what the eager one's trace promises.

    Null where no eager trace has shapes, or no fused one has steps.
    """
    found: list[TraceAnalysis] = []
    against: FusedRunDoc | None = None
    for analysis in analyses:
        times = _times(analysis, analyses) if analysis.trace.shapes else None
        step = None if times is None else fusion_step(analysis.context, times)
        if step is None or times is None:
            found.append(analysis)
            continue
        parts, rates = findings(step), _rates(analysis, calibration)
        found.append(_with(analysis, step, parts, rates, times.source))
        if analysis.mode == _EAGER and against is None and (fused := _fused(analyses)) is not None:
            eager = Recorded(analysis.context, times)
            against = fused_run(eager, step, [each for each in parts if isinstance(each, Occurrence)], rates, fused)
    return found, against


def _with(
    analysis: TraceAnalysis, step: FusionStep, found: Sequence[Finding], rates: Rates, times_from: str | None
) -> TraceAnalysis:
    document = fusion_doc(step, found, rates, times_from=times_from)
    return replace(analysis, document=msgspec.structs.replace(analysis.document, fusion=document))


def _rates(analysis: TraceAnalysis, calibration: Calibration | None) -> Rates:
    """τ as the trace's short kernels have it; the rest as calibrated."""
    short = analysis.document.short_kernels
    is_gpu_bound = analysis.document.verdict.verdict_class == _GPU_BOUND
    costs = calibration or Calibration()
    calibrated = (costs.tau_floor_ns, costs.bandwidth_bytes_per_s, costs.node_gap_ns)
    return Rates(short.tau_ns, short.tau_source, *calibrated, is_gpu_bound)


def _times(analysis: TraceAnalysis, analyses: Sequence[TraceAnalysis]) -> OpTimes | None:
    """From the mode's first `cuda` pass that runs the same ops, else from the trace itself, without the host's."""
    names = names_of_step(analysis.context)
    short, steps = analysis.document.short_kernels, analysis.document.steps
    submit = None
    if short.tau_source == TAU_STEP and short.tau_ns is not None and steps is not None and steps.launches.median:
        submit = short.tau_ns * steps.launches.median
    recordings = of_pass(of_mode(analyses, mode_of(analysis)), TIMES[0])
    of_others = (op_times(other.context, names, submit) for other in recordings)
    return next(filter(None, of_others), None) or op_times(analysis.context, names, None)


def _fused(analyses: Sequence[TraceAnalysis]) -> Recorded | None:
    """The first recording of the compiled step without graphs that has steps: of the `cuda` pass where there is one."""
    for analysis in ranked(of_mode(analyses, _FUSED), TIMES):
        names = names_of_step(analysis.context)
        times = op_times(analysis.context, names, None) if names else None
        if times is not None:
            return Recorded(analysis.context, times)
    return None
