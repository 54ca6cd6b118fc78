"""``launchscope profile``: measure a decode step on this machine's GPU and report on it."""

from __future__ import annotations

from pathlib import Path

import click

from ..tracer.options import MODES, REPEATS, STEPS, TIMEOUT_S, ProfileOptions, parse_modes, parse_settings
from . import choices
from .outputs import deliver
from .progress import ProgressLine
from .writing import say


@click.command("profile", short_help="Measure a model's decode step on this machine's GPU.")
@click.argument("target")
@click.option("--batch-size", type=int, metavar="N", help="Sequences per step.  [default: the target's]")
@click.option("--dtype", metavar="DTYPE", help="bf16, fp16 or fp32.  [default: the target's]")
@click.option("--context-length", type=int, metavar="TOKENS", help="Tokens in the cache.  [default: the target's]")
@click.option("--steps", type=int, metavar="N", default=STEPS, show_default=True, help="Steps per profiler session.")
@click.option("--repeats", type=int, metavar="N", default=REPEATS, show_default=True, help="Fresh processes per mode.")
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
    repeats: int,
    modes: str,
    pairs: tuple[str, ...],
    out: Path | None,
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
        repeats=repeats,
        modes=parse_modes(modes),
        settings=parse_settings(pairs),
        out=out,
        timeout_s=timeout,
    )
    from ..tracer.api import Interrupted, run_profile

    try:
        with ProgressLine() as progress:
            capture = run_profile(options, progress)
    except Interrupted as stopped:
        if stopped.capture is not None:
            _report(stopped.capture, output, verbose)
        raise
    _report(capture, output, verbose)


def _report(capture: Path, output: str | None, verbose: bool) -> None:
    from ..analysis.report import load

    try:
        deliver(load(capture), output=output, file=None, verbose=verbose)
    finally:  # what was measured is worth more than the report of it
        say(f"kept in {capture} · see it: launchscope dashboard {capture} · again: launchscope analyze, export")
