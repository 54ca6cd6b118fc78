"""``launchscope profile``: measure a decode step on this machine's GPU and report on it."""

from __future__ import annotations

from pathlib import Path

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
    parse_modes,
    parse_settings,
    place_from_environment,
)
from . import choices
from .outputs import COMPARED, deliver, hand_over
from .progress import ProgressLine
from .writing import say


@click.command("profile", short_help="Measure a model's decode step on this machine's GPU.")
@click.argument("target")
@choices.batch_size
@choices.dtype
@choices.context_length
@click.option("--steps", type=int, metavar="N", default=STEPS, show_default=True, help="Steps per profiler session.")
@click.option(
    "--repeats",
    type=int,
    metavar="N",
    help=f"Fresh processes per mode.  [default: {REPEATS}; with --for-check or --against {CHECK_REPEATS}]",
)
@click.option(
    "--modes", metavar="MODES", default=",".join(MODES), show_default=True, help="Modes, with commas between."
)
@click.option(
    "--set", "pairs", metavar="KEY=VALUE", multiple=True, help="A parameter of the target's build; repeatable."
)
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
@choices.output_format(default="terminal")
@click.option(
    "--timeout",
    type=float,
    metavar="SECONDS",
    default=TIMEOUT_S,
    show_default=True,
    help="Longest that one process may take, compilation included; its mode then fails.",
)
@choices.verbose
def command(
    target: str,
    batch_size: int | None,
    dtype: str | None,
    context_length: int | None,
    steps: int,
    repeats: int | None,
    modes: str,
    pairs: tuple[str, ...],
    out: Path | None,
    for_check: bool,
    against: str | None,
    nproc_per_node: int | None,
    nnodes: int,
    node_rank: int | None,
    rdzv_endpoint: str | None,
    rdzv_backend: str,
    rdzv_id: str | None,
    local_addr: str | None,
    output: str | None,
    timeout: float,
    verbose: bool,
) -> None:
    """Run the decode step of TARGET (model.py, model.py:name or package.module:name) in each mode, in fresh
    processes, and report where its time goes.
    """
    options = ProfileOptions(
        target=target,
        batch_size=batch_size,
        dtype=dtype,
        context_length=context_length,
        steps=steps,
        repeats=repeats if repeats is not None else CHECK_REPEATS if for_check or against else REPEATS,
        modes=parse_modes(modes),
        settings=parse_settings(pairs),
        out=out,
        timeout_s=timeout,
        for_check=for_check or against is not None,
    )
    launch = None
    if nproc_per_node is not None:
        launch = RanksOptions(
            nproc_per_node=nproc_per_node,
            nnodes=nnodes,
            node_rank=node_rank,
            rdzv_endpoint=rdzv_endpoint,
            rdzv_backend=rdzv_backend,
            rdzv_id=rdzv_id,
            local_addr=local_addr,
        )
    elif nnodes != 1 or (node_rank, rdzv_endpoint, rdzv_id, local_addr) != (None,) * 4:
        raise LaunchscopeError("--nnodes, --node-rank, --rdzv-… and --local-addr take --nproc-per-node too")
    _measure(options, launch, against, output, verbose)


def _measure(
    options: ProfileOptions, launch: RanksOptions | None, against: str | None, output: str | None, verbose: bool
) -> None:
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
        with ProgressLine() as progress:
            if several:
                from ..tracer.processes.launch import run_ranks

                capture = run_ranks(options, launch, progress if place is None or place.rank == 0 else no_progress)
            elif against is None:
                capture = run_profile(options, progress)
            else:
                capture, other = run_against(options, against, progress)
    except Interrupted as stopped:
        if stopped.capture is not None:
            _report(stopped.capture, output, verbose)
        if stopped.against is not None:
            say(f"kept in {stopped.against}: what was measured of {against}")
        raise
    if capture is None:
        if place is None:
            say("done; rank 0 keeps the capture, on its host")
        return
    if other is None:
        _report(capture, output, verbose)
    else:
        assert against is not None
        _compare(capture, other, output, verbose)


def _compare(capture: Path, other: Path, output: str | None, verbose: bool) -> None:
    from ..analysis.compare.compared_paths import compare

    try:
        inputs = (other, capture)
        hand_over(compare(*inputs), output, file=None, inputs=inputs, verbose=verbose, table=COMPARED)
    finally:
        say(f"kept in {capture} and {other} · held against limits: launchscope check {capture} --baseline {other}")


def _report(capture: Path, output: str | None, verbose: bool) -> None:
    from ..analysis.report import load

    try:
        deliver(load(capture), output=output, file=None, verbose=verbose)
    finally:  # what was measured is worth more than the report of it
        say(f"kept in {capture} · see it: launchscope dashboard {capture} · again: launchscope analyze, export")
