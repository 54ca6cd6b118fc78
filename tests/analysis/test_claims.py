"""What textbooks say of graphs, weights, experts and prefills, on captures of an H200; docs/validation.md has it."""

from __future__ import annotations

from functools import cache

import pytest
from launchscope.analysis.model.document import ModeDoc, ProfileDoc
from launchscope.analysis.model.errors import LaunchscopeError
from launchscope.analysis.predict.whatif import what_if
from launchscope.analysis.step_model import Knobs

from .captures import shipped


@cache
def profile(name: str) -> ProfileDoc:
    found = shipped(f"samples/{name}.zip").document.profile
    assert found is not None
    return found


def mode(name: str, of: str = "graph") -> ModeDoc:
    return profile(name).modes[of]


def step_ms(name: str, of: str = "graph") -> float:
    time = mode(name, of).step_ns
    assert time is not None
    return time.median / 1e6


def speedup(name: str) -> float:
    found = mode(name).speedup
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("name", "plain_ms", "ms", "plain_gain", "gain"),
    [("int4", 2.21, 1.82, 5.5, 5.9), ("int4_7b", 6.70, 4.96, 4.1, 5.7)],
)
def test_fewer_bits_make_graphs_worth_more(
    name: str, plain_ms: float, ms: float, plain_gain: float, gain: float
) -> None:
    """Measured in turn. Eager times of both overlap: what launches kernel by kernel gains nothing from fewer bytes."""
    plain = f"{name}-against"
    assert step_ms(plain) == pytest.approx(plain_ms, abs=0.006)
    assert step_ms(name) == pytest.approx(ms, abs=0.006)
    assert speedup(plain) == pytest.approx(plain_gain, abs=0.05)
    assert speedup(name) == pytest.approx(gain, abs=0.05)
    eager, eager_plain = mode(name, "eager").step_ns, mode(plain, "eager").step_ns
    assert eager is not None
    assert eager_plain is not None
    assert eager.ci_low is not None
    assert eager_plain.ci_high is not None
    assert eager.ci_low < eager_plain.ci_high


def test_merged_projections_are_fewer_launches_and_less_work() -> None:
    """48 launches less in 16 layers: two of QKV and one of gate and up each; 0.21 ms less as a graph."""
    assert mode("handfused").kernels == 717 - 48 == 669
    assert step_ms("handfused-against") - step_ms("handfused") == pytest.approx(0.211, abs=0.002)
    plain, merged = mode("handfused-against").gpu_work_ns, mode("handfused").gpu_work_ns
    assert plain is not None
    assert merged is not None
    assert plain - merged == pytest.approx(197_000, abs=3_000)


def test_experts_launch_more_and_in_a_loop_they_wait() -> None:
    """909 kernels where the dense model has 717; 1,693 in a loop that asks the GPU 128 times which rows are whose."""
    gathered, looped = mode("moe", "eager"), mode("moe_loop", "eager")
    assert (gathered.kernels, looped.kernels) == (909, 1693)
    assert step_ms("moe") == pytest.approx(2.83, abs=0.01)
    assert step_ms("moe_loop", "eager") > 2 * step_ms("moe", "eager")
    assert "can't be captured" in (mode("moe_loop").error or "")
    assert "moe.py:62 in looped" in (mode("moe_loop").error or "")
    traces = shipped("samples/moe_loop.zip").document.traces
    steps = traces[0].steps
    assert steps is not None
    assert steps.blocking_calls.median == 16 * 8


def test_a_long_prompt_hides_its_launches() -> None:
    """From 16 to 1,024 tokens eager takes as long as its host; at 2,048 the GPU works 92 % of the step."""
    for length, share in (("16", 0.18), ("1024", 0.36), ("2048", 0.92)):
        work = mode(f"prompt-{length}", "eager").gpu_work_ns
        assert work is not None
        assert work / 1e6 / step_ms(f"prompt-{length}", "eager") == pytest.approx(share, abs=0.01)
    assert step_ms("prompt-16") == pytest.approx(2.58, abs=0.01)
    assert step_ms("prompt-2048") == pytest.approx(12.2, abs=0.1)


@pytest.mark.parametrize(
    ("start", "knobs", "real", "off"),
    [
        ("full_width", Knobs(weights=0.749e9), "half_width", 0.015),
        ("int4-against", Knobs(weights=1.059e9 - 13e6), "int4", 0.043),
        ("int4_7b-against", Knobs(weights=4.58e9), "int4_7b", -0.094),
        ("qwen3_0_6b-1", Knobs(batch_size=16), "qwen3_0_6b-16", 0.097),
        ("qwen3_0_6b-1", Knobs(batch_size=64), "qwen3_0_6b-64", 0.075),
        ("qwen3_0_6b-1", Knobs(batch_size=256), "qwen3_0_6b-256", 0.114),
        ("qwen3_0_6b-16", Knobs(batch_size=64), "qwen3_0_6b-64", -0.001),
        ("qwen3_0_6b-16", Knobs(batch_size=256), "qwen3_0_6b-256", 0.065),
    ],
)
def test_what_if_beside_what_came(start: str, knobs: Knobs, real: str, off: float) -> None:
    """As a graph; the ranges hold what came. The table of docs/validation.md."""
    told = what_if(shipped(f"samples/{start}.zip"), knobs, "graph")
    came = step_ms(real) * 1e6
    assert told.predicted_ns / came - 1 == pytest.approx(off, abs=0.006)
    assert told.low_ns < came < told.high_ns


def test_fusions_beside_what_hand_and_compiler_did() -> None:
    """From the plain model's capture: merged by hand 2.00 ms as a graph; compiled 3.34 ms eager, 1.36 ms as a graph."""
    report = shipped("llama_1b.zip")
    merged = what_if(report, Knobs(fuse=("qkv", "gate_up"), graph=True))
    assert merged.predicted_ns == pytest.approx(step_ms("handfused") * 1e6, rel=0.01)
    assert what_if(report, Knobs(fuse=("all",))).predicted_ns == pytest.approx(3.34e6, rel=0.03)
    compiled = what_if(report, Knobs(fuse=("all",), graph=True))
    assert compiled.predicted_ns == pytest.approx(1.36e6, rel=0.16)
    assert compiled.low_ns < 1.36e6 < compiled.high_ns
    with pytest.raises(LaunchscopeError, match="--fuse moe: the advisor found attention_mask, gate_up, qkv"):
        what_if(report, Knobs(fuse=("moe",)))
    with pytest.raises(LaunchscopeError, match="takes an eager recording with the shapes"):
        what_if(shipped("samples/int4.zip"), Knobs(fuse=("qkv",)))
