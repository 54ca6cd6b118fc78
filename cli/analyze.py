"""``launchscope analyze``, ``doctor`` and ``export``: reports of captures and of traces that others recorded."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from . import choices
from .outputs import HEALTH, OUTPUTS, RANKS, Destination, by_suffix
from .progress import progress_bar
from .writing import say


@click.command("analyze", short_help="Report on captures or on trace files that someone else recorded.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=choices.PATH_OR_URL)
@choices.reading
@choices.destination(verbose=True)
@click.option(
    "--ranks/--no-ranks", default=None, help="The table of ranks, or each trace's report.  [default: by their number]"
)
@click.option("--workers", type=click.IntRange(1), metavar="N", help="Processes that read.  [default: the cores]")
@click.option("--dask", metavar="ADDRESS", help="Read on the workers of this Dask scheduler: tcp://scheduler:8786.")
@click.option("--resume", metavar="FOLDER", type=choices.PATH, help="Keep finished rows in FOLDER, and go on there.")
def analyze(
    paths: tuple[Path | str, ...],
    to: Destination,
    ranks: bool | None,
    workers: int | None,
    dask: str | None,
    resume: Path | None,
    strict: bool,
    **reading: Any,
) -> None:
    """Report on each PATH: a capture (folder or .zip) of `launchscope profile`, a Kineto trace (.json, .json.gz)
    as torch.profiler, vLLM and SGLang write it, an SQLite export of Nsight Systems, or a folder or .zip of traces.
    Needs no GPU and no torch.

    Of over 16 traces, or of a folder or pattern in storage (`s3://bucket/run/`), a table of ranks: what each one's
    steps took, and which stand out.
    """
    to.check(*(path for path in paths if isinstance(path, Path)))
    from ..analysis.inputs.sources import sources
    from ..analysis.many.ranks import Stopped
    from .many import is_for_a_table, report_of, require_rows, table_of

    for_table = {"--workers": workers, "--dask": dask, "--resume": resume}
    given = [option for option, value in for_table.items() if value is not None]
    if ranks is False and given:
        raise click.UsageError(f"{given[0]} is of the table of ranks, which --no-ranks refuses")
    found = sources(paths)
    if ranks is False or not is_for_a_table(found, to, forced=ranks is True or bool(given)):
        to.write_report(report_of(found, strict=strict, **reading))
        return
    del reading["cache"]
    try:
        table = table_of(found, strict=strict, workers=workers, dask=dask, resume=resume, **reading)
    except Stopped as stopped:
        kept = (
            f"kept in {resume}: the same command goes on from there" if resume else "lost: --resume FOLDER keeps them"
        )
        say(f"{stopped.finished:,} of {stopped.total:,} files were finished; they are {kept}")
        raise
    to.write(table, RANKS, *found.local)
    require_rows(table, strict=strict)


@click.command("doctor", short_help="Tell what of a trace can be trusted, and how to record a better one.")
@click.argument("paths", metavar="PATH...", nargs=-1, required=True, type=choices.PATH)
@choices.reading
@choices.destination(verbose=True)
def doctor(paths: tuple[Path, ...], to: Destination, **reading: Any) -> None:
    """Look at each PATH, all that `analyze` takes, and tell what it holds, which steps were found and how, what can and
    can't be trusted, and how to record a better one. Exits with 0 when a trace can be read at all.
    """
    to.check(*paths)
    from ..analysis import report

    with progress_bar() as progress:
        found = report.analyze(*paths, progress=progress, **reading)
    to.write_report(found, HEALTH)


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
@choices.reading
def export(path: Path, file: Path, **reading: Any) -> None:
    """Write PATH, a capture, a trace, or a folder or .zip of traces, as FILE. Open a .pftrace in https://ui.perfetto.dev:
    streams, launches with arrows to their kernels, gaps by cause, queue depth. An .html is the whole story in one file:
    timelines to zoom, charts, tables; it needs no network.
    """
    if by_suffix(file) is None:
        known = ", ".join(each.suffix for each in OUTPUTS.values() if each.suffix)
        raise click.BadParameter(f"{file}: the suffix says what to write: {known}", param_hint="-o")
    to = Destination(file=file)
    to.check(path)
    from ..analysis import report

    with progress_bar() as progress:
        found = report.analyze(path, progress=progress, **reading)
    found.require_gpu_ops()
    to.write_report(found)
