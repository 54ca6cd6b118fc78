"""Plans of the simulator changed: as one CUDA graph, with more ops or fewer, and with ops that take other times.

What is known of a step are the bytes of weights and of caches that it reads, its FLOPs, and this GPU's rates. The
time that they take at those rates (step_model.py) is a part of the matmuls' and of attention's time; that part
moves, the rest stays.

More rows make all kernels longer: GPU work grows by ``ROWS`` times what these parts grow by, and from one row to
several the library takes other kernels. What the real thing gives lies around that, so every answer has a low and a
high one (docs/validation.md, "What-if").
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import replace
from typing import Final, NamedTuple

import numpy as np

from ..model.advisor_documents import CandidateDoc
from ..model.document import CalibrationDoc, fusion_of
from ..model.errors import LaunchscopeError
from ..model.names import is_compiled, kind_of_kernel
from ..model.trace import NONE, Bools, GpuOps, Ints, OpKind, Reals
from ..report import Report
from ..step_model import Knobs, StepBytes, graph_launch_cost_ns, of_class
from .simulator import Plan

CLASSES: Final = ("matmul", "attention", "communication", "copy", "other")
"""Order of the classes' numbers. ``other``: element-wise kernels, reductions, norms, what isn't recognised."""

_ATTENTION: Final = re.compile(r"sdpa|flash|fmha|attention|lean_reduction|mha_|_mla_|decode_attn", re.IGNORECASE)
_MATMUL: Final = re.compile(
    r"nvjet|gemm|gemv|cutlass|splitkreduce|cijk_|matmul|int4|int8mm|marlin|cublas|addmm|bmm|_mm_|_mm$|wgmma",
    re.IGNORECASE,
)
_TEMPLATE: Final = "triton_tem_"
"""torch.compile's matmuls and attention; its other kernels are named after operators that they only follow."""

ROWS: Final = 1.25
"""W's growth with the batch ÷ that of these parts (NVIDIA H200, 1B sample, batch 256 to 2,048: 1.19)."""

OTHER_KERNELS: Final = 0.13
"""Of W: what the library's other kernels for more than one row take longer (NVIDIA H200, 1B sample: 0.07 to 0.19)."""

SAVED: Final = (0.7, 1.25)
"""Of what fewer bytes promise, what came (NVIDIA H200): 0.78 int4 7B, 1.02 half width, 1.18 int4 1B."""

_ALL: Final = "all"
_STAYS: Final = ("matmul", "attention")
"""Ops of these classes stay where others can go: which ones go makes no difference to the step, but to its look."""


def as_graph(plan: Plan, op_step: Ints, costs: CalibrationDoc | None) -> Plan:
    """One launch per step, its ops ν apart. LaunchscopeError without a calibration."""
    steps, ops = len(np.unique(op_step)), len(op_step)
    launch_ns = None if costs is None else graph_launch_cost_ns(ops / steps, costs)
    if costs is None or launch_ns is None or costs.node_gap_ns is None or costs.replay_gap_ns is None:
        raise LaunchscopeError("--graph takes what graphs cost on the machine: profile after launchscope calibrate")
    return replace(
        plan,
        thread=np.zeros(steps, np.int64),
        before_ns=np.zeros(steps),
        call_ns=np.full(steps, launch_ns),
        blocks=np.zeros(steps, np.bool_),
        op_call=op_step,
        stream=np.zeros(ops, np.int64),
        latency_ns=np.zeros(ops),
        gap_ns=np.where(np.diff(op_step, prepend=-1) > 0, costs.replay_gap_ns, costs.node_gap_ns),
        after=np.full(ops, NONE),
        lag_ns=np.zeros(ops),
    )


def with_ops_after(plan: Plan, rows: Ints, op_ns: float) -> tuple[Plan, Ints]:
    """A further op after each of these (ascending, some twice), in the same stream, and the row each op came from.

    In a replay it is one more node; else a call of its own launches it, which costs what the plan's calls do in the
    median.
    """
    of_rows = plan.op_call[rows]
    alone = np.bincount(plan.op_call)[of_rows] == 1
    op, is_new = _with_copies(len(plan.op_call), rows)
    call, is_new_call = _with_copies(len(plan.thread), of_rows[alone])
    op_call = np.flatnonzero(~is_new_call)[plan.op_call[op]]
    nth = np.arange(len(rows)) - np.searchsorted(of_rows, of_rows, side="left")  # of those that one call's ops get
    op_call[is_new] += np.where(alone, 1 + nth, 0)
    after, launching = plan.after[op], ~plan.blocks
    return replace(
        plan,
        thread=plan.thread[call],
        before_ns=np.where(is_new_call, _median(plan.before_ns[launching]), plan.before_ns[call]),
        call_ns=np.where(is_new_call, _median(plan.call_ns[launching]), plan.call_ns[call]),
        blocks=plan.blocks[call] & ~is_new_call,
        op_call=op_call,
        stream=plan.stream[op],
        op_ns=np.where(is_new, op_ns, plan.op_ns[op]),
        latency_ns=np.where(is_new, _median(plan.latency_ns), plan.latency_ns[op]),
        gap_ns=np.where(is_new, _median(plan.gap_ns), plan.gap_ns[op]),
        after=np.where(is_new | (after == NONE), NONE, np.flatnonzero(~is_new)[after]),
        lag_ns=np.where(is_new, 0.0, plan.lag_ns[op]),
    ), op


def _with_copies(count: int, rows: Ints) -> tuple[Ints, Bools]:
    """So many rows with a copy after each of these: the row that each came from, and whether it is a copy."""
    origin = np.insert(np.arange(count), rows + 1, rows)
    return origin, np.diff(origin, prepend=-1) == 0


def _median(values: Reals) -> float:
    return float(np.median(values)) if len(values) else 0.0


def without_ops(plan: Plan, rows: Ints) -> tuple[Plan, Ints]:
    """The plan without these ops and the calls that launched them alone, and the row that each op left came from."""
    kept = np.ones(len(plan.op_call), np.bool_)
    kept[rows] = False
    calls = np.ones(len(plan.thread), np.bool_)
    calls[np.setdiff1d(plan.op_call, plan.op_call[kept])] = False
    row_of, call_of = np.cumsum(kept) - 1, np.cumsum(calls) - 1
    origin = np.flatnonzero(kept)
    after = plan.after[origin]
    is_there = (after != NONE) & kept[np.maximum(after, 0)]
    return replace(
        plan,
        **{name: getattr(plan, name)[calls] for name in ("thread", "before_ns", "call_ns", "blocks")},
        **{name: getattr(plan, name)[origin] for name in ("stream", "op_ns", "latency_ns", "gap_ns", "lag_ns")},
        op_call=call_of[plan.op_call[origin]],
        after=np.where(is_there, row_of[after], NONE),
    ), origin


def spread_evenly(op_step: Ints, may_go: Bools, count: int) -> Ints:
    """So many rows of each step, of those that may go, at even distances; all of these where there are fewer."""
    chosen = [np.zeros(0, np.int64)]
    for step in np.unique(op_step):
        rows = np.flatnonzero((op_step == step) & may_go)
        chosen.append(rows[np.unique(np.linspace(0, len(rows) - 1, min(count, len(rows))).round().astype(np.int64))])
    return np.concatenate(chosen)


class FusedPlan(NamedTuple):
    """The plan; the row that each op came from; what its ops take, as a share: usual, soonest and latest answer."""

    plan: Plan
    origin: Ints
    shares: tuple[float, float, float]


def fused(plan: Plan, op_step: Ints, classes: Ints, report: Report, kinds: Sequence[str]) -> FusedPlan:
    """Without as many launches as the fusion advisor's candidates save, and with what they leave of the GPU work.

    LaunchscopeError where the report has no candidates of these kinds, or doesn't know what they are worth.
    """
    chosen, steps = _candidates(report, kinds), len(np.unique(op_step))
    count = sum(candidate.launches_saved for candidate in chosen)
    may_go = ~np.isin(classes, [CLASSES.index(name) for name in _STAYS])
    if int(may_go.sum()) < count * steps:
        may_go = np.ones(len(op_step), np.bool_)
    smaller, origin = without_ops(plan, spread_evenly(op_step, may_go, count))
    work, left = float(plan.op_ns.sum()) / steps, float(smaller.op_ns.sum()) / steps
    saved = [_work_ns(chosen, name) for name in ("graph_saves_ns", "graph_high_ns", "graph_low_ns")]
    usual, most, least = (max(work - ns, 0.0) / left if left else 0.0 for ns in saved)
    return FusedPlan(smaller, origin, (usual, most, least))


def _candidates(report: Report, kinds: Sequence[str]) -> list[CandidateDoc]:
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


class OpTimes(NamedTuple):
    """Times of the ops of a plan: the usual answer between two that are sooner and later."""

    low_ns: Reals
    usual_ns: Reals
    high_ns: Reals


def changed_times(op_ns: Reals, op_class: Ints, steps: int, known: StepBytes | None, knobs: Knobs) -> OpTimes:
    """The ops' times with the knobs turned, over so many steps alike. Without ``known`` the classes' times alone."""
    by_class = np.array([of_class(knobs.times, name) for name in CLASSES])
    op_ns = op_ns * by_class[op_class]
    if known is None or not knobs.needs_bytes:
        return OpTimes(op_ns, op_ns, op_ns)
    one_batch = replace(knobs, batch_size=None)
    moved, grown = np.zeros(len(op_ns)), np.zeros(len(op_ns))
    for name, part_ns in (("matmul", known.matmul_ns), ("attention", known.attention_ns)):
        part = np.where(op_class == CLASSES.index(name), op_ns, 0.0)
        took, before, middle = float(part.sum()) / steps, part_ns(), part_ns(one_batch)
        if took and before:
            per_ns = part / took * min(took / before, 1.0)  # a part that is more than the whole moves as the whole
            moved += per_ns * (middle - before)
            grown += per_ns * (part_ns(knobs) - middle)
    all_ops = op_ns / max(float(op_ns.sum()), 1.0) * grown.sum()
    other = OTHER_KERNELS * op_ns if known.batch_size == 1 and grown.any() else 0.0
    usual = op_ns + moved + grown + (ROWS - 1) * all_ops + other
    least, most = (SAVED[1], SAVED[0]) if moved.sum() < 0 else (1.0, 1.0)
    low = op_ns + least * moved + grown
    high = op_ns + most * moved + ROWS * (grown + (ROWS - 1) * all_ops) + 2 * other
    return OpTimes(*(np.maximum(each, 0.0) for each in (low, usual, high)))


def op_classes(ops: GpuOps, names: Sequence[str]) -> Ints:
    """[ops] each op's place in CLASSES."""
    used, of_op = np.unique(ops.name, return_inverse=True)
    found = np.array([CLASSES.index(class_of(names[int(name)])) for name in used], np.int64)[of_op.ravel()]
    return np.where(np.isin(ops.kind, (OpKind.MEMCPY, OpKind.MEMSET)), CLASSES.index("copy"), found)


def class_of(kernel: str) -> str:
    """The class of a kernel."""
    if is_compiled(kernel) and not kernel.startswith(_TEMPLATE):
        return "other"
    if kind_of_kernel(kernel) is not None:
        return "communication"
    for name, pattern in (("attention", _ATTENTION), ("matmul", _MATMUL)):
        if pattern.search(kernel):
            return name
    return "other"
