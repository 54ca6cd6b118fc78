"""What `import launchscope` offers of comparing: as its room has it, and able to show itself."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from .compare import compared_paths
from .compare.compared_paths import Comparison

if TYPE_CHECKING:
    from os import PathLike

    from .inputs.readers import Progress

_WIDTH: Final = 100


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


def _shown_comparison(comparison: Comparison, form: str) -> str:
    from .compare.checks import compare_story

    if form == "markdown":
        return compare_story.render_markdown(comparison)
    return compare_story.render_terminal(comparison, width=_WIDTH, color=False, verbose=False)
