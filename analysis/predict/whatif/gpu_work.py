"""How long the GPU ops of a step would take with another memory, other weights, more rows, or a part of the model.

What is known of a step are the bytes of weights and of caches that it reads, its FLOPs, and this GPU's rates. The
time that they take at those rates is a part of the matmuls' and of attention's time; that part moves, the rest stays:

    matmuls     max(weights ÷ bandwidth, FLOPs ÷ peak)
    attention   caches ÷ bandwidth

More rows make all kernels longer: GPU work grows by ``ROWS`` times what these parts grow by, and from one row to
several the library takes other kernels. What the real thing
gives lies around that, so every answer has a low and a high one beside it (docs/validation.md, "What-if").
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import numpy as np

from ...facts.op_classes import CLASSES
from ...model.document import CalibrationDoc, FloorDoc, TargetDoc
from ...model.trace import Ints
from ...step_model.bound import NS_PER_S
from .simulator import Times

WEIGHT_BYTES: Final[Mapping[str, float]] = {
    "fp32": 4.0,
    "float32": 4.0,
    "tf32": 4.0,
    "bf16": 2.0,
    "bfloat16": 2.0,
    "fp16": 2.0,
    "float16": 2.0,
    "fp8": 1.0,
    "int8": 1.0,
    "int4": 0.5,
}
"""Bytes of one weight by dtype. Scales and zero points, a few per cent more, are left out."""

ROWS: Final = 1.25
"""W's growth with the batch ÷ that of these parts (NVIDIA H200, 1B sample, batch 256 to 2,048: 1.19)."""

OTHER_KERNELS: Final = 0.13
"""Of W: what the library's other kernels for more than one row take longer (NVIDIA H200, 1B sample: 0.07 to 0.19)."""

SAVED: Final = (0.7, 1.25)
"""Of what fewer bytes promise, what came (NVIDIA H200): 0.78 int4 7B, 1.02 half width, 1.18 int4 1B."""


class OpTimes(NamedTuple):
    """Times of the ops of a plan: the usual answer between two that are sooner and later."""

    low_ns: Times
    usual_ns: Times
    high_ns: Times


@dataclass(frozen=True)
class StepBytes:
    """What a step reads and computes, and this GPU's rates."""

    weights: float  # bytes
    caches: float  # bytes
    flops: float
    bandwidth: float  # bytes per second
    peak: float | None  # FLOPs per second
    batch_size: int
    weight_width: float | None  # bytes per weight


@dataclass(frozen=True)
class Work:
    """What to change of the GPU's work; factors and None keep it."""

    times: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → its ops take so many times as long
    bandwidth: Mapping[str, float] = field(default_factory=dict)  # class, or 'all' → memory so many times as fast
    flops: float = 1.0  # the peak rate is so many times as high
    weight_bytes: float | None = None
    batch_size: int | None = None
    parts: int = 1  # this GPU has one of so many parts of the weights, heads and caches


def weights_of(target: TargetDoc | None, floor: FloorDoc | None) -> tuple[float | None, int | None]:
    """Bytes per weight, and the bytes of all weights that a step reads; null where the model's size is not known.

    A step reads no more than the floor counted: of an embedding it reads some rows alone.
    """
    width = WEIGHT_BYTES.get((target.dtype or "").removeprefix("torch.").lower()) if target is not None else None
    if target is None or width is None or not target.parameters or floor is None or not floor.bytes:
        return None, None
    return width, min(round(target.parameters * width), floor.bytes)


def step_bytes(
    target: TargetDoc | None, floor: FloorDoc | None, calibration: CalibrationDoc | None
) -> StepBytes | None:
    """What a capture knows of its step; None where bytes or bandwidth are not known."""
    if floor is None or not floor.bytes or calibration is None or not calibration.bandwidth_bytes_per_s:
        return None
    width, weights = weights_of(target, floor)
    weights = floor.bytes if weights is None else weights
    return StepBytes(
        weights=weights,
        caches=floor.bytes - weights,
        flops=floor.flops or 0.0,
        bandwidth=calibration.bandwidth_bytes_per_s,
        peak=calibration.flops_per_s.get(floor.dtype or ""),
        batch_size=1 if target is None or not target.batch_size else target.batch_size,
        weight_width=width,
    )


def changed_times(op_ns: Times, op_class: Ints, steps: int, known: StepBytes | None, work: Work) -> OpTimes:
    """The ops' times with the work changed, over so many steps alike. Without ``known`` the classes' times alone."""
    by_class = np.array([_factor(work.times, name) for name in CLASSES])
    op_ns = op_ns * by_class[op_class]
    if known is None or work == Work(times=work.times):
        return OpTimes(op_ns, op_ns, op_ns)
    one_batch = Work(bandwidth=work.bandwidth, flops=work.flops, weight_bytes=work.weight_bytes, parts=work.parts)
    moved, grown = np.zeros(len(op_ns)), np.zeros(len(op_ns))
    for name in ("matmul", "attention"):
        own = np.where(op_class == CLASSES.index(name), op_ns, 0.0)
        took = float(own.sum()) / steps
        before = _moving_ns(name, known, Work())
        if not took or not before:
            continue
        per_ns = own / took * min(took / before, 1.0)  # a part that is more than the whole moves as the whole
        middle = _moving_ns(name, known, one_batch)
        moved += per_ns * (middle - before)
        grown += per_ns * (_moving_ns(name, known, work) - middle)
    all_ops = op_ns / max(float(op_ns.sum()), 1.0) * grown.sum()
    other = OTHER_KERNELS * op_ns if known.batch_size == 1 and grown.any() else 0.0
    usual = op_ns + moved + grown + (ROWS - 1) * all_ops + other
    least, most = (SAVED[1], SAVED[0]) if moved.sum() < 0 else (1.0, 1.0)
    low = op_ns + least * moved + grown
    high = op_ns + most * moved + ROWS * (grown + (ROWS - 1) * all_ops) + 2 * other
    return OpTimes(*(np.maximum(each, 0.0) for each in (low, usual, high)))


def _moving_ns(name: str, known: StepBytes, work: Work) -> float:
    """The part of a class's time that its bytes and FLOPs take, per step."""
    rows = 1.0 if work.batch_size is None else work.batch_size / known.batch_size
    bandwidth = known.bandwidth * _factor(work.bandwidth, name)
    if name == "attention":
        return known.caches * rows / work.parts / bandwidth * NS_PER_S
    weights = known.weights if work.weight_bytes is None else work.weight_bytes
    reads = weights / work.parts / bandwidth * NS_PER_S
    computes = known.flops * rows / work.parts / (known.peak * work.flops) * NS_PER_S if known.peak else 0.0
    return max(reads, computes)


def _factor(by_class: Mapping[str, float], name: str) -> float:
    """Of a class: what is said of all ops, and of it."""
    return by_class.get("all", 1.0) * by_class.get(name, 1.0)
