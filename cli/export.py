"""``launchscope export``: one capture or trace as a file for another program."""

from __future__ import annotations

from pathlib import Path

import click

from . import choices
from .outputs import OUTPUTS, by_suffix, check_output, deliver
from .progress import Bar


@click.command("export", short_help="Write a Perfetto trace, the report as one HTML file, JSON or Markdown.")
@click.argument("path", type=choices.PATH)
@click.option(
    "-o",
    "--output",
    "file",
    metavar="FILE",
    type=choices.PATH,
    required=True,
    help="What to write; the suffix says what it is: .pftrace (Perfetto), .html, .json (report) or .md.",
)
@choices.step_regex
@choices.strict
@choices.no_cache
def command(path: Path, file: Path, step_regex: str | None, strict: bool, no_cache: bool) -> None:
    """Write PATH, a capture, a trace, or a folder or .zip of traces, as FILE. Open a .pftrace in https://ui.perfetto.dev:
    streams, launches with arrows to their kernels, gaps by cause, queue depth. An .html is the whole story in one file:
    timelines to zoom, charts, tables; it needs no network.
    """
    output = by_suffix(file)
    if output is None:
        known = ", ".join(each.suffix for each in OUTPUTS.values() if each.suffix)
        raise click.BadParameter(f"{file}: the suffix says what to write: {known}", param_hint="-o")
    check_output(file, (path,))
    from ..analysis.report import analyze

    with Bar() as progress:
        report = analyze(path, step_regex=step_regex, strict=strict, cache=not no_cache, progress=progress)
    report.require_gpu_ops()
    deliver(report, output=output, file=file)
