"""Colours: told apart by people with any kind of colour vision, readable on light and on dark paper.

Causes and series are Okabe and Ito's palette (https://jfly.uni-koeln.de/color/); text has a contrast of at least
4.5 to its paper (WCAG 2.2, 1.4.3).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from ..analysis.model.document import CAUSES

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
