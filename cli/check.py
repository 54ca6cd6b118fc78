"""``launchscope check``: limits and baselines against a capture or a trace; the exit code is the answer."""

from __future__ import annotations

from pathlib import Path

import click

from ..analysis.model.errors import LaunchscopeError
from . import choices
from .baseline import FOLDER
from .outputs import check_outputs, deliver_check, tell_github
from .progress import Bar
from .writing import say


@click.command("check", short_help="Hold a capture or a trace against limits and a baseline, in CI.")
@click.argument("current", metavar="[CURRENT]", required=False, type=choices.PATH)
@click.option("--baseline", metavar="PATH", type=choices.PATH, help="A folder of baselines, or what CURRENT may be.")
@click.option("--config", metavar="FILE", type=choices.PATH, help="Where the limits are, instead of looking for it.")
@click.option("--require-graph", is_flag=True, help="Modes that may replay graphs have to: 95 % of their kernels.")
@click.option("--same-machine", is_flag=True, help="Compare counts, too, with the same GPU, driver, CUDA, torch alone.")
@click.option("--mode", "modes", metavar="MODE", multiple=True, help="Check this mode alone; may be repeated.")
@click.option("--validate", is_flag=True, help="Look at the configuration alone: is it one, and what does it limit?")
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
@click.option("--junit", metavar="FILE", type=choices.PATH, help="Also write JUnit XML.")
@click.option("--markdown", metavar="FILE", type=choices.PATH, help="Also write Markdown.")
@click.option("--benchmark", metavar="FILE", type=choices.PATH, help="Also write JSON for github-action-benchmark.")
@choices.step_regex
@choices.strict
@choices.no_cache
@choices.verbose
@click.pass_context
def command(
    ctx: click.Context,
    current: Path | None,
    baseline: Path | None,
    config: Path | None,
    require_graph: bool,
    same_machine: bool,
    modes: tuple[str, ...],
    validate: bool,
    output: str | None,
    file: Path | None,
    junit: Path | None,
    markdown: Path | None,
    benchmark: Path | None,
    step_regex: str | None,
    strict: bool,
    no_cache: bool,
    verbose: bool,
) -> None:
    """Check CURRENT (a capture, a trace, or a JSON report of `analyze`) against the limits of launchscope.toml, and
    against a baseline: launchscope-baselines, or what --baseline names. Needs no GPU and no torch.

    Exits with 0 when all holds, 1 for a regression, 2 when there is something to fix, 3 when it can't be told.
    """
    if validate:
        _validate(config)
        return
    if current is None:
        raise click.MissingParameter(ctx=ctx, param=ctx.command.params[0], param_hint="'CURRENT'")
    files = {"junit": junit, "markdown": markdown, "benchmark": benchmark}
    from ..analysis.compare.checks.config import find_config
    from ..analysis.compare.checks.run import Reading, check

    try:
        config = config or find_config(Path())
        inputs = (current, baseline or Path(FOLDER), *([] if config is None else [config]))
        check_outputs([path for path in (file, *files.values()) if path is not None], inputs)
        with Bar() as progress:
            reading = Reading(step_regex=step_regex, strict=strict, cache=not no_cache, progress=progress)
            document = check(
                current,
                baseline,
                config=config,
                require_graph=require_graph,
                same_machine=same_machine,
                modes=modes or None,
                reading=reading,
            )
    except LaunchscopeError as error:
        tell_github(error, annotate=file is not None or output in (None, "terminal"))
        raise
    deliver_check(document, output=output, file=file, files=files, verbose=verbose)
    ctx.exit(document.exit_code)


def _validate(config: Path | None) -> None:
    from ..analysis.compare.checks.config import read_config
    from ..analysis.compare.checks.run import config_to_validate
    from ..analysis.model.units import plural

    path = config_to_validate(config)
    limits = read_config(path)
    count = sum(len(table) for table in limits.tables.values())
    say(f"{path}: {plural(count, 'limit')}, nothing wrong")
