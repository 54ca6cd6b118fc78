"""``launchscope dashboard`` and ``demo``: a report in a browser, and the captures that ship with launchscope."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import click

from ..analysis.model.errors import LaunchscopeError, MissingRequirement
from . import choices
from .many import is_for_a_table, report_of, require_rows, table_of
from .outputs import Destination
from .writing import print_report, say

CAPTURES: Final = Path("launchscope-out")  # where profile keeps them
DEMOS: Final = Path(__file__).parent.parent / "fixtures" / "captures"
DEMO: Final = "llama_1b"
FIRST_PORT: Final = 8050


def _ports(_ctx: click.Context, _option: click.Parameter, port: int | None) -> Sequence[int]:
    return range(FIRST_PORT, FIRST_PORT + 50) if port is None else (port,)


serving: Final = choices.together(
    click.option(
        "--port",
        "ports",
        type=click.IntRange(0, 65535),
        callback=_ports,
        help="Serve on this port; 0: any.  [default: 8050, or the next free]",
    ),
    click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="Serve on this address; others than loopback need the token that is printed.",
    ),
    click.option("--no-browser", "browser", flag_value=False, default=True, help="Don't open a browser."),
)


@click.command("dashboard", short_help="Explore captures and traces in a browser: timelines side by side.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=choices.PATH_OR_URL)
@click.option(
    "--ranks/--no-ranks",
    default=None,
    help="The page of many ranks, or one report.  [default: by their number]",
)
@serving
@choices.reading
def dashboard(
    paths: tuple[Path | str, ...],
    ranks: bool | None,
    step_regex: str | None,
    strict: bool,
    cache: bool,
    **served: Any,
) -> None:
    """Open each PATH (a capture of `launchscope profile`, or traces as `launchscope analyze` takes them) in a page of
    its own server; without PATH the newest capture in launchscope-out/. Ctrl-C ends it.

    Over 16 traces, a folder or pattern in storage (`s3://bucket/run/`), or ranks.json of `launchscope analyze -o
    ranks.json` give a page of all ranks, in which each one's timeline can be opened: of ranks.json those below its own
    folder, and below each PATH that is named behind it.
    """
    server = _server()
    from ..dashboard.many import rank_pages

    chosen = paths or (newest_capture(),)
    table, places = rank_pages.kept_table(chosen), None
    if table is not None:
        places = rank_pages.places_of(chosen, table)
    else:
        from ..analysis.inputs.sources import sources
        from ..dashboard.opened_report import Watched

        found = sources(chosen)
        watched = Watched.of(found.local)
        if ranks is False or not is_for_a_table(found, forced=ranks is True):
            report = report_of(found, step_regex=step_regex, strict=strict, cache=cache)
            server.serve(report, watched, say=say, **served)
            return
        table = table_of(found, step_regex=step_regex, strict=strict)
    if strict or places is None:
        require_rows(table, strict=strict)
    read = partial(rank_pages.report_of, places=places, step_regex=step_regex, cache=cache)
    server.serve_many(table, read, say=say, **served)


def newest_capture() -> Path:
    """The capture that was kept last; one that is still being written has no name yet."""
    from ..analysis.model.capture import is_being_written, is_capture
    from ..analysis.model.paths import is_folder, listed

    there = listed(CAPTURES) if is_folder(CAPTURES) else []
    captures = [path for path in there if not path.name.startswith(".") and is_capture(path)]
    if captures:
        return max(captures, key=_changed_at)
    if any(is_being_written(path) for path in there):
        raise LaunchscopeError(
            f"nothing to show yet: the only capture in {CAPTURES}/ is still being written; try again when it is whole"
        )
    raise LaunchscopeError(
        f"nothing to show: no PATH given and no capture in {CAPTURES}/; try launchscope demo --dashboard"
    )


def _changed_at(path: Path) -> float:
    try:
        return path.stat().st_mtime
    except OSError:  # gone meanwhile
        return 0.0


def _server() -> ModuleType:
    """The module that serves pages. MissingRequirement where a package of the dashboard is absent."""
    try:
        from ..dashboard.site import serve
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            f"the dashboard needs the package {error.name}: pip install 'launchscope[dashboard]'"
        ) from error
    return serve


@click.command("demo", short_help="Show a full report here and now: no GPU, no torch.")
@click.argument("name", required=False, default=DEMO)
@click.option("--list", "list_names", is_flag=True, help="Name the captures that can be shown.")
@choices.destination(verbose=True)
@click.option("--dashboard", "in_browser", is_flag=True, help="Open it in a browser: launchscope dashboard.")
@serving
def demo(name: str, list_names: bool, to: Destination, in_browser: bool, **served: Any) -> None:
    """Show the report of capture NAME (default: llama_1b), which `launchscope profile` recorded on an NVIDIA H200."""
    names = _demo_names()
    if list_names:
        print_report("\n".join(names))
        return
    if name.removesuffix(".zip") not in names:
        raise LaunchscopeError(f"no demo '{name}'; there are: {', '.join(names)}")
    to.check()
    from ..analysis.report import load

    capture = DEMOS / f"{name.removesuffix('.zip')}.zip"
    if in_browser:
        from ..dashboard.opened_report import Watched

        _server().serve(load(capture), Watched.of((capture,)), say=say, **served)
        return
    to.write_report(load(capture))
    say(f"this was {capture}; measure your own model with: launchscope profile model.py")


def _demo_names() -> list[str]:
    """The captures in the package, the default one first."""
    names = sorted(capture.stem for capture in DEMOS.glob("*.zip"))
    if not names:
        raise LaunchscopeError(f"{DEMOS}: no captures, so this installation is incomplete: install launchscope anew")
    return sorted(names, key=lambda name: name != DEMO)
