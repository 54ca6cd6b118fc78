"""Captures for tests: shipped ones, and synthetic ones, a manifest and the traces it names, from the builder."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from launchscope.analysis.model.capture import (
    Calibration,
    CaptureWriter,
    Floor,
    Manifest,
    ModeRecord,
    OutputCheck,
    ProcessRecord,
    Target,
)
from launchscope.analysis.report import Report, load
from launchscope.fixtures.builder import TraceBuilder, trace

CAPTURES = Path(__file__).parents[2] / "fixtures" / "captures"
US = 1_000.0
STARTED = "2026-01-01T00:00:00Z"
EQUAL = OutputCheck(matches=True, max_abs_error=0.0, tolerance=0.01, inputs_compared=3, inputs_change_output=True)

MACHINE = Calibration(
    tau_floor_ns=4_000,
    graph_launch_ns=1_000,
    graph_launch_per_node_ns=50,
    replay_gap_ns=500,
    node_gap_ns=100,
    bandwidth_bytes_per_s=1e12,
)
"""A graph of 20 nodes launches in 2 µs and, with 40 µs of work, replays in 40 + 19 × 0.1 + 0.5 = 42.4 µs."""


@lru_cache(maxsize=16)
def shipped(name: str) -> Report:
    """The report of a capture below fixtures/captures, opened once for all tests; none may change it."""
    return load(CAPTURES / name)


def eager_trace() -> TraceBuilder:
    """Six steps of 400 µs: 20 launches of 6 µs, each with a kernel of 2 µs that starts 2 µs after it."""
    builder = trace()
    for step in range(6):
        builder.step(step, 400 * step, 395)
        for index in range(20):
            at = 400 * step + 20 * index
            builder.op("aten::mm", at - 1, 9).launch(at, 6).kernel(at + 8, 2, name=f"gemm_{index % 2}")
    return builder


def graph_trace() -> TraceBuilder:
    """Six replays, 70 µs apart: 20 nodes of 2 µs, 0.1 µs between them; launched in 30 µs, which the profiler caused.

    A step is idle for 1.9 µs inside and 28.1 between: the last replay ends 41.9 µs after its start, the next launch
    begins 3.1 µs later and ends 5 µs after the next replay's start … so host 3.1, launch 25.
    """
    builder = trace()
    for step in range(6):
        start = 100 + 70 * step
        builder.step(step, start - 26, 60).graph_launch(start - 25, 30)
        for index in range(20):
            builder.kernel(round(start + 2.1 * index, 1), 2, name=f"gemm_{index % 2}")
    return builder


def process(repeat: int, step_us: float, mode: str, trace_pass: str = "cuda", **more: object) -> ProcessRecord:
    """One process with three equal samples and its trace in the capture."""
    return ProcessRecord(
        repeat=repeat,
        started=STARTED,
        samples_ns=(step_us * US,) * 3,
        trace_pass=trace_pass,
        trace=f"traces/{mode}-{repeat}-{trace_pass}.json.gz",
        **more,  # type: ignore[arg-type]
    )


def two_modes(**more: object) -> Manifest:
    """Eager 300 µs (240 to 360) against graph 50 µs; submitting takes 280 µs and 10 µs."""
    eager = [(0, 240, "cuda"), (1, 300, "cpu_cuda"), (2, 360, "cuda")]
    graph = [(0, 50, "cuda"), (1, 50, "cpu_cuda"), (2, 50, "cuda")]
    values: dict[str, object] = {
        "launchscope": "0.1.0",
        "created": STARTED,
        "target": Target(name="tiny.py", batch_size=1, dtype="bf16"),
        "environment": {"gpu": "Test GPU"},
        "calibration": MACHINE,
        "floor": Floor(bytes=20_000_000),  # 20 µs
        "modes": {
            "eager": ModeRecord(
                processes=tuple(process(r, us, "eager", p, host_submit_ns=(280 * US,)) for r, us, p in eager)
            ),
            "graph": ModeRecord(
                processes=tuple(
                    process(
                        r,
                        us,
                        "graph",
                        p,
                        host_submit_ns=(10 * US,),
                        capture_ns=5_000_000.0,
                        graph_memory_bytes=2**20,
                        output=EQUAL,
                    )
                    for r, us, p in graph
                )
            ),
        },
        "seconds": {"timing": 2.5},
    }
    return Manifest(**(values | more))  # type: ignore[arg-type]


TRACES = {"eager": eager_trace, "fused": eager_trace, "graph": graph_trace, "fused_graph": graph_trace}


def write_capture(destination: Path, manifest: Manifest) -> Path:
    """The capture on disk: every trace that the manifest names."""
    writer = CaptureWriter(destination)
    for mode, record in manifest.modes.items():
        for each in record.processes:
            if each.trace is not None:
                TRACES.get(mode, eager_trace)().write(writer.folder / each.trace)
    return writer.finish(manifest)
