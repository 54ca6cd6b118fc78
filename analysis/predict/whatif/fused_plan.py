"""A plan of recorded steps with the fusion advisor's candidates done: fewer launches, and less GPU work."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import numpy as np

from ...model.document import fusion_of
from ...model.errors import LaunchscopeError
from ...model.fusion_document import CandidateDoc
from ...model.trace import Ints
from ...report import Report
from .gpu_work import CLASSES
from .plan_changes import spread_evenly, without_ops
from .simulator import Plan

_ALL: Final = "all"
_STAYS: Final = ("matmul", "attention")
"""Ops of these classes stay where others can go: which ones go makes no difference to the step, but to its look."""


class FusedPlan(NamedTuple):
    """The plan; the row that each op came from; what its ops take, as a share: usual, soonest and latest answer."""

    plan: Plan
    origin: Ints
    shares: tuple[float, float, float]


def fused(plan: Plan, op_step: Ints, classes: Ints, report: Report, kinds: Sequence[str]) -> FusedPlan:
    """Without as many launches as the candidates save, and with what they leave of the GPU work.

    LaunchscopeError where the report has no candidates of these kinds, or doesn't know what they are worth.
    """
    chosen = _chosen(report, kinds)
    count = sum(candidate.launches_saved for candidate in chosen)
    may_go = ~np.isin(classes, [CLASSES.index(name) for name in _STAYS])
    if int(may_go.sum()) < count * len(np.unique(op_step)):
        may_go = np.ones(len(op_step), np.bool_)
    smaller, origin = without_ops(plan, spread_evenly(op_step, may_go, count))
    steps = len(np.unique(op_step))
    work, left = float(plan.op_ns.sum()) / steps, float(smaller.op_ns.sum()) / steps
    saved = [_work_ns(chosen, name) for name in ("graph_saves_ns", "graph_high_ns", "graph_low_ns")]
    usual, most, least = (max(work - ns, 0.0) / left if left else 0.0 for ns in saved)
    return FusedPlan(smaller, origin, (usual, most, least))


def _chosen(report: Report, kinds: Sequence[str]) -> list[CandidateDoc]:
    found = fusion_of(report.document.traces)
    if found is None:
        raise LaunchscopeError("--fuse takes an eager recording with the shapes of operators' inputs (docs/fusion.md)")
    known = sorted({candidate.kind for candidate in found.candidates})
    unknown = [kind for kind in kinds if kind != _ALL and kind not in known]
    if unknown or not known:
        raise LaunchscopeError(f"--fuse {(unknown or [_ALL])[0]}: the advisor found {', '.join(known) or 'nothing'}")
    return [each for each in found.candidates if _ALL in kinds or each.kind in kinds]


def _work_ns(chosen: Sequence[CandidateDoc], name: str) -> float:
    """GPU work that goes: what a graph saves less its node gaps, which go with the ops."""
    total = 0.0
    for candidate in chosen:
        saves, usual, work = getattr(candidate, name), candidate.graph_saves_ns, candidate.gpu_work_ns
        if saves is None or usual is None or work is None:
            raise LaunchscopeError(
                f"--fuse {candidate.kind}: what it saves the GPU is not known without a calibration of its machine"
            )
        total += max(saves - (usual - work), 0.0)
    return total
