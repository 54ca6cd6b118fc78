"""``launchscope calibrate``: what a launch, a graph node and a byte cost on this machine."""

from __future__ import annotations

from typing import TYPE_CHECKING

import click

from .progress import ProgressLine
from .writing import print_report, say

if TYPE_CHECKING:
    from ..analysis.model.capture import Calibration


@click.command("calibrate", short_help="Measure this machine: launch costs, bandwidth, matrix rate.")
@click.option("--refresh", is_flag=True, help="Measure again even if this machine was measured before.")
@click.option("--format", "output", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True)
def command(refresh: bool, output: str) -> None:
    """Measure what the reports compare with: the cheapest launch, graph launch and node costs, memory bandwidth and
    matrix rate. Kept per machine (GPU, driver, CUDA, torch, host) and reused by `launchscope profile`.
    """
    from ..tracer.measure.device import CUDA
    from ..tracer.processes.calibrate import calibrate

    with ProgressLine() as progress:
        calibration, measured_before, kept = calibrate(refresh, progress, CUDA)
    print_report(_as_json(calibration) if output == "json" else _as_text(calibration))
    say(f"measured before, read from {kept}; --refresh measures anew" if measured_before else f"kept in {kept}")


def _as_json(calibration: Calibration) -> str:
    import msgspec

    return msgspec.json.format(msgspec.json.encode(calibration), indent=2).decode()


def _as_text(calibration: Calibration) -> str:
    rows = [
        ("cheapest launch (τ_floor)", _microseconds(calibration.tau_floor_ns)),
        ("graph launch, host", _microseconds(calibration.graph_launch_ns)),
        ("  and per node", _microseconds(calibration.graph_launch_per_node_ns)),
        ("replay to replay", _microseconds(calibration.replay_gap_ns)),
        ("node to node (ν)", _microseconds(calibration.node_gap_ns)),
        ("  with few streams used", _microseconds(calibration.node_gap_few_streams_ns)),
        ("memory bandwidth", _scaled(calibration.bandwidth_bytes_per_s, "TB/s")),
        *((f"matrix rate, {dtype}", _scaled(rate, "TFLOP/s")) for dtype, rate in calibration.flops_per_s.items()),
    ]
    return "\n".join(f"{name:<28}{value:>14}" for name, value in rows)


def _microseconds(ns: float | None) -> str:
    return "–" if ns is None else f"{ns / 1e3:.2f} µs"


def _scaled(per_second: float | None, unit: str) -> str:
    return "–" if per_second is None else f"{per_second / 1e12:.2f} {unit}"
