"""Figures for wide pages: what is measured in pixels grows with the page, as its other text does."""

from __future__ import annotations

from typing import Any, Final

from .plotting import Figure

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
