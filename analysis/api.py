"""What `import launchscope` offers of analysis: as the rooms have it, and able to show itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from . import report as reports
from .compare import compared_paths
from .compare.compared_paths import Comparison
from .report import Report

if TYPE_CHECKING:
    from os import PathLike

    from .inputs.readers import Progress

_WIDTH: Final = 100


def load(
    path: str | PathLike[str], *, step_regex: str | None = None, strict: bool = False, cache: bool = True
) -> Report:
    """Open one capture, trace file, or folder or .zip of traces, also by URL. UnreadableInput says what is wrong."""
    return replace(reports.load(path, step_regex=step_regex, strict=strict, cache=cache), shown_by=_shown)


def analyze(
    *paths: str | PathLike[str],
    step_regex: str | None = None,
    strict: bool = False,
    cache: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Analyse captures' and other traces into one report, as ``analysis.report.analyze`` does."""
    report = reports.analyze(*paths, step_regex=step_regex, strict=strict, cache=cache, progress=progress)
    return replace(report, shown_by=_shown)


def compare(
    before: str | PathLike[str],
    after: str | PathLike[str],
    *,
    mode: str | None = None,
    step_regex: str | None = None,
    progress: Progress | None = None,
) -> Comparison:
    """What changed from one capture or trace to another, as ``compare.compared_paths.compare`` finds it."""
    found = compared_paths.compare(before, after, mode=mode, step_regex=step_regex, progress=progress)
    return replace(found, shown_by=_shown_comparison)


def _shown(report: Report, form: str) -> str:
    from . import notebook, report_story

    if form == "html":
        return notebook.render(report)
    return report_story.render_terminal(report, width=_WIDTH, color=False, verbose=False)


def _shown_comparison(comparison: Comparison, form: str) -> str:
    from .compare.checks import compare_story

    if form == "markdown":
        return compare_story.render_markdown(comparison)
    return compare_story.render_terminal(comparison, width=_WIDTH, color=False, verbose=False)
