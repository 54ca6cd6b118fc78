"""What every chart shares: the layout of a theme, time axes in words, and foreign text made harmless.

A figure is plotly's JSON as plain dicts. Plotly reads a little markup in every text, so foreign text is escaped.
"""

from __future__ import annotations

import html
import math
import textwrap
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ..analysis.model.document import CAUSES
from ..analysis.model.units import duration, one_line, printable

Figure = dict[str, Any]

FONT: Final = "system-ui, -apple-system, 'Segoe UI', Roboto, 'Noto Sans', sans-serif"
TEXT_PX: Final = 13
_SUBTITLE_EM: Final = 0.87  # of the title
NS_PER_US: Final = 1e3
HATCHES: Final = ("/", "\\", "x", "-", "|", "+", ".")

_MOST_NAME: Final = 28  # characters of a foreign name inside a chart
_MOST_WORDS: Final = 90  # of a foreign sentence
_MOST_LINE: Final = 86  # of a row's words on one line, in the narrowest chart beside another one
_FEW_TICKS: Final = 3
_FINE_TICKS: Final = 6  # at most, on an axis too short for round figures of a decade

ROW_TOP: Final = -0.02
"""Top of what is drawn in a row, from the row's middle; above it two lines of words have room."""

ROW_BOTTOM: Final = -0.45


def escaped(text: str) -> str:
    """Foreign text as plotly shows it letter by letter."""
    return html.escape(printable(text), quote=False)


def clipped(text: str, most: int = _MOST_NAME) -> str:
    """A foreign name that fits a chart, escaped; a long one loses its middle."""
    half = most // 2
    return escaped(text if len(text) <= most else f"{text[: half - 1]}…{text[-half:]}")


def reason(text: str) -> str:
    """A sentence that says why something is absent, escaped; a long one loses its end."""
    line = one_line(text)
    return escaped(line if len(line) <= _MOST_WORDS else f"{line[: _MOST_WORDS - 1]}…")


def layout(theme: Theme, title: str, subtitle: str = "", **more: Any) -> dict[str, Any]:
    """The layout of a figure in this theme: a title that says what it is, a legend below."""
    below = f"<br><span style='font-size:{_SUBTITLE_EM}em;color:{theme.muted}'>{subtitle}</span>" if subtitle else ""
    heading = {
        "text": title + below,
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": 1,
        "yref": "container",
        "yanchor": "top",
        "pad": {"t": 24 if subtitle else 8},  # plotly lifts a second line above the top
        "font": {"size": TEXT_PX + 2, "color": theme.ink},
    }
    legend = {"orientation": "h", "x": 0, "xref": "paper", "y": 0, "yref": "container", "yanchor": "bottom"}
    return {
        "title": heading,
        "font": {"family": FONT, "size": TEXT_PX, "color": theme.ink},
        "paper_bgcolor": theme.paper,
        "plot_bgcolor": theme.panel,
        "margin": {"l": 16, "r": 16, "t": 54 if subtitle else 36, "b": 72},
        "hoverlabel": {
            "bgcolor": theme.paper,
            "bordercolor": theme.muted,
            "align": "left",
            "font": {"family": FONT, "size": TEXT_PX, "color": theme.ink},
        },
        "legend": {**legend, "font": {"size": TEXT_PX}, "traceorder": "normal", "itemsizing": "constant"},
        "dragmode": "zoom",
        **more,
    }


def axis(theme: Theme, title: str = "", **more: Any) -> dict[str, Any]:
    """One axis; its ticks keep their room."""
    return {
        "title": {"text": title, "standoff": 6, "font": {"size": TEXT_PX}},
        "gridcolor": theme.grid,
        "linecolor": theme.muted,
        "zeroline": False,
        "tickfont": {"size": TEXT_PX - 1},
        "automargin": True,
        **more,
    }


def rows_axis(theme: Theme, rows: int) -> dict[str, Any]:
    """A y axis of rows, the first on top: row i reaches from −i − 0.5 to −i + 0.5."""
    return axis(theme, visible=False, range=[-max(rows, 1) + 0.45, 0.55], fixedrange=True)


def row_text(theme: Theme, row: int, text: str) -> dict[str, Any]:
    """The words of a row, on what is drawn in it; long ones on two lines, the name on the first where that will do."""
    lines = textwrap.wrap(text, _MOST_LINE, break_long_words=False, break_on_hyphens=False)
    name, bold_end, words = text.partition("</b>")
    if len(lines) > 1 and bold_end and len(words) <= _MOST_LINE:
        lines = [name + bold_end, words.strip()]
    return {
        "text": "<br>".join(lines),
        "x": 0,
        "xref": "paper",
        "xanchor": "left",
        "y": -row + ROW_TOP,
        "yanchor": "bottom",
        "showarrow": False,
        "align": "left",
        "font": {"size": TEXT_PX, "color": theme.ink},
    }


def note(theme: Theme, text: str) -> dict[str, Any]:
    """Words in the middle of a chart that has nothing to draw."""
    where = {"x": 0.5, "xref": "paper", "y": 0.5, "yref": "paper", "showarrow": False}
    return {**where, "text": text, "font": {"size": TEXT_PX + 1, "color": theme.muted}}


def bold(text: str) -> str:
    """Escaped text of more weight."""
    return f"<b>{text}</b>"


def log_ticks(low_ns: float, high_ns: float, most: int = 10) -> list[float]:
    """Round times between two, ascending: 1, 2 and 5 of each decade, or the decades alone where those are many.

    Where two times are so near that they have few of these between them: at even distances.
    """
    first, last = math.floor(math.log10(low_ns)), math.ceil(math.log10(high_ns))
    for steps in ((1, 2, 5), (1,)):
        found = [
            step * 10.0**power
            for power in range(first, last + 1)
            for step in steps
            if low_ns * 0.999 <= step * 10.0**power <= high_ns * 1.001
        ]
        if len(found) < _FEW_TICKS:
            return even_ticks(low_ns, high_ns)
        if len(found) <= most:
            return found
    return found[:: math.ceil(len(found) / most)]


def even_ticks(low_ns: float, high_ns: float) -> list[float]:
    """At most seven: the multiples of a round time between two."""
    if high_ns <= low_ns:
        return [low_ns]
    power = 10.0 ** math.floor(math.log10((high_ns - low_ns) / _FINE_TICKS))
    step = next(times * power for times in (1, 2, 5, 10) if (high_ns - low_ns) / (times * power) <= _FINE_TICKS)
    return [number * step for number in range(math.ceil(low_ns / step), math.floor(high_ns / step) + 1)]


def tick_words(times_ns: Iterable[float]) -> list[str]:
    """Times as tick labels, without the zeros that a figure of three digits has: ``2 µs``."""
    return [_plain(duration(ns)) for ns in times_ns]


def _plain(text: str) -> str:
    figure, _, unit = text.partition(" ")
    return f"{figure.rstrip('0').rstrip('.') if '.' in figure else figure} {unit}".strip()


def hollow(theme: Theme, symbol: str, size: int = 11) -> dict[str, Any]:
    """A marker of something predicted: never filled."""
    return {"symbol": f"{symbol}-open", "size": size, "color": theme.predicted, "line": {"width": 2}}


def finite(values: Sequence[float | None]) -> list[float]:
    """The values that are there and can be drawn."""
    return [value for value in values if value is not None and math.isfinite(value)]


def empty(title: str, why: str, theme: Theme) -> Figure:
    """A chart that has nothing to draw, and why."""
    blank = axis(theme, visible=False)
    return {
        "data": [],
        "layout": layout(theme, title, xaxis=blank, yaxis=blank, annotations=[note(theme, reason(why))]),
    }


NATURAL_PX: Final = 1_800
"""Width of the timelines up to which figures are drawn in their own size. dashboard.css and report.js have it too."""

STILL_PX: Final = 1_200
"""Width of what is drawn before the browser has told its own; the page stretches it."""

MOST: Final = 1.8

_PIXELS: Final = {"size", "standoff", "xshift"}
_PIXELS_IN: Final = {"line": {"width"}, "margin": {"l", "r", "t", "b"}, "pad": {"t"}}


def scale_of(width_px: int) -> float:
    """How much larger figures are where the timelines are this wide."""
    return min(max(1.0, width_px / NATURAL_PX), MOST)


def css_px(length: float) -> str:
    """A length of a figure, as CSS: in the scale of the page."""
    return f"calc({length:g} * var(--figure-px))"


def enlarged(figure: Figure, scale: float) -> Figure:
    """The figure with its texts, lines, markers and margins in this scale; its axes and data are as they were."""
    if scale == 1:
        return figure
    larger: Figure = _enlarged("", figure, scale)
    return larger


def _enlarged(name: str, part: Any, scale: float) -> Any:
    if isinstance(part, list) and part and isinstance(part[0], dict):
        return [_enlarged(name, each, scale) for each in part]
    if not isinstance(part, dict):
        return part
    pixels = _PIXELS | _PIXELS_IN.get(name, set())
    return {
        key: round(value * scale, 1)
        if key in pixels and isinstance(value, (int, float))
        else _enlarged(key, value, scale)
        for key, value in part.items()
    }


_ORANGE, _SKY, _GREEN, _YELLOW = "#E69F00", "#56B4E9", "#009E73", "#F0E442"
_BLUE, _VERMILION, _PURPLE, _GREY = "#0072B2", "#D55E00", "#CC79A7", "#8A8A8A"

CAUSE_COLORS: Final[Mapping[str, str]] = {
    "host": _ORANGE,
    "launch": _VERMILION,
    "dispatch": _YELLOW,
    "sync": _PURPLE,
    "graph": _SKY,
    "device": _GREEN,
    "unlinked": _GREY,
    "skewed": "#B0B0B0",
}
assert set(CAUSE_COLORS) == set(CAUSES)


_AS_FAR_FROM_BOTH: Final = 0.179  # luminance with the same contrast to black and to white


@dataclass(frozen=True)
class Theme:
    """One set of colours."""

    name: str
    paper: str
    panel: str
    ink: str
    muted: str  # text of less weight
    grid: str
    accent: str  # what is selected
    kernel: str
    collective: str  # kernels that communicate with other GPUs
    copy: str  # memory copies and sets
    launch: str
    operator: str
    found: str  # what a search found
    measured: str
    predicted: str  # always dashed or hatched as well


LIGHT: Final = Theme(
    name="light",
    paper="#FFFFFF",
    panel="#F6F7F9",
    ink="#1B1F24",
    muted="#57606A",
    grid="#E1E4E8",
    accent="#B3005E",
    kernel=_BLUE,
    collective=_PURPLE,
    copy=_GREEN,
    launch=_VERMILION,
    operator="#9DB2BF",
    found="#F0E442",
    measured=_BLUE,
    predicted="#9A6700",
)
DARK: Final = Theme(
    name="dark",
    paper="#14171A",
    panel="#1D2125",
    ink="#E8EAED",
    muted="#A3ABB3",
    grid="#30363D",
    accent="#FF6FB5",
    kernel=_SKY,
    collective=_PURPLE,
    copy="#2BC79A",
    launch="#FF8A3D",
    operator="#5D6F7A",
    found="#F0E442",
    measured=_SKY,
    predicted=_ORANGE,
)


def luminance(color: str) -> float:
    """Of a colour as WCAG defines it, 0 to 1."""
    channels = [int(color[at : at + 2], 16) / 255 for at in (1, 3, 5)]
    red, green, blue = (c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels)
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def text_on(color: str) -> str:
    """Black or white, whichever is read better on this colour: one of them has a contrast of 4.5 to any."""
    return "#000000" if luminance(color) > _AS_FAR_FROM_BOTH else "#FFFFFF"


def theme_named(name: str | None) -> Theme:
    """The theme of this name; LIGHT for any other."""
    return DARK if name == DARK.name else LIGHT
