"""``launchscope compare``: what changed from one capture or trace to another."""

from __future__ import annotations

from pathlib import Path

import click

from ..tracer.target.options import MODES
from . import choices
from .outputs import COMPARED, Destination
from .progress import progress_bar


@click.command("compare", short_help="Tell what changed from one capture or trace to another, and why.")
@click.argument("before", metavar="A", type=choices.PATH)
@click.argument("after", metavar="B", type=choices.PATH)
@click.option(
    "--mode",
    type=click.Choice((*MODES, "as_written")),
    help="Compare this mode alone.  [default: every mode that both have]",
)
@choices.step_regex
@choices.destination(verbose=True)
def command(before: Path, after: Path, mode: str | None, step_regex: str | None, to: Destination) -> None:
    """Tell what changed from A to B, two captures or two traces: likely causes, figures side by side, GPU ops that
    came, went or were merged, launches by operator, blocking calls. It judges nothing: that is what `check` is for.
    """
    to.check(before, after)
    from ..analysis.compare.compared_paths import compare

    with progress_bar() as progress:
        comparison = compare(before, after, mode=mode, step_regex=step_regex, progress=progress)
    to.write(comparison, COMPARED, before, after)
