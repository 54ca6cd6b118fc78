"""The timelines as a still picture, of the data that plotly will draw: for the time before it can."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import groupby
from typing import Final

from markupsafe import Markup

from ..plotting import Figure, css_px
from .heat_strip import FAINTEST
from .rectangles import Trace

_WIDE: Final = 4_000
"""Units of the picture's width; as many pixels as it is stretched to."""
_LEAST: Final = 3
"""Units that the shortest rectangle is wide: about a pixel."""
_SHADES: Final = 8
"""Of a heat strip, so that neighbouring columns become one rectangle."""


def still(light: Figure, dark: Figure, height_px: int) -> Markup:
    """Lanes and gaps, their labels and the bands' titles, as wide as the page has room and as high as the figure.

    The two are the same but for their colours.
    """
    layout = light["layout"]
    margin = layout["margin"]
    low, high = layout["xaxis"]["range"]
    height = height_px - margin["t"] - margin["b"]
    scale = _WIDE / (high - low)
    paths: dict[tuple[str, float], list[str]] = defaultdict(list)
    for trace, in_dark in zip(light["data"], dark["data"], strict=True):
        for shade, x, length, top, tall in _rects(trace):
            left, right = max(0, round((x - low) * scale)), min(_WIDE, round((x + length - low) * scale))
            if left <= right:
                look = _color(trace, in_dark), shade
                paths[look].append(f"M{left} {top:g}h{max(right - left, _LEAST)}v{tall:g}H{left}z")
    drawn = [
        Markup('<path style="fill:{}" opacity="{:.2g}" d="{}"/>').format(color, opacity, "".join(corners))
        for (color, opacity), corners in paths.items()
    ]
    lanes = Markup('<svg viewBox="0 0 {} {}" preserveAspectRatio="none" style="height:{}">{}</svg>').format(
        _WIDE, height, css_px(height), Markup().join(drawn)
    )
    return Markup('<div class="still" aria-hidden="true" style="height:{};padding:{} {} 0 {}">{}{}</div>').format(
        *map(css_px, (height_px, margin["t"], margin["r"], margin["l"])), lanes, Markup().join(_over(light))
    )


def _color(light: Trace, dark: Trace) -> str:
    """Of a trace of bars or a heat strip, at its darkest."""
    pair = [each["marker"]["color"] if each["type"] == "bar" else each["colorscale"][1][1] for each in (light, dark)]
    return f"light-dark({pair[0]},{pair[1]})"


def _rects(trace: Trace) -> Iterator[tuple[float, float, float, float, float]]:
    """What a trace of bars or a heat strip fills: opacity; start and length on the axis; top and height in pixels."""
    if trace["type"] == "heatmap":
        yield from _columns(trace)
    elif trace["type"] == "bar" and "pattern" not in trace["marker"]:
        opacity = trace["marker"].get("opacity", 1)
        widths = trace["width"] if isinstance(trace["width"], list) else [trace["width"]] * len(trace["x"])
        for base, length, middle, width in zip(trace["base"], trace["x"], trace["y"], widths, strict=True):
            yield opacity, base, length, middle - width / 2, width


def _columns(trace: Trace) -> Iterator[tuple[float, float, float, float, float]]:
    """A heat strip's columns, those of one shade in a row as one."""
    top, bottom = trace["y"]
    left = trace["x0"] - trace["dx"] / 2
    place = 0
    for shade, run in groupby(None if z is None else round(z * _SHADES) for z in trace["z"][0]):
        count = len(list(run))
        if shade is not None:
            opacity = FAINTEST + (1 - FAINTEST) * shade / _SHADES
            yield opacity, left + place * trace["dx"], count * trace["dx"], top, bottom - top
        place += count


def _over(figure: Figure) -> Iterator[Markup]:
    """Hatching over the lanes, titles above and labels left of them: plotly's texts are escaped already."""
    layout = figure["layout"]
    margin, axis = layout["margin"], layout["yaxis"]
    for trace in figure["data"]:
        if trace["type"] == "bar" and "pattern" in trace["marker"]:
            for middle, width in zip(trace["y"], trace["width"], strict=True):
                yield Markup('<i style="top:{};height:{};left:{};right:{}"></i>').format(
                    *map(css_px, (margin["t"] + middle, width, margin["l"], margin["r"]))
                )
    for each in layout["annotations"]:
        yield Markup('<p style="top:{};left:{}">{}</p>').format(
            css_px(margin["t"] + each["y"]), css_px(margin["l"]), Markup(each["text"])
        )
    for middle, label in zip(axis["tickvals"], axis["ticktext"], strict=True):
        yield Markup('<span style="top:{};width:{}">{}</span>').format(
            css_px(margin["t"] + middle), css_px(margin["l"] - 6), Markup(label)
        )
