"""A capture on disk: one folder (or one .zip of it) per profile run.

    manifest.json                     a Manifest: schema ``launchscope.capture/1``
    traces/<mode>-<repeat>-<pass>.json.gz    as the collector wrote them

The manifest keeps the raw unprofiled samples of every process. Nothing in a capture is ever imported or run.
"""

from __future__ import annotations

from typing import Final

import msgspec

SCHEMA: Final = "launchscope.capture/1"
MODES: Final = ("eager", "graph", "fused", "fused_graph")
PASSES: Final = ("timing", "cuda", "cpu_cuda", "stacks")


class Calibration(msgspec.Struct, frozen=True, kw_only=True):
    """What `launchscope calibrate` measured on this machine; the definitions are in docs/metrics.md."""

    tau_floor_ns: float | None = None
    graph_launch_ns: float | None = None  # intercept of the host cost of one graph launch
    graph_launch_per_node_ns: float | None = None  # its slope
    replay_gap_ns: float | None = None  # GPU time from the end of one replay to the start of the next
    node_gap_ns: float | None = None  # ν
    bandwidth_bytes_per_s: float | None = None
    flops_per_s: dict[str, float] = {}  # by dtype: 'bf16', 'fp16', 'fp32'


class Target(msgspec.Struct, frozen=True, kw_only=True):
    """What was profiled."""

    name: str
    revision: str | None = None  # git commit of the folder the target lies in
    batch_size: int | None = None
    dtype: str | None = None
    context_length: int | None = None
    parameters: int | None = None  # distinct parameters of the model
    settings: dict[str, str] = {}  # --set, secrets masked
    labels: tuple[str, ...] = ()  # 'already compiled', 'one process: no spread', … told beside the figures


class Floor(msgspec.Struct, frozen=True, kw_only=True):
    """What one step reads and computes at the least, counted while it ran once under a dispatch mode."""

    bytes: int | None = None
    flops: int | None = None
    dtype: str | None = None  # of most FLOPs, the key into Calibration.flops_per_s


class GpuState(msgspec.Struct, frozen=True, kw_only=True):
    """One NVML reading."""

    sm_clock_mhz: int | None = None
    memory_clock_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    throttle_reasons: tuple[str, ...] = ()  # only those that slow the GPU down; idle is not one
    other_processes: int | None = None


class OutputCheck(msgspec.Struct, frozen=True, kw_only=True):
    """A mode's outputs against eager's in the same process, from the same state and inputs."""

    matches: bool
    max_abs_error: float | None = None  # over floating-point outputs
    tolerance: float  # allowed error ÷ largest magnitude of the reference
    inputs_compared: int  # different input sets
    inputs_change_output: bool  # eager's own outputs differ between the input sets
    note: str | None = None


class ProcessRecord(msgspec.Struct, frozen=True, kw_only=True):
    """What one fresh process measured: one (mode, repeat)."""

    repeat: int
    started: str  # ISO 8601, UTC
    samples_ns: tuple[float, ...] = ()  # unprofiled step time, one per batch of back-to-back steps
    steps_per_sample: int = 1
    warmup_ns: tuple[float, ...] = ()  # host time of each warm-up step, the first ones with compilation
    host_submit_ns: tuple[float, ...] = ()  # unprofiled, queue drained first; one per step
    trace_pass: str | None = None  # 'cuda', 'cpu_cuda', 'stacks'
    trace: str | None = None  # path inside the capture
    marks_ns: tuple[tuple[int, int], ...] = ()  # host-clock range of each recorded step; the first is a sacrifice
    session_ns: tuple[float, ...] = ()  # step times inside the profiler session, by the host clock
    capture_ns: float | None = None
    compile_ns: float | None = None
    graph_memory_bytes: int | None = None
    output: OutputCheck | None = None
    before: GpuState | None = None
    after: GpuState | None = None
    error: str | None = None


class ModeRecord(msgspec.Struct, frozen=True, kw_only=True):
    """One row of the report. ``error`` is set when no process of the mode finished its timing."""

    processes: tuple[ProcessRecord, ...] = ()
    error: str | None = None


class Manifest(msgspec.Struct, frozen=True, kw_only=True):
    """Everything a capture knows beside its raw traces. ``modes`` keeps the order they were asked for.

    The mode of a target that is already compiled or under graphs, measured as written, is ``as_written``; the
    report shows it as null.
    """

    schema: str = SCHEMA
    launchscope: str
    created: str  # ISO 8601, UTC
    command: tuple[str, ...] = ()
    target: Target
    environment: dict[str, str | int | float | bool | None] = {}
    calibration: Calibration | None = None
    floor: Floor | None = None
    modes: dict[str, ModeRecord] = {}
    seconds: dict[str, float] = {}  # where the run's time went: 'import torch', 'compile', 'timing', …
