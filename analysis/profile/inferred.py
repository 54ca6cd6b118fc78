"""Operators for traces that have none: from an aligned trace of the same capture, and marked as inferred.

A CUDA-only pass records no operators, and the ops of a graph replay have a graph launch above them instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Final

import msgspec

from ..facts.alignment import align
from ..figures.analyses import TraceAnalysis
from ..model.capture import UNGRAPHED
from ..model.document import KernelDoc

WITH_OPERATORS: Final = ("cpu_cuda", "stacks")


def with_inferred_operators(analyses: Sequence[TraceAnalysis]) -> list[TraceAnalysis]:
    """The analyses of one capture, in order; kernels without an operator get that of their counterpart."""
    return [_with_operators(analysis, _reference_of(analysis, analyses)) for analysis in analyses]


def _reference_of(analysis: TraceAnalysis, analyses: Sequence[TraceAnalysis]) -> TraceAnalysis | None:
    """The trace that knows the operators of this one's kernels, or None."""
    modes = (UNGRAPHED.get(analysis.mode or "", analysis.mode), "eager")
    for mode in modes:
        for trace_pass in WITH_OPERATORS:
            for other in analyses:
                if other is not analysis and (other.mode, other.trace_pass) == (mode, trace_pass):
                    return other
    return None


def _with_operators(analysis: TraceAnalysis, reference: TraceAnalysis | None) -> TraceAnalysis:
    lacking = [row for row in analysis.document.kernels if row.operator is None]
    if reference is None or not lacking:
        return analysis
    operators = align(reference.trace, reference.steps, analysis.trace, analysis.steps).operators
    kernels = [_inferred(row, operators.get(row.name)) for row in analysis.document.kernels]
    return replace(analysis, document=msgspec.structs.replace(analysis.document, kernels=kernels))


def _inferred(row: KernelDoc, operator: str | None) -> KernelDoc:
    if row.operator is not None or operator is None:
        return row
    return msgspec.structs.replace(row, operator=operator, operator_inferred=True)
