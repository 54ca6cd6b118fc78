"""Other weights, memory, rows and parts of a model: what moves, by hand and against measured models."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

import launchscope
import numpy as np
import pytest
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.predict.plan_changes import CLASSES, OTHER_KERNELS, ROWS, SAVED, changed_times, class_of
from launchscope.analysis.predict.whatif import what_if
from launchscope.analysis.report import Report, load
from launchscope.analysis.step_model import Knobs, StepBytes

from ..captures import shipped

MATMUL, ATTENTION, OTHER = (CLASSES.index(name) for name in ("matmul", "attention", "other"))

OP_NS = np.array([60.0, 30.0, 10.0])
OP_CLASS = np.array([MATMUL, ATTENTION, OTHER])
KNOWN = StepBytes(weights=40e-9, caches=20e-9, flops=8e-9, bandwidth=1.0, peak=1.0, batch_size=2, weight_width=2.0)
"""At one byte and one FLOP a second: 40 ns of weights in 60 of matmuls, 20 of caches in 30 of attention, 8 of FLOPs."""


def usual(knobs: Knobs, known: StepBytes | None = KNOWN) -> list[float]:
    return list(changed_times(OP_NS, OP_CLASS, 1, known, knobs).usual_ns)


@pytest.mark.parametrize(
    ("kernel", "expected"),
    [
        ("nvjet_sm90_tst_64x8_64x16_2x1_v_bz_TNT", "matmul"),
        ("void cublasLt::splitKreduce_kernel<32, 16, int, float>", "matmul"),
        ("ampere_bf16_s16816gemm_bf16_128x64_ldg8_f2f_stages_64x4_tn", "matmul"),
        ("void at::native::tinygemm_m16n8k16_chunk_kernel<>", "matmul"),
        ("Cijk_Alik_Bljk_BBS_BH_Bias_HA_S_SAV_UserArgs_MT32x64x128", "matmul"),
        ("triton_tem_fused_addmm_15", "matmul"),
        ("cudnn_generated_fort_native_sdpa_sm80_flash_fprop_wmma_f16_knob_35", "attention"),
        ("void pytorch_flash::flash_fwd_kernel<>", "attention"),
        ("triton_per_fused__native_multi_head_attention_add_native_layer_norm_10", "other"),
        ("triton_red_fused__to_copy_add_mean_mm_3", "other"),
        ("ncclDevKernel_AllReduce_Sum_bf16_RING_LL", "communication"),
        ("void at::native::vectorized_elementwise_kernel<4, at::native::silu_kernel>", "other"),
    ],
)
def test_what_a_kernel_does_is_told_by_its_name(kernel: str, expected: str) -> None:
    assert class_of(kernel) == expected


def test_half_the_bytes_take_half_of_the_time_that_they_took() -> None:
    """20 of 40 ns go from the matmul; what came of such promises was 0.7 to 1.15 of them."""
    times = changed_times(OP_NS, OP_CLASS, 1, KNOWN, Knobs(weights=20e-9))
    assert times.usual_ns.tolist() == [40, 30, 10]
    assert times.low_ns.tolist() == [60 - 20 * SAVED[1], 30, 10]
    assert times.high_ns.tolist() == [60 - 20 * SAVED[0], 30, 10]


def test_the_flops_are_what_is_left_when_the_bytes_are_gone() -> None:
    assert usual(Knobs(weights=1e-9)) == [60 - 40 + 8, 30, 10]
    assert usual(Knobs(weights=1e-9, flops=2.0)) == [60 - 40 + 4, 30, 10]


def test_memory_and_times_by_class() -> None:
    assert usual(Knobs(bandwidth={"all": 2.0})) == [40, 20, 10]
    assert usual(Knobs(bandwidth={"attention": 4.0})) == [60, 15, 10]
    assert usual(Knobs(times={"all": 2.0, "other": 0.5})) == [120, 60, 10]
    assert usual(Knobs(times={"other": 3.0}), known=None) == [60, 30, 30]


def test_one_of_two_parts_reads_half() -> None:
    assert usual(Knobs(tensor_parallel=2)) == [40, 20, 10]


def test_twice_the_rows_read_twice_the_caches() -> None:
    """+20 ns in attention, and 0.25 × 20 more spread over all by their time; from one row on other kernels, too."""
    all_ops = (ROWS - 1) * 20
    assert usual(Knobs(batch_size=4)) == pytest.approx([60 + all_ops * 0.6, 50 + all_ops * 0.3, 10 + all_ops * 0.1])
    of_one = StepBytes(40e-9, 20e-9, 8e-9, 1.0, 1.0, 1, 2.0)
    assert sum(usual(Knobs(batch_size=2), of_one)) == pytest.approx(100 + 20 + all_ops + 100 * OTHER_KERNELS)


def test_a_class_is_never_quicker_than_nothing() -> None:
    """Weights said to take longer than the matmuls did: all of their time moves, and no more."""
    slow = StepBytes(weights=400e-9, caches=0.0, flops=0.0, bandwidth=1.0, peak=1.0, batch_size=1, weight_width=2.0)
    times = changed_times(OP_NS, OP_CLASS, 1, slow, Knobs(weights=200e-9))
    assert times.usual_ns.tolist() == [30, 30, 10]
    assert changed_times(OP_NS, OP_CLASS, 1, slow, Knobs(weights=1e-9)).low_ns.min() == 0


@cache
def llama() -> Report:
    return shipped("llama_1b.zip")


def measured() -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = json.loads((Path(__file__).parent / "other_models.json").read_text())["rows"]
    return rows


@pytest.mark.parametrize("row", measured(), ids=lambda row: row["what"])
def test_other_models_as_measured_on_an_h200(row: dict[str, Any]) -> None:
    """Models that were measured in turn with the plain 1B sample, or on the same kind of machine, from its capture."""
    knobs = Knobs(weights=row.get("weights"), batch_size=row.get("batch_size"))
    told = what_if(llama(), knobs, "graph")
    assert told.predicted_ns == pytest.approx(row["graph_ns"], rel=row["within"])
    assert told.low_ns < row["graph_ns"] < told.high_ns
    assert told.low_ns < told.predicted_ns < told.high_ns


def test_what_is_not_known_is_told() -> None:
    sweep = Path(__file__).parents[3] / "fixtures" / "traces" / "leimao_trace_with_manual_capture.json.gz"
    with pytest.raises(LaunchscopeError, match="only a capture of launchscope profile"):
        what_if(load(sweep), Knobs(batch_size=4))
    with pytest.raises(LaunchscopeError, match="no GPU ops are of class 'gemm'; there are matmul"):
        launchscope.whatif(llama(), gpu={"gemm": 0.5})
    with pytest.raises(LaunchscopeError, match="has no unit"):
        launchscope.whatif(llama(), tau="5")


def test_the_function_takes_what_the_command_takes() -> None:
    told = launchscope.whatif(llama(), delay="2us", gpu=0.5, bandwidth={"matmul": 2}, weights="int4", graph=True)
    assert told.knobs == [
        "2.00 µs more per launch", "time of all GPU ops × 0.5", "bandwidth of matmul × 2", "weights of int4",
        "one CUDA graph",
    ]  # fmt: skip
    parts = launchscope.whatif(llama(), tensor_parallel=2, all_reduce="10us", mode="graph")
    whole = launchscope.whatif(llama(), mode="graph")
    assert parts.knobs == ["one of 2 parts, all-reduces of 10.0 µs"]
    # 32 all-reduces of 10 µs more, and half of the 579 µs that weights and caches take to read less
    assert parts.predicted_ns - whole.predicted_ns == pytest.approx(320_000 - 289_000, abs=25_000)
