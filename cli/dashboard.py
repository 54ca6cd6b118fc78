"""``launchscope dashboard``: the report in a browser."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final, TypeVar

import click

from ..analysis.model.errors import LaunchscopeError, MissingRequirement
from . import choices
from .many import report_of, require_rows
from .rank_page import Reading, kept_table, many_ranks, places_of
from .writing import say

if TYPE_CHECKING:
    from ..analysis.many.document import RanksDocument
    from ..analysis.report import Report
    from ..dashboard.watched import Watched

CAPTURES: Final = Path("launchscope-out")  # where profile keeps them
FIRST_PORT: Final = 8050


_Command = TypeVar("_Command", bound=Callable[..., object])


def served_at(command: _Command) -> _Command:
    """--port, --host and --no-browser."""
    port = click.option(
        "--port", type=click.IntRange(0, 65535), help="Serve on this port; 0: any.  [default: 8050, or the next free]"
    )
    host = click.option(
        "--host",
        default="127.0.0.1",
        show_default=True,
        help="Serve on this address; others than loopback need the token that is printed.",
    )
    no_browser = click.option("--no-browser", is_flag=True, help="Don't open a browser.")
    return port(host(no_browser(command)))


@click.command("dashboard", short_help="Explore captures and traces in a browser: timelines side by side.")
@click.argument("paths", metavar="[PATH]...", nargs=-1, type=choices.PATH_OR_URL)
@click.option(
    "--ranks/--no-ranks",
    default=None,
    help="The page of many ranks, or one report.  [default: by their number]",
)
@served_at
@choices.step_regex
@choices.strict
@choices.no_cache
def command(
    paths: tuple[Path | str, ...],
    ranks: bool | None,
    port: int | None,
    host: str,
    no_browser: bool,
    step_regex: str | None,
    strict: bool,
    no_cache: bool,
) -> None:
    """Open each PATH (a capture of `launchscope profile`, or traces as `launchscope analyze` takes them) in a page of
    its own server; without PATH the newest capture in launchscope-out/. Ctrl-C ends it.

    Over 16 traces, a folder or pattern in storage (`s3://bucket/run/`), or ranks.json of `launchscope analyze -o
    ranks.json` give a page of all ranks, in which each one's timeline can be opened: of ranks.json those below its own
    folder, and below each PATH that is named behind it.
    """
    chosen = paths or (newest_capture(),)
    doc = kept_table(chosen)
    reading = Reading(step_regex, not no_cache, None if doc is None else places_of(chosen, doc))
    if doc is None:
        from ..analysis.inputs.sources import sources
        from ..dashboard.watched import Watched

        found = sources(chosen)
        watched = Watched.of(found.local)
        if ranks is not False:
            doc = many_ranks(found, forced=ranks is True, step_regex=step_regex, strict=strict)
        if doc is None:
            report = report_of(found, step_regex=step_regex, strict=strict, cache=not no_cache)
            show(report, watched, host=host, port=port, browser=not no_browser)
            return
    if strict:
        require_rows(doc, strict=True)
    show_ranks(doc, reading, host=host, port=port, browser=not no_browser)


def newest_capture() -> Path:
    """The capture that was kept last; one that is still being written has no name yet."""
    from ..analysis.model.capture import is_being_written, is_capture
    from ..analysis.model.paths import is_folder, listed

    there = listed(CAPTURES) if is_folder(CAPTURES) else []
    named = [path for path in there if not path.name.startswith(".")]
    for path in sorted(named, key=_changed_at, reverse=True):
        if is_capture(path):
            return path
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


def show(report: Report, watched: Watched, *, host: str, port: int | None, browser: bool) -> None:
    """Serve the page until Ctrl-C."""
    with needs_dashboard():
        from ..dashboard.site.serve import serve
    serve(report, watched, host=host, ports=_ports(port), browser=browser, say=say)


def show_ranks(doc: RanksDocument, read: Reading, *, host: str, port: int | None, browser: bool) -> None:
    """Serve the page of many ranks until Ctrl-C."""
    with needs_dashboard():
        from ..dashboard.site.serve import serve_many
    serve_many(doc, read, host=host, ports=_ports(port), browser=browser, say=say)


@contextmanager
def needs_dashboard() -> Iterator[None]:
    """MissingRequirement where a package of the dashboard is absent."""
    try:
        yield
    except ModuleNotFoundError as error:
        raise MissingRequirement(
            f"the dashboard needs the package {error.name}: pip install 'launchscope[dashboard]'"
        ) from error


def _ports(port: int | None) -> Sequence[int]:
    return range(FIRST_PORT, FIRST_PORT + 50) if port is None else (port,)
