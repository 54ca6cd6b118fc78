"""``launchscope baseline save|list|show|prune``: what checks compare with, in a folder meant to be committed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from . import choices
from .progress import Bar
from .writing import print_report, say

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from ..analysis.checks.baselines import Baseline
    from ..analysis.checks.snapshot import Snapshot

FOLDER: Final = "launchscope-baselines"  # as analysis.checks.baselines has it; that loads msgspec

_SITES: Final = 8  # operators that are shown

_folder = click.option(
    "--dir",
    "folder",
    type=choices.PATH,
    metavar="FOLDER",
    default=FOLDER,
    show_default=True,
    help="Where they are kept.",
)
_modes = click.option("--mode", "modes", metavar="MODE", multiple=True, help="This mode alone; may be repeated.")


@click.group("baseline", short_help="Save, list, show and prune what checks compare with.")
def command() -> None:
    """Baselines of `launchscope check`: small files, one per target, mode and save, in a folder to commit."""


@command.command("save", short_help="Save the figures of a capture or a trace as a baseline.")
@click.argument("current", type=choices.PATH)
@_folder
@_modes
@choices.step_regex
@choices.strict
@choices.no_cache
def save(
    current: Path, folder: Path, modes: tuple[str, ...], step_regex: str | None, strict: bool, no_cache: bool
) -> None:
    """Save every mode of CURRENT (what `check` takes) as a baseline: counts, samples by process, launches and kernels
    by operator, blocking calls by stack. No raw trace, no names of machines or people.
    """
    from datetime import UTC, datetime

    from ..analysis.check import Reading, look_at, select
    from ..analysis.checks import baselines
    from ..analysis.units import printable

    with Bar() as progress:
        reading = Reading(step_regex=step_regex, strict=strict, cache=not no_cache, progress=progress)
        looked = look_at(current, reading)
    for note in looked.notes:
        say(note)
    for path in baselines.save(select(looked.snapshots, modes or None, str(current)), folder, datetime.now(UTC)):
        _tell(printable(str(path)))


@command.command("list", short_help="List the baselines of a folder.")
@_folder
def list_them(folder: Path) -> None:
    """One line per baseline: target, mode, GPU, when it was saved, commit, processes, file."""
    from ..analysis.units import printable

    found = _read(folder)
    head = ("target", "mode", "gpu", "saved", "commit", "processes", "file")
    rows = [(*_about(each.snapshot), printable(str(each.path.relative_to(folder)))) for each in found]
    _tell(_columns([head, *rows]))


@command.command("show", short_help="Show the figures of baselines.")
@click.argument("target", required=False)
@_folder
@_modes
def show(target: str | None, folder: Path, modes: tuple[str, ...]) -> None:
    """The figures of the newest baseline of each mode of TARGET, or of all targets, by machine."""
    from ..analysis.checks.baselines import superseded
    from ..analysis.checks.config import checked_modes
    from ..analysis.errors import LaunchscopeError

    named = checked_modes(modes, "--mode") if modes else None
    found = [
        each
        for each in _read(folder)
        if target in (None, each.snapshot.target) and (named is None or each.snapshot.mode in named)
    ]
    if not found:
        raise LaunchscopeError(f"{folder}: no baseline of {target or 'this mode'}; launchscope baseline list names all")
    old = superseded(found, 1)
    _tell("\n\n".join(_shown(each) for each in found if each not in old))


@command.command("prune", short_help="Delete all but the newest baselines.")
@click.option("--keep", metavar="N", type=click.IntRange(min=1), required=True, help="How many of each stay.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@_folder
def prune(keep: int, dry_run: bool, folder: Path) -> None:
    """Delete all but the newest N of each target, mode, setup (batch size, dtype, …) and kind of machine."""
    from ..analysis.checks.baselines import remove, superseded
    from ..analysis.units import printable

    old = superseded(_read(folder), keep)
    if not dry_run:
        remove(old)
    for each in old:
        _tell(printable(str(each.path)))
    say(f"{len(old)} {'would be deleted' if dry_run else 'deleted'}")


def _read(folder: Path) -> list[Baseline]:
    from ..analysis.checks.baselines import read_folder
    from ..analysis.errors import LaunchscopeError

    found = read_folder(folder)
    if not found:
        raise LaunchscopeError(f"{folder}: no baselines there; save one with launchscope baseline save, or name --dir")
    return found


def _tell(text: str) -> None:
    """On stdout, which CI runners read along."""
    from ..analysis.units import without_commands

    print_report(without_commands(text))


def _about(snapshot: Snapshot) -> tuple[str, ...]:
    from ..analysis.units import printable

    told = (
        snapshot.target,
        snapshot.mode,
        snapshot.machine.get("gpu"),
        (snapshot.saved or "")[:16],
        (snapshot.commit or "")[:12],
    )
    return (*(printable(str(each or "–")) for each in told), str(len(snapshot.timings) or "–"))


def _shown(baseline: Baseline) -> str:
    """One baseline: where it is from, its figures, and the places that launch the most."""
    from ..analysis.checks.finding import value_of
    from ..analysis.checks.limits import FIGURES
    from ..analysis.units import number, printable, written

    snapshot = baseline.snapshot
    rows: list[Sequence[str]] = []
    for name, kind in FIGURES.items():
        value = value_of(snapshot, name)
        if value is not None:
            rows.append((name, written(value, kind.unit)))
        elif name in snapshot.withheld:
            rows.append((name, f"– ({printable(snapshot.withheld[name])})"))
    sites = [
        (number(site.per_step), printable(site.operator or "no operator"), printable(site.line or ""))
        for site in snapshot.launch_sites[:_SITES]
    ]
    head = " · ".join(_about(snapshot)[:5])
    return f"{head}\n{_columns(rows, indent=2)}\n  launches per step by operator\n{_columns(sites, indent=4)}"


def _columns(rows: Iterable[Sequence[Any]], indent: int = 0) -> str:
    """Text in columns as wide as their widest."""
    cells = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(row[column]) for row in cells) for column in range(len(cells[0]))] if cells else []
    return "\n".join(
        " " * indent + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in cells
    )
