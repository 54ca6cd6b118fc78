"""How many GPU ops an operator enqueues and how long they take: a model of one constant per kind of kernel.

    time = start + max(bytes ÷ bandwidth, FLOPs ÷ peak)

``start`` is what a kernel of this kind took beyond its traffic in the eager step of the sample llama_1b on an H200
(driver 580.159.04, CUDA 13.0, torch 2.11, 2026-11-29), the mean over all of its kernels; those that move much have
another one. Other samples check it.
"""

from __future__ import annotations

from typing import Final

from ..model.counted_step import ATTENTION, COPY, ELEMENTWISE, MATRIX, OTHER, REDUCTION, CountedOp
from ..step_model.bound import least_ns
from .gpus import Gpu

START_NS: Final = {
    MATRIX: 3650.0,
    ATTENTION: 6900.0,
    REDUCTION: 2080.0,
    ELEMENTWISE: 1390.0,
    COPY: 1600.0,
    OTHER: 1390.0,  # nothing is known of it
}
LARGE: Final = 64 * 1024
LARGE_START_NS: Final = START_NS | {REDUCTION: 5500.0, ELEMENTWISE: 1830.0}
"""Of operators that move so many bytes and more: means of the same sample at batch 16, where norms take other kernels
than at batch 1, and stay as they are up to batch 256."""
SECOND_NS: Final = 1650.0
"""Of the second kernel of a matrix product that is split."""

BANDWIDTH_SHARE: Final = {"aten::_weight_int4pack_mm": 0.5}
"""Of the bandwidth, what kernels reach that don't come near it: torch's 4-bit product took 2.1 × its traffic beyond its
start in the shapes of a 7B, 1.0 × in those of a 1B (the same H200, 2026-11-30)."""

ATTENTION_SHARE: Final = 1 / 3
"""Of the matrix rate, what attention with a mask reached in prefills of 1,024 and 2,048 tokens (there, too)."""

_TILE: Final = 64
_FEW_TILES: Final = 0.45
SHORTEST_SPLIT: Final = 3072


def is_split(op: CountedOp, gpu: Gpu) -> bool:
    """Whether cuBLAS splits the product along its inner size and adds the parts up in a second kernel.

    It did so on an H200 where the result had few tiles of 64 × 64 (56 for 132 multiprocessors, not 64) and the inner
    size was 3,072 or more (not 2,048): in 20 steps of samples, batches and prompts of 1 to 2,048.
    """
    if op.product is None:
        return False
    rows, columns, inner = op.product
    tiles = -(-rows // _TILE) * -(-columns // _TILE)
    return inner >= SHORTEST_SPLIT and tiles <= gpu.multiprocessors * _FEW_TILES


def gpu_ops(op: CountedOp, gpu: Gpu) -> int:
    """Kernels and copies that the operator enqueues."""
    return op.launches + is_split(op, gpu)


def start_ns(kind: str, moved_bytes: int) -> float:
    """What a kernel of this kind takes beyond its traffic."""
    return (LARGE_START_NS if moved_bytes >= LARGE else START_NS)[kind]


def work_ns(op: CountedOp, gpu: Gpu) -> float:
    """GPU time of the operator."""
    start = op.launches * start_ns(op.kind, op.bytes) + is_split(op, gpu) * SECOND_NS
    return start * gpu.kernel_start.value + traffic_ns(op, gpu)


def traffic_ns(op: CountedOp, gpu: Gpu) -> float:
    """The least time that its bytes and FLOPs take; a dtype without a peak computes at bf16's."""
    peak = gpu.flops_per_s.get(op.dtype or "", gpu.flops_per_s["bf16"])
    reads = least_ns(op.bytes, gpu.bandwidth_bytes_per_s.value * BANDWIDTH_SHARE.get(op.operator, 1.0))
    return max(reads, least_ns(op.flops, peak.value * (ATTENTION_SHARE if op.kind == ATTENTION else 1.0)))
