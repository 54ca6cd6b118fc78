"""``launchscope check``: limits and baselines against a capture or a trace; the exit code is the answer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import click

from ..analysis.model.errors import LaunchscopeError
from . import choices
from .baseline import FOLDER
from .outputs import Destination, check_outputs, write_check, write_refusal
from .progress import progress_bar
from .writing import say


@click.command("check", short_help="Hold a capture or a trace against limits and a baseline, in CI.")
@click.argument("current", metavar="[CURRENT]", required=False, type=choices.PATH)
@click.option("--baseline", metavar="PATH", type=choices.PATH, help="A folder of baselines, or what CURRENT may be.")
@click.option("--config", metavar="FILE", type=choices.PATH, help="Where the limits are, instead of looking for it.")
@click.option("--require-graph", is_flag=True, help="Modes that may replay graphs have to: 95 % of their kernels.")
@click.option("--same-machine", is_flag=True, help="Compare counts, too, with the same GPU, driver, CUDA, torch alone.")
@click.option("--mode", "modes", metavar="MODE", multiple=True, help="Check this mode alone; may be repeated.")
@click.option("--validate", is_flag=True, help="Look at the configuration alone: is it one, and what does it limit?")
@choices.destination(verbose=True)
@click.option("--junit", metavar="FILE", type=choices.PATH, help="Also write JUnit XML.")
@click.option("--markdown", metavar="FILE", type=choices.PATH, help="Also write Markdown.")
@click.option("--benchmark", metavar="FILE", type=choices.PATH, help="Also write JSON for github-action-benchmark.")
@choices.reading
@click.pass_context
def command(
    ctx: click.Context,
    /,
    current: Path | None,
    baseline: Path | None,
    config: Path | None,
    require_graph: bool,
    same_machine: bool,
    modes: tuple[str, ...],
    validate: bool,
    to: Destination,
    junit: Path | None,
    markdown: Path | None,
    benchmark: Path | None,
    **reading: Any,
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
    from ..analysis.compare.check import Reading, check
    from ..analysis.compare.config import find_config

    try:
        config = config or find_config(Path())
        inputs = (current, baseline or Path(FOLDER), *([] if config is None else [config]))
        check_outputs([path for path in (to.file, *files.values()) if path is not None], inputs)
        with progress_bar() as progress:
            document = check(
                current,
                baseline,
                config=config,
                require_graph=require_graph,
                same_machine=same_machine,
                modes=modes or None,
                reading=Reading(progress=progress, **reading),
            )
    except LaunchscopeError as error:
        write_refusal(error, to)
        raise
    write_check(document, to, files)
    ctx.exit(document.exit_code)


def _validate(config: Path | None) -> None:
    from ..analysis.compare.check import config_to_validate
    from ..analysis.compare.config import read_config
    from ..analysis.model.units import plural

    path = config_to_validate(config)
    limits = read_config(path)
    count = sum(len(table) for table in limits.tables.values())
    say(f"{path}: {plural(count, 'limit')}, nothing wrong")
