"""``launchscope profile`` and ``calibrate``: measure a decode step on this machine's GPU, and the machine itself."""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from ..analysis.model.errors import LaunchscopeError
from ..tracer.target.options import (
    BACKENDS,
    CHECK_REPEATS,
    MODES,
    REPEATS,
    STEPS,
    TIMEOUT_S,
    ProfileOptions,
    RanksOptions,
    no_progress,
    place_from_environment,
)
from . import choices
from .outputs import COMPARED, Destination
from .progress import progress_line
from .writing import print_report, say

if TYPE_CHECKING:
    from ..analysis.model.capture import Calibration


@click.command("profile", short_help="Measure a model's decode step on this machine's GPU.")
@click.argument("target")
@choices.batch_size
@choices.build
@click.option("--steps", type=int, metavar="N", default=STEPS, show_default=True, help="Steps per profiler session.")
@click.option(
    "--repeats",
    type=int,
    metavar="N",
    help=f"Fresh processes per mode.  [default: {REPEATS}; with --for-check or --against {CHECK_REPEATS}]",
)
@choices.modes(",".join(MODES))
@click.option(
    "-o",
    "--output",
    "out",
    metavar="FOLDER",
    type=choices.PATH,
    help="Keep the capture in FOLDER, which must not exist.  [default: launchscope-out/…]",
)
@click.option(
    "--for-check",
    is_flag=True,
    help="Time enough processes for `launchscope check`, and record the first two of each mode alone.",
)
@click.option(
    "--against",
    metavar="OTHER",
    help="Measure OTHER in turn with TARGET, as --for-check does: another file, or git:REV, whose code is run.",
)
@click.option(
    "--nproc-per-node",
    type=int,
    metavar="N",
    help="Run TARGET on N GPUs of this host at once, a rank each, as torchrun would; all ranks go into one capture.",
)
@click.option("--nnodes", type=int, metavar="N", default=1, show_default=True, help="Hosts with as many ranks each.")
@click.option("--node-rank", type=int, metavar="N", help="Which of them this is, for --rdzv-backend static.")
@click.option("--rdzv-endpoint", metavar="HOST:PORT", help="Where hosts meet: the same on each.")
@click.option(
    "--rdzv-backend", type=click.Choice(BACKENDS), default=BACKENDS[0], show_default=True, help="How hosts meet."
)
@click.option("--rdzv-id", metavar="ID", help="What tells this run from others that meet there.")
@click.option("--local-addr", metavar="ADDRESS", help="This host's, as the others reach it.")
@choices.timeout(TIMEOUT_S, "Longest that one process may take, compilation included; its mode then fails.")
@choices.destination(default="terminal", to_file=False, verbose=True)
def profile(
    target: str, to: Destination, repeats: int | None, for_check: bool, against: str | None, **more: Any
) -> None:
    """Run the decode step of TARGET (model.py, model.py:name or package.module:name) in each mode, in fresh
    processes, and report where its time goes.
    """
    of_ranks = fields(RanksOptions)
    ranks = {field.name: more.pop(field.name) for field in of_ranks}
    for_check = for_check or against is not None
    if repeats is None:
        repeats = CHECK_REPEATS if for_check else REPEATS
    options = ProfileOptions(target=target, repeats=repeats, for_check=for_check, **more)
    launch = None
    if ranks["nproc_per_node"] is not None:
        launch = RanksOptions(**ranks)
    elif any(ranks[field.name] != field.default for field in of_ranks[1:]):
        raise LaunchscopeError("--nnodes, --node-rank, --rdzv-… and --local-addr take --nproc-per-node too")
    _measure(options, launch, against, to)


def _measure(options: ProfileOptions, launch: RanksOptions | None, against: str | None, to: Destination) -> None:
    """Measure and report; with several ranks rank 0's process does, and the others are silent."""
    from ..tracer.processes.api import Interrupted, run_against, run_profile

    place = place_from_environment() if launch is None else None
    several = launch is not None or place is not None
    if several and against is not None:
        raise LaunchscopeError(
            "--against measures two targets in turn, in one process each: with several ranks profile each of them, and "
            "compare the captures (launchscope compare)"
        )
    capture: Path | None
    other: Path | None = None
    try:
        with progress_line() as progress:
            if several:
                from ..tracer.processes.launch import run_ranks

                capture = run_ranks(options, launch, progress if place is None or place.rank == 0 else no_progress)
            elif against is None:
                capture = run_profile(options, progress)
            else:
                capture, other = run_against(options, against, progress)
    except Interrupted as stopped:
        if stopped.capture is not None:
            _report(stopped.capture, to)
        if stopped.against is not None:
            say(f"kept in {stopped.against}: what was measured of {against}")
        raise
    if capture is not None:
        _report(capture, to, other)
    elif place is None:
        say("done; rank 0 keeps the capture, on its host")


def _report(capture: Path, to: Destination, other: Path | None = None) -> None:
    """Report on the capture, or on what changed from the other one; whatever happens, say where they are kept."""
    kept = f"kept in {capture} · see it: launchscope dashboard {capture} · again: launchscope analyze, export"
    if other is not None:
        kept = f"kept in {capture} and {other} · held against limits: launchscope check {capture} --baseline {other}"
    try:
        if other is None:
            from ..analysis.report import load

            to.write_report(load(capture))
        else:
            from ..analysis.compare.compared_paths import compare

            to.write(compare(other, capture), COMPARED)
    finally:
        say(kept)


@click.command("calibrate", short_help="Measure this machine: launch costs, bandwidth, matrix rate.")
@click.option("--refresh", is_flag=True, help="Measure again even if this machine was measured before.")
@click.option("--format", "output", type=click.Choice(["terminal", "json"]), default="terminal", show_default=True)
def calibrate(refresh: bool, output: str) -> None:
    """Measure what the reports compare with: the cheapest launch, graph launch and node costs, memory bandwidth and
    matrix rate. Kept per machine (GPU, driver, CUDA, torch, host) and reused by `launchscope profile`.
    """
    import msgspec

    from ..tracer.measure.device import CUDA
    from ..tracer.processes import calibrate as calibration

    with progress_line() as progress:
        found, measured_before, kept = calibration.calibrate(refresh, progress, CUDA)
    as_json = msgspec.json.format(msgspec.json.encode(found), indent=2).decode() if output == "json" else None
    print_report(as_json or _as_text(found))
    say(f"measured before, read from {kept}; --refresh measures anew" if measured_before else f"kept in {kept}")


def _as_text(calibration: Calibration) -> str:
    rows = [
        ("cheapest launch (τ_floor)", _scaled(calibration.tau_floor_ns, 1e3, "µs")),
        ("graph launch, host", _scaled(calibration.graph_launch_ns, 1e3, "µs")),
        ("  and per node", _scaled(calibration.graph_launch_per_node_ns, 1e3, "µs")),
        ("replay to replay", _scaled(calibration.replay_gap_ns, 1e3, "µs")),
        ("node to node (ν)", _scaled(calibration.node_gap_ns, 1e3, "µs")),
        ("  with few streams used", _scaled(calibration.node_gap_few_streams_ns, 1e3, "µs")),
        ("memory bandwidth", _scaled(calibration.bandwidth_bytes_per_s, 1e12, "TB/s")),
    ]
    rates = calibration.flops_per_s.items()
    rows += [(f"matrix rate, {dtype}", _scaled(rate, 1e12, "TFLOP/s")) for dtype, rate in rates]
    return "\n".join(f"{name:<28}{value:>14}" for name, value in rows)


def _scaled(value: float | None, scale: float, unit: str) -> str:
    return "–" if value is None else f"{value / scale:.2f} {unit}"
