"""``launchscope analyze``: the report of captures and of traces that others recorded."""

from __future__ import annotations

from pathlib import Path

import click

from . import choices
from .outputs import check_output, deliver
from .progress import Bar


@click.command("analyze", short_help="Report on captures or on trace files that someone else recorded.")
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
    """Report on each PATH: a capture (folder or .zip) of `launchscope profile`, a Kineto trace (.json, .json.gz)
    as torch.profiler, vLLM and SGLang write it, an SQLite export of Nsight Systems, or a folder or .zip of traces.
    Needs no GPU and no torch.
    """
    check_output(file, paths)
    from ..analysis.report import analyze

    with Bar() as progress:
        report = analyze(*paths, step_regex=step_regex, strict=strict, cache=not no_cache, progress=progress)
    report.require_gpu_ops()
    deliver(report, output=output, file=file, verbose=verbose)
