"""What a step reads and computes, and the least time that it takes: with the knobs turned, too.

matmuls     max(weights ÷ bandwidth, FLOPs ÷ peak)
attention   caches ÷ bandwidth
floor       max((weights + caches) ÷ bandwidth, FLOPs ÷ peak)
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from ..model.document import CalibrationDoc, FloorDoc, TargetDoc
from .knobs import WEIGHT_BYTES, Knobs

NS_PER_S: Final = 1e9
MEASURED: Final = Knobs()
"""No knob turned."""


def least_ns(count: float, per_second: float) -> float:
    """The least time that so many bytes or FLOPs take at a rate."""
    return count / per_second * NS_PER_S


@dataclass(frozen=True)
class StepBytes:
    """What a step reads and computes, and this GPU's rates."""

    weights: float  # bytes
    caches: float  # bytes
    flops: float
    bandwidth: float  # bytes per second
    peak: float | None  # FLOPs per second
    batch_size: int
    weight_width: float | None  # bytes per weight; null where the weights' part of the bytes is not known

    def weights_with(self, knobs: Knobs) -> float:
        """Bytes of all weights. A type of weights is known by their width as measured."""
        if not isinstance(knobs.weights, str):
            return self.weights if knobs.weights is None else knobs.weights
        assert self.weight_width, "the caller asked whether the width is known"
        return self.weights * WEIGHT_BYTES[knobs.weights] / self.weight_width

    def matmul_ns(self, knobs: Knobs = MEASURED) -> float:
        """The part of the matmuls' time that reading weights and computing takes."""
        return max(self._weights_ns(knobs), self._flops_ns(knobs))

    def attention_ns(self, knobs: Knobs = MEASURED) -> float:
        """The part of attention's time that reading caches takes."""
        caches = self.caches * self._rows(knobs) / (knobs.tensor_parallel or 1)
        return least_ns(caches, self.bandwidth * knobs.bandwidth_factor("attention"))

    def floor_ns(self, knobs: Knobs = MEASURED) -> float:
        """The least time of the whole step."""
        return max(self._weights_ns(knobs) + self.attention_ns(knobs), self._flops_ns(knobs))

    def _weights_ns(self, knobs: Knobs) -> float:
        weights = self.weights_with(knobs) / (knobs.tensor_parallel or 1)
        return least_ns(weights, self.bandwidth * knobs.bandwidth_factor("matmul"))

    def _flops_ns(self, knobs: Knobs) -> float:
        if not self.peak:
            return 0.0
        flops = self.flops * self._rows(knobs) / (knobs.tensor_parallel or 1)
        return least_ns(flops, self.peak * (knobs.flops or 1.0))

    def _rows(self, knobs: Knobs) -> float:
        return 1.0 if knobs.batch_size is None else knobs.batch_size / self.batch_size


def step_bytes(
    target: TargetDoc | None, floor: FloorDoc | None, calibration: CalibrationDoc | None
) -> StepBytes | None:
    """What a capture knows of its step; None where bytes or bandwidth are not known.

    The weights are no more than the floor counted: of an embedding a step reads some rows alone. Where the model's
    size or type is not known, all bytes are weights.
    """
    if floor is None or not floor.bytes or calibration is None or not calibration.bandwidth_bytes_per_s:
        return None
    width = WEIGHT_BYTES.get((target.dtype or "").removeprefix("torch.").lower()) if target is not None else None
    weights = floor.bytes
    if target is None or width is None or not target.parameters:
        width = None
    else:
        weights = min(round(target.parameters * width), floor.bytes)
    return StepBytes(
        weights=weights,
        caches=floor.bytes - weights,
        flops=floor.flops or 0.0,
        bandwidth=calibration.bandwidth_bytes_per_s,
        peak=calibration.flops_per_s.get(floor.dtype or ""),
        batch_size=1 if target is None or not target.batch_size else target.batch_size,
        weight_width=width,
    )
