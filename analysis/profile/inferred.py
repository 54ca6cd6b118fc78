"""Operators for traces that have none: from an aligned trace of the same capture, and marked as inferred.

A CUDA-only pass records no operators, and the ops of a graph replay have a graph launch above them instead.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import msgspec

from ..facts.alignment import align
from ..figures.analyses import TraceAnalysis
from ..model.capture import UNGRAPHED
from ..model.document import KernelDoc
from .select import OPERATORS, TIMES, mode_of, of_mode, ranked


def with_inferred_operators(analyses: Sequence[TraceAnalysis]) -> list[TraceAnalysis]:
    """The analyses of one capture, in order; kernels without an operator get that of their counterpart."""
    return [_with_operators(analysis, _reference_of(analysis, analyses)) for analysis in analyses]


def _reference_of(analysis: TraceAnalysis, analyses: Sequence[TraceAnalysis]) -> TraceAnalysis | None:
    """The trace that knows the operators of this one's kernels, or None."""
    own = mode_of(analysis) or ""
    for mode in (UNGRAPHED.get(own, own), "eager"):
        others = [each for each in of_mode(analyses, mode) if each is not analysis and each.trace_pass != TIMES[0]]
        if others:
            return ranked(others, OPERATORS)[0]
    return None


def _with_operators(analysis: TraceAnalysis, reference: TraceAnalysis | None) -> TraceAnalysis:
    lacking = [row for row in analysis.document.kernels if row.operator is None]
    if reference is None or not lacking:
        return analysis
    operators = align(reference.context, analysis.context).operators
    kernels = [_inferred(row, operators.get(row.name)) for row in analysis.document.kernels]
    return replace(analysis, document=msgspec.structs.replace(analysis.document, kernels=kernels))


def _inferred(row: KernelDoc, operator: str | None) -> KernelDoc:
    if row.operator is not None or operator is None:
        return row
    return msgspec.structs.replace(row, operator=operator, operator_inferred=True)
