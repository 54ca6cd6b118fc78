"""``launchscope doctor``: what of a recording can be trusted, and how to make a better one."""

from __future__ import annotations

from pathlib import Path

import click

from . import choices
from .outputs import HEALTH, check_output, deliver
from .progress import Bar


@click.command("doctor", short_help="Tell what of a trace can be trusted, and how to record a better one.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=choices.PATH)
@choices.step_regex
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
@choices.strict
@choices.no_cache
@choices.verbose
def command(
    paths: tuple[Path, ...],
    step_regex: str | None,
    output: str | None,
    file: Path | None,
    strict: bool,
    no_cache: bool,
    verbose: bool,
) -> None:
    """Look at each PATH, all that `analyze` takes, and tell what it holds, which steps were found and how, what can and
    can't be trusted, and how to record a better one. Exits with 0 when a trace can be read at all.
    """
    check_output(file, paths)
    from ..analysis.report import analyze

    with Bar() as progress:
        report = analyze(*paths, step_regex=step_regex, strict=strict, cache=not no_cache, progress=progress)
    deliver(report, output=output, file=file, verbose=verbose, table=HEALTH)
