"""``launchscope analyze``: the report of captures and of traces that others recorded, or the table of many ranks."""

from __future__ import annotations

from pathlib import Path

import click

from . import choices
from .outputs import check_output, deliver


@click.command("analyze", short_help="Report on captures or on trace files that someone else recorded.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=choices.PATH_OR_URL)
@choices.step_regex
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
@choices.strict
@choices.no_cache
@choices.verbose
@click.option(
    "--ranks/--no-ranks", default=None, help="The table of ranks, or each trace's report.  [default: by their number]"
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes that read.  [default: the cores]")
@click.option("--dask", metavar="ADDRESS", help="Read on the workers of this Dask scheduler: tcp://scheduler:8786.")
@click.option("--resume", metavar="FOLDER", type=choices.PATH, help="Keep finished rows in FOLDER, and go on there.")
def command(
    paths: tuple[Path | str, ...],
    step_regex: str | None,
    output: str | None,
    file: Path | None,
    strict: bool,
    no_cache: bool,
    verbose: bool,
    ranks: bool | None,
    workers: int | None,
    dask: str | None,
    resume: Path | None,
) -> None:
    """Report on each PATH: a capture (folder or .zip) of `launchscope profile`, a Kineto trace (.json, .json.gz)
    as torch.profiler, vLLM and SGLang write it, an SQLite export of Nsight Systems, or a folder or .zip of traces.
    Needs no GPU and no torch.

    Of over 16 traces, or of a folder or pattern in storage (`s3://bucket/run/`), a table of ranks: what each one's
    steps took, and which stand out.
    """
    local = tuple(path for path in paths if isinstance(path, Path))
    check_output(file, local)
    from ..analysis.inputs.sources import sources
    from .many import is_for_a_table, put_side_by_side, report_of

    asked = {"--workers": workers, "--dask": dask, "--resume": resume}
    given = [option for option, value in asked.items() if value is not None]
    if ranks is False and given:
        raise click.UsageError(f"{given[0]} is of the table of ranks, which --no-ranks refuses")
    forced = ranks is True or bool(given)
    found = sources(paths)
    if ranks is not False and is_for_a_table(found, forced=forced, output=output, file=file):
        put_side_by_side(
            found,
            step_regex=step_regex,
            strict=strict,
            workers=workers,
            dask=dask,
            resume=resume,
            output=output,
            file=file,
            verbose=verbose,
        )
        return
    report = report_of(found, step_regex=step_regex, strict=strict, cache=not no_cache)
    deliver(report, output=output, file=file, verbose=verbose)
