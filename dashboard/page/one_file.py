"""The whole story as one HTML file: opens with a double click, loads nothing, runs nothing but what is in it.

The figures are those of the dashboard, drawn by plotly's own script. A Content-Security-Policy in the file admits that
script and ours by their hashes, no eval and no request.
"""

from __future__ import annotations

import base64
import hashlib
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import jinja2
import msgspec
import plotly  # type: ignore[import-untyped]
from markupsafe import Markup

from ...analysis.model.units import MISSING, number, plural, printable
from ..band import Band
from ..charts.bound_chart import bound_figure, chart_rem
from ..charts.durations_chart import durations_figure
from ..charts.idle_chart import idle_figure
from ..grid_table import Row, TableData
from ..opened_report import OpenedReport, open_bands
from ..plotting import DARK, LIGHT, Theme
from ..timeline.stage import DRAWN_BESIDE
from ..timeline.timeline import Figure, collective_legend, legend_items, timeline_figure
from ..view import Align, View
from . import cards
from .sections import graph_sections
from .tables import TABLES, table, table_names

if TYPE_CHECKING:
    from ...analysis.report import Report

MOST_BYTES: Final = 7_900_000
"""Of the file; mail servers take 10 MB, a third of it spent on their encoding."""

LEAST_ROOM: Final = 500_000
"""Bytes of timelines however large the rest is."""

MOST_ROWS: Final = 500
"""Of one table."""

_LONG: Final = 60
"""Characters from which a cell may break anywhere."""

_MOST_NAME: Final = 150
"""Characters of a name; the rest is in its tooltip."""

_MOST_TEXT: Final = 1_000
"""Characters of any cell and tooltip: a file may hold names of megabytes."""

FOLDER: Final = Path(__file__).parents[1] / "one_file"
ASSETS: Final = FOLDER.parent / "assets"
CHARTS: Final[Mapping[str, tuple[str, Callable[[OpenedReport, Theme], Figure]]]] = {
    "idle": ("Idle time by cause", idle_figure),
    "durations": ("Kernel durations against τ", durations_figure),
    "bound": ("The bound", bound_figure),
}
_DARK_RULE: Final = re.compile(r'\[data-theme="dark"\] (\{[^}]*\})')


@dataclass(frozen=True)
class Column:
    """``kind``: an attribute of its cells, or nothing."""

    title: str
    kind: Markup


@dataclass(frozen=True)
class Cell:
    """``hint``: what a tooltip says."""

    text: str
    kind: Markup
    hint: str


@dataclass(frozen=True)
class PlainTable:
    """A table as it stands in the file."""

    name: str
    count: str
    note: str | None
    columns: list[Column]
    rows: list[list[Cell]]

    @property
    def is_open(self) -> bool:
        return self.name == next(iter(TABLES))


def render(report: Report) -> str:
    """The file; at most 8 MB unless the tables alone need more."""
    opened = open_bands(report)
    bands = opened.shown_first
    labels = {band.key: band.label for band in bands}
    words = {
        "opened": opened,
        "version": report.document.launchscope,
        "machine": cards.machine(opened),
        "sentence": cards.sentence(opened),
        "notes": cards.notes(opened),
        "next_steps": cards.next_steps(opened),
        "cards": cards.cards(opened),
        "graph_doctor": graph_sections(opened),
        "legend": legend_items(LIGHT),
        "collectives": collective_legend(bands),
        "chart_rem": chart_rem(opened),
        "charts": [(name, title) for name, (title, _) in CHARTS.items()],
        "tables": [plain_table(name, table(name, opened, bands), labels) for name in table_names(opened, bands)],
    }
    charts = {name: {t.name: draw(opened, t) for t in (LIGHT, DARK)} for name, (_, draw) in CHARTS.items()}
    empty = Timelines((), (), (), 0)
    rest = len(_page(words, empty, charts).encode())
    return _page(words, timelines(bands, max(MOST_BYTES - rest, LEAST_ROOM)), charts)


def _page(words: Mapping[str, Any], drawn: Timelines, charts: Mapping[str, Any]) -> str:
    data = {
        "timelines": {"time": [each.levels for each in drawn.time], "step": [each.levels for each in drawn.step]},
        "dark": drawn.dark,
        "charts": charts,
    }
    scripts = (plotly_script(), (FOLDER / "report.js").read_text("utf-8"))
    return _template().render(
        words,
        policy=policy(scripts),
        style=Markup(_style()),
        data=Markup(json_in_html(data)),
        plotly=Markup(scripts[0]),
        script=Markup(scripts[1]),
        steps=len(drawn.time),
        kept_steps=max(drawn.kept_steps, 1),
        limits=list(_limits(words["opened"], drawn)),
    )


def plain_table(name: str, data: TableData, labels: Mapping[str, str]) -> PlainTable:
    """The first MOST_ROWS rows as text; ``labels``: key of a band → how people call it, with one only left out."""
    total = len(data.rows)
    count = f"the first {number(MOST_ROWS)} of {plural(total, 'row')}" if total > MOST_ROWS else plural(total, "row")
    columns = [each for each in data.columns if each["field"] != "band" or len(labels) > 1]
    rows = [[_cell(row, column, labels) for column in columns] for row in data.rows[:MOST_ROWS]]
    return PlainTable(name, count, data.note, [Column(each["headerName"], _kind(each)) for each in columns], rows)


def _cell(row: Row, column: Mapping[str, Any], labels: Mapping[str, str]) -> Cell:
    value = row.get(column["field"])
    if value is None:
        return Cell(MISSING, _kind(column), "")
    if not isinstance(value, str):
        return Cell(f"{value:,.{column['context']['decimals']}f}", _kind(column), "")
    if column["field"] == "band":
        return Cell(labels[value], _kind(column), "")
    if "tooltipField" not in column:
        return Cell(_cut(value, _MOST_TEXT), _kind(column, value), "")
    whole, text = str(row[column["tooltipField"]]), _cut(value, _MOST_NAME)
    return Cell(text, _kind(column, text), "" if whole == text else _cut(whole, _MOST_TEXT))


def _cut(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most - 1]}…"


def _kind(column: Mapping[str, Any], text: str = "") -> Markup:
    if "context" in column:
        return Markup("")
    return Markup(' class="text long"') if len(text) > _LONG else Markup(' class="text"')


def _limits(opened: OpenedReport, drawn: Timelines) -> Iterator[str]:
    """What is not in the file."""
    if len(opened.first) < len(opened.bands):
        yield f"{number(len(opened.first))} of {plural(len(opened.bands), 'recording')} are in this file."
    shown = len(drawn.time)
    if shown < drawn.kept_steps:
        yield f"The first {plural(shown, 'step')} of {number(drawn.kept_steps)} are in this file."
    if not drawn.is_complete:
        yield "Where a lane stays a strip at any zoom, the file had no room: launchscope dashboard shows everything."


def json_in_html(value: object) -> str:
    """JSON that can't end the element it stands in."""
    return msgspec.json.encode(value).decode().replace("<", "\\u003c")


def policy(scripts: Iterable[str]) -> str:
    """Nothing from anywhere, no eval, and no script but these."""
    digests = (hashlib.sha256(script.encode()).digest() for script in scripts)
    hashes = " ".join(f"'sha256-{base64.b64encode(digest).decode()}'" for digest in digests)
    return "; ".join(
        [
            "default-src 'none'",
            f"script-src {hashes}",
            "style-src 'unsafe-inline'",  # plotly styles its elements
            "img-src data: blob:",  # its picture of a chart
            "base-uri 'none'",
            "form-action 'none'",
        ]
    )


@cache
def plotly_script() -> str:
    """plotly.js, whole, as the plotly package carries it."""
    return (Path(plotly.__file__).parent / "package_data" / "plotly.min.js").read_text("utf-8")


def _style() -> str:
    """The dashboard's look; where no script sets a theme, the system's."""
    style = (ASSETS / "dashboard.css").read_text("utf-8")
    found = _DARK_RULE.search(style)
    assert found is not None, "dashboard.css has a rule for the dark theme"
    dark = f"@media (prefers-color-scheme: dark) {{ :root:not([data-theme]) {found[1]} }}\n"
    return style + dark + (FOLDER / "report.css").read_text("utf-8")


@cache
def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, undefined=jinja2.StrictUndefined, finalize=_shown
    )
    return environment.from_string((FOLDER / "report.html.jinja").read_text("utf-8"))


def _shown(value: object) -> object:
    """Foreign text without characters that draw nothing or move the text around them."""
    return printable(value) if isinstance(value, str) and not isinstance(value, Markup) else value


WIDTH_PX: Final = 1_200
"""For which the figures are made; the page stretches them."""

MOST_STEPS: Final = 32
OVERVIEWS: Final = 0.4
"""Share of the room that overviews may take: beyond it a step has no place."""

PARTS: Final = 8
"""Into which a level divides the windows of the level above."""

_ALIGNS: Final[tuple[Align, ...]] = ("time", "step")
_LEVELS: Final[tuple[Align, ...]] = ("step", "time", "step", "time")
"""Which scale of a step gets one level more, in turn, once every step has one of the scale that is shown first."""

Range = tuple[float, float]
Differing = dict[str, Any]
"""Entries of a layout or of a trace that the dark theme changes, as it has them."""


@dataclass(frozen=True)
class Piece:
    """A figure of a part of a step; ``x``: what of the axis it draws."""

    x: Range
    packed: str


@dataclass
class StepPieces:
    """A step in one scale."""

    levels: list[list[Piece]]  # the overview, then windows from left to right, ever finer
    crowded: list[Range]  # windows of the last level in which lanes are strips


@dataclass(frozen=True)
class Timelines:
    """The steps that there was room for. A trace's ``style`` is its place in ``dark``."""

    time: Sequence[StepPieces]
    step: Sequence[StepPieces]
    dark: Sequence[Differing]
    kept_steps: int

    @property
    def is_complete(self) -> bool:
        """Whether every zoom ends at true rectangles."""
        return not any(each.crowded for each in (*self.time, *self.step))


def timelines(bands: Sequence[Band], room: int) -> Timelines:
    """The bands in every step, in ``room`` bytes; the first step takes what it needs."""
    drawn = _Drawn(bands)
    steps: dict[Align, list[StepPieces]] = {align: [] for align in _ALIGNS}
    kept = max((len(band.step_windows) for band in bands), default=0)
    left = room
    for step in range(min(kept, MOST_STEPS) or 1):
        overviews = {align: drawn.overview(step, align) for align in _ALIGNS}
        left -= sum(_size(each.levels[0]) for each in overviews.values())
        if step and left < room * (1 - OVERVIEWS):
            break
        for align, made in overviews.items():
            steps[align].append(made)
    wanted: list[tuple[int, Align]] = [(step, "time") for step in range(len(steps["time"]))]
    wanted += [(step, align) for step in range(len(steps["time"])) for align in _LEVELS]
    for step, align in wanted:
        left -= drawn.refine(steps[align][step], step, align, left)
    return Timelines(steps["time"], steps["step"], drawn.dark, kept)


def differing(light: Figure, dark: Figure) -> Differing:
    """What to put over ``light`` to have ``dark``."""
    return {name: value for name, value in dark.items() if name not in light or light[name] != value}


class _Drawn:
    """Figures of these bands, and the styles that have come up in them."""

    def __init__(self, bands: Sequence[Band]) -> None:
        self._bands = bands
        self._styles: dict[tuple[str, ...], int] = {}
        self.dark: list[Differing] = []

    def overview(self, step: int, align: Align) -> StepPieces:
        """The whole step, with the layout that its windows share."""
        view = View(step=step, align=align)
        light, dark = (timeline_figure(self._bands, view, theme, WIDTH_PX) for theme in (LIGHT, DARK))
        layouts = {"layout": light["layout"], "dark": differing(light["layout"], dark["layout"])}
        shown = tuple(light["layout"]["xaxis"]["range"])
        piece = Piece(_with_margins(shown), _packed(layouts | {"data": self._styled(light, view)}))
        return StepPieces([[piece]], [shown] if _has_strips(light) else [])

    def refine(self, made: StepPieces, step: int, align: Align, room: int) -> int:
        """Add a level, of what is crowded in the last one, and tell its size; nothing where it needs more room."""
        pieces, crowded = [], []
        for window in (part for each in made.crowded for part in _parts(each)):
            view = View(step=step, align=align, x=window)
            figure = timeline_figure(self._bands, view, LIGHT, WIDTH_PX)
            pieces.append(Piece(_with_margins(window), _packed({"data": self._styled(figure, view)})))
            if _has_strips(figure):
                crowded.append(window)
            if _size(pieces) > room:
                return 0
        if pieces:
            made.levels.append(pieces)
            made.crowded = crowded
        return _size(pieces)

    def _styled(self, light: Figure, view: View) -> list[Figure]:
        """The figure's traces with their ``style``. Traces of one type, name and set of entries look the same."""
        kinds = [(trace["type"], trace["name"], *sorted(trace)) for trace in light["data"]]
        if not self._styles.keys() >= set(kinds):
            dark = timeline_figure(self._bands, view, DARK, WIDTH_PX)
            for kind, in_light, in_dark in zip(kinds, light["data"], dark["data"], strict=True):
                if kind not in self._styles:
                    self._styles[kind] = len(self.dark)
                    self.dark.append(differing(in_light, in_dark))
        return [trace | {"style": self._styles[kind]} for kind, trace in zip(kinds, light["data"], strict=True)]


def _has_strips(figure: Figure) -> bool:
    return any(trace["type"] == "heatmap" for trace in figure["data"])


def _parts(window: Range) -> Iterator[Range]:
    low, high = window
    edges = [low + (high - low) * place / PARTS for place in range(PARTS + 1)]
    yield from pairwise(edges)


def _with_margins(view: Range) -> Range:
    """What a figure of this view draws."""
    beside = (view[1] - view[0]) * DRAWN_BESIDE
    return view[0] - beside, view[1] + beside


def _packed(content: Figure) -> str:
    return base64.b64encode(zlib.compress(msgspec.json.encode(content))).decode("ascii")


def _size(pieces: Sequence[Piece]) -> int:
    return sum(len(piece.packed) for piece in pieces)
