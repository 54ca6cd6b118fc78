"""``launchscope demo``: the full report on any machine, from captures recorded on a real GPU that ship with us."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import click

from ..analysis.model.errors import LaunchscopeError
from . import choices
from .dashboard import served_at, show
from .outputs import check_output, deliver
from .writing import print_report, say

CAPTURES: Final = Path(__file__).parent.parent / "fixtures" / "captures"
DEFAULT: Final = "llama_1b"


@click.command("demo", short_help="Show a full report here and now: no GPU, no torch.")
@click.argument("name", required=False, default=DEFAULT)
@click.option("--list", "list_names", is_flag=True, help="Name the captures that can be shown.")
@choices.output_format(default="by FILE's suffix, else terminal")
@choices.output_file
@click.option("--dashboard", "in_browser", is_flag=True, help="Open it in a browser: launchscope dashboard.")
@served_at
@choices.verbose
def command(
    name: str,
    list_names: bool,
    output: str | None,
    file: Path | None,
    in_browser: bool,
    port: int | None,
    host: str,
    no_browser: bool,
    verbose: bool,
) -> None:
    """Show the report of capture NAME (default: llama_1b), which `launchscope profile` recorded on an NVIDIA H200."""
    names = demo_names()
    if list_names:
        print_report("\n".join(names))
        return
    if name.removesuffix(".zip") not in names:
        raise LaunchscopeError(f"no demo '{name}'; there are: {', '.join(names)}")
    check_output(file)
    from ..analysis.report import load

    capture = CAPTURES / f"{name.removesuffix('.zip')}.zip"
    if in_browser:
        from ..dashboard.watched import Watched

        show(load(capture), Watched.of((capture,)), host=host, port=port, browser=not no_browser)
        return
    deliver(load(capture), output=output, file=file, verbose=verbose)
    say(f"this was {capture}; measure your own model with: launchscope profile model.py")


def demo_names() -> list[str]:
    """The captures in the package, the default one first."""
    names = sorted(capture.stem for capture in CAPTURES.glob("*.zip"))
    if not names:
        raise LaunchscopeError(f"{CAPTURES}: no captures, so this installation is incomplete: install launchscope anew")
    return sorted(names, key=lambda name: name != DEFAULT)
