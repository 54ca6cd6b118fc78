"""``launchscope compare``: what changed from one capture or trace to another."""

from __future__ import annotations

from pathlib import Path

import click

from ..tracer.target.options import MODES
from . import choices
from .outputs import COMPARED, check_output, hand_over
from .progress import Bar


@click.command("compare", short_help="Tell what changed from one capture or trace to another, and why.")
@click.argument("before", metavar="A", type=choices.PATH)
@click.argument("after", metavar="B", type=choices.PATH)
@click.option(
    "--mode",
    type=click.Choice((*MODES, "as_written")),
    help="Compare this mode alone.  [default: every mode that both have]",
)
@choices.step_regex
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
@choices.verbose
def command(
    before: Path,
    after: Path,
    mode: str | None,
    step_regex: str | None,
    output: str | None,
    file: Path | None,
    verbose: bool,
) -> None:
    """Tell what changed from A to B, two captures or two traces: likely causes, figures side by side, GPU ops that
    came, went or were merged, launches by operator, blocking calls. It judges nothing: that is what `check` is for.
    """
    inputs = (before, after)
    check_output(file, inputs)
    from ..analysis.compare.compared_paths import compare

    with Bar() as progress:
        comparison = compare(before, after, mode=mode, step_regex=step_regex, progress=progress)
    hand_over(comparison, output, file=file, inputs=inputs, verbose=verbose, table=COMPARED)
