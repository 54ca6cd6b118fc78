"""``launchscope baseline save|list|show|prune``: what checks compare with, in a folder meant to be committed."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from . import choices
from .progress import progress_bar
from .writing import print_report, say, terminal_width, wants_color

if TYPE_CHECKING:
    from collections.abc import Iterable

    from ..analysis.compare.baselines import Baseline

FOLDER: Final = "launchscope-baselines"  # as analysis.compare.baselines has it; that loads msgspec

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
@choices.reading
def save(current: Path, folder: Path, modes: tuple[str, ...], **reading: Any) -> None:
    """Save every mode of CURRENT (what `check` takes) as a baseline: counts, samples by process, launches and kernels
    by operator, blocking calls by stack. No raw trace, no names of machines or people.
    """
    from datetime import UTC, datetime

    from ..analysis.compare import baselines
    from ..analysis.compare.check import Reading, look_at, select

    with progress_bar() as progress:
        looked = look_at(current, Reading(progress=progress, **reading))
    for note in looked.notes:
        say(note)
    chosen = select(looked.snapshots, modes or None, str(current))
    _print_paths(baselines.save(chosen, folder, datetime.now(UTC)))
    say(f"commit the folder {folder}: `launchscope check` compares with what it holds")


@command.command("list", short_help="List the baselines of a folder.")
@_folder
def list_them(folder: Path) -> None:
    """One row per baseline: target, mode, GPU, when it was saved, commit, processes; then their files."""
    from ..analysis.compare.check_story import render_baselines

    print_report(render_baselines(_read(folder), width=terminal_width(), color=wants_color(), folder=folder))


@command.command("show", short_help="Show the figures of baselines.")
@click.argument("target", required=False)
@_folder
@_modes
def show(target: str | None, folder: Path, modes: tuple[str, ...]) -> None:
    """The figures of the newest baseline of each mode of TARGET, or of all targets, by machine."""
    from ..analysis.compare.baselines import superseded
    from ..analysis.compare.check_story import render_baseline_figures
    from ..analysis.compare.config import checked_modes
    from ..analysis.model.errors import LaunchscopeError

    named = checked_modes(modes, "--mode") if modes else None
    found = [
        each
        for each in _read(folder)
        if target in (None, each.snapshot.target) and (named is None or each.snapshot.mode in named)
    ]
    if not found:
        raise LaunchscopeError(f"{folder}: no baseline of {target or 'this mode'}; launchscope baseline list names all")
    old = superseded(found, 1)
    newest = [each for each in found if each not in old]
    print_report(render_baseline_figures(newest, width=terminal_width(), color=wants_color()))


@command.command("prune", short_help="Delete all but the newest baselines.")
@click.option("--keep", metavar="N", type=click.IntRange(min=1), required=True, help="How many of each stay.")
@click.option("--dry-run", is_flag=True, help="Say what would be deleted, and delete nothing.")
@_folder
def prune(keep: int, dry_run: bool, folder: Path) -> None:
    """Delete all but the newest N of each target, mode, setup (batch size, dtype, …) and kind of machine."""
    from ..analysis.compare.baselines import remove, superseded

    old = superseded(_read(folder), keep)
    if not dry_run:
        remove(old)
    _print_paths(each.path for each in old)
    say(f"{len(old)} {'would be deleted' if dry_run else 'deleted'}")


def _read(folder: Path) -> list[Baseline]:
    from ..analysis.compare.baselines import read_folder
    from ..analysis.model.errors import LaunchscopeError

    found = read_folder(folder)
    if not found:
        raise LaunchscopeError(f"{folder}: no baselines there; save one with launchscope baseline save, or name --dir")
    return found


def _print_paths(paths: Iterable[Path]) -> None:
    """On stdout, a line each, which CI runners read along."""
    from ..analysis.model.units import printable, without_commands

    for path in paths:
        print_report(without_commands(printable(str(path))))
