"""``launchscope whatif``: a recorded step simulated with something changed."""

from __future__ import annotations

from pathlib import Path

import click

from . import choices
from .outputs import WHATIF, by_suffix, check_output, hand_over

FACTOR = click.FloatRange(0, 1_000_000, min_open=True)


@click.command("whatif", short_help="Predict the step time with a faster host, other launches, or one CUDA graph.")
@click.argument("path", metavar="PATH", type=choices.PATH)
@click.option("--tau", type=choices.TIME, help="Host time per launch, τ.")
@click.option("--host", metavar="FACTOR", type=FACTOR, help="The host takes so many times as long.")
@click.option("--delay", type=choices.TIME, help="So much more host time before each launch.")
@click.option("--gpu", metavar="FACTOR", type=FACTOR, help="Every GPU op takes so many times as long.")
@click.option("--graph", is_flag=True, help="The step is launched as one CUDA graph.")
@click.option("--mode", metavar="MODE", help="Start from this mode.  [default: eager where it was timed]")
@choices.step_regex
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
def command(
    path: Path,
    tau: float | None,
    host: float | None,
    delay: float | None,
    gpu: float | None,
    graph: bool,
    mode: str | None,
    step_regex: str | None,
    output: str | None,
    file: Path | None,
) -> None:
    """Simulate the recorded steps of PATH, a capture or a trace, with something changed. Its range is what the
    simulation misses its own start by.
    """
    if tau is not None and host is not None:
        raise click.UsageError("--tau and --host both set the host's time: give one")
    check_output(file, (path,))
    from ..analysis.report import load
    from ..analysis.whatif import Knobs, what_if

    report = load(path, step_regex=step_regex)
    document = what_if(report, Knobs(tau_ns=tau, host=host, delay_ns=delay, gpu=gpu, graph=graph), mode)
    name = output or (file and by_suffix(file, WHATIF)) or "terminal"
    hand_over(document, name, file=file, inputs=(path,), verbose=False, table=WHATIF)
