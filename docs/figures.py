"""Writes docs/figures.md, the list of figures, from their registries. Run python docs/figures.py."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from launchscope.analysis.figures.registry import FIGURES, values
from launchscope.analysis.profile.mode_figures import MODE_FIGURES

PAGE = Path(__file__).with_suffix(".md")


def lines() -> Iterator[str]:
    yield "# Figures"
    yield ""
    yield "Made by `python docs/figures.py` from what the program knows. [metrics.md](metrics.md) has the definitions"
    yield "and formulas, [report.md](report.md) the JSON of each."
    yield ""
    yield "## Of a trace"
    yield ""
    yield 'A figure with a table is also a table of the dashboard, with a CSV file, and `report.table("name")` in'
    yield "Python."
    yield ""
    yield "| in the report | what it tells | table |"
    yield "|---|---|---|"
    for figure in FIGURES:
        yield f"| `traces[].{figure.path}` | {figure.words} | {'yes' if figure.table is not None else ''} |"
    numbers = [*values()]
    if numbers:
        yield ""
        yield "Single numbers of figures, which `compare` shows, and `check` limits where an example stands:"
        yield ""
        yield "| name | what it is | limit |"
        yield "|---|---|---|"
        for _, value in numbers:
            yield f"| `{value.name}` | {value.words} | {f'`{value.limit}`' if value.limit else ''} |"
    yield ""
    yield "## Of a mode of a profile"
    yield ""
    yield "| in the report | called | what it is |"
    yield "|---|---|---|"
    for mode_figure in MODE_FIGURES.values():
        yield f"| `profile.modes.<mode>.{mode_figure.name}` | {mode_figure.label} | {mode_figure.meaning} |"


def text() -> str:
    """The whole page."""
    return "\n".join(lines()) + "\n"


if __name__ == "__main__":
    PAGE.write_text(text(), "utf-8")
