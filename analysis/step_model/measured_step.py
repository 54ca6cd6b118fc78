"""The step that a prediction starts from: one mode as a profile measured it, or one trace as it was recorded."""

from __future__ import annotations

from typing import Final

from ..model.capture import Calibration
from ..model.document import ModeDoc, ProfileDoc, TargetDoc, TraceDoc
from .bound import StepModel
from .step_bytes import step_bytes

MOSTLY: Final = 0.5  # share of the kernels in graphs from which launches of their own say nothing

_FIGURES: Final = (
    ("gpu_work_ns", "GPU work"),
    ("gpu_ops", "number of GPU ops"),
    ("launches", "number of launches"),
    ("tau_step_ns", "host time per launch"),
)
"""What a mode must have measured."""


def step_of_mode(mode: ModeDoc, profile: ProfileDoc, target: TargetDoc | None) -> StepModel | str:
    """A mode without the profiler; or why no prediction can start from it, in words."""
    for field, what in _FIGURES:
        if getattr(mode, field) is None:
            return f"its {what} is not known: {mode.withheld.get(field, 'it was not measured')}"
    work, ops, launches, tau = (getattr(mode, field) for field, _ in _FIGURES)
    if min(work, ops, launches, tau) <= 0:
        return "it launches nothing that takes time"
    if launches < (1 - MOSTLY) * ops:
        return "the step replays graphs already, so nothing is launched kernel by kernel that a graph could replace"
    return StepModel(
        gpu_work_ns=work,
        gpu_ops=ops,
        launches=launches,
        tau_ns=tau,
        costs=profile.calibration or Calibration(),
        reads=step_bytes(target, profile.floor, profile.calibration),
    )


def step_of_trace(trace: TraceDoc) -> StepModel | str:
    """A trace as it was recorded, the profiler's cost included; or why no prediction can start from it, in words."""
    bound = trace.bound
    if bound is None or bound.tau_ns is None:
        return trace.withheld.get("bound", "the host time of its launches is not known")
    ops = trace.coverage.gpu_ops if trace.steps is None else trace.steps.gpu_ops.median or 0.0
    if (trace.graphs.coverage_by_count or 0.0) >= MOSTLY or bound.launches < (1 - MOSTLY) * ops:
        return "the step replays graphs already, and its kernels wait for no launch"
    if not ops or not bound.launches or bound.gpu_work_ns <= 0 or bound.tau_ns <= 0:
        return "no step in it launches work that takes time"
    return StepModel(bound.gpu_work_ns, float(ops), bound.launches, bound.tau_ns, Calibration())
