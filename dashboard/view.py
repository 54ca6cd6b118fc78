"""The whole state of the page, as its URL holds it: a colleague who opens the link sees the same."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Final, Literal, get_args
from urllib.parse import parse_qsl, urlencode

import msgspec

Align = Literal["time", "step", "clock"]
Theme = Literal["light", "dark"]
Overlay = Literal["queue", "idle"]
HeatOf = Literal["period", "busy", "waiting"]

_MOST_TEXT: Final = 200  # characters of a search
_MOST_BANDS: Final = 32
_KNOBS: Final = ("tau", "bandwidth", "kernels", "batch", "weights")


class View(msgspec.Struct, frozen=True, kw_only=True):
    """What is shown. ``x`` are µs since the start of the step, or shares of it where steps are stretched; null: all.

    With ``align`` at "clock" ranks that share a clock begin with the first one's step.
    """

    bands: tuple[str, ...] = ()  # keys, in order; none: those shown first
    step: int = 0  # of the kept ones
    x: tuple[float, float] | None = None
    align: Align = "time"
    search: str = ""
    selected: tuple[str, int] | None = None  # band, row of its GPU ops
    overlays: tuple[Overlay, ...] = ()
    compare: tuple[str, str] = ("", "")  # bands; empty where none is chosen
    knobs: Mapping[str, float] = {}  # of the model, as factors of what was measured: tau, bandwidth, kernels, …
    heat: HeatOf = "period"  # what of ranks × steps the colours are
    ranks: str = ""  # of which mode; empty: the first
    theme: Theme | None = None  # null: the system's


def to_query(view: View) -> str:
    """The view as the query of a URL, with a leading '?'; what is at its default is left out."""
    parts = {
        "bands": ",".join(view.bands),
        "step": str(view.step or ""),
        "x": "" if view.x is None else f"{view.x[0]:.9g},{view.x[1]:.9g}",
        "align": "" if view.align == "time" else view.align,
        "search": view.search,
        "op": "" if view.selected is None else f"{view.selected[0]},{view.selected[1]}",
        "overlays": ",".join(view.overlays),
        "compare": ",".join(view.compare) if any(view.compare) else "",
        "heat": "" if view.heat == "period" else view.heat,
        "ranks": view.ranks,
        **{name: f"{value:.6g}" for name, value in view.knobs.items()},
        "theme": view.theme or "",
    }
    return query_of(parts)


def query_of(parts: Mapping[str, str]) -> str:
    """The query of a URL, without the parts that are empty."""
    there = {name: text for name, text in parts.items() if text}
    return "?" + urlencode(there, safe=",") if there else ""


def parts_of(query: str) -> dict[str, str]:
    """The parts of a query; none of one that can't be read."""
    try:
        return dict(parse_qsl(query.removeprefix("?"), max_num_fields=50, errors="replace"))
    except ValueError:
        return {}


def theme_of(parts: Mapping[str, str]) -> Theme | None:
    """The theme that a query names."""
    theme = parts.get("theme")
    return "dark" if theme == "dark" else "light" if theme == "light" else None


def from_query(query: str) -> View:
    """The view of a query. A part that can't be read is at its default: people edit URLs, and programs cut them."""
    parts = parts_of(query)
    selected = _pair(parts.get("op", ""))
    align, heat = parts.get("align"), parts.get("heat")
    return View(
        bands=tuple(dict.fromkeys(filter(None, parts.get("bands", "").split(","))))[:_MOST_BANDS],
        step=_whole(parts.get("step", "")) or 0,
        x=_range(parts.get("x", "")),
        align="step" if align == "step" else "clock" if align == "clock" else "time",
        search=parts.get("search", "")[:_MOST_TEXT],
        selected=None if selected is None or (row := _whole(selected[1])) is None else (selected[0], row),
        overlays=tuple(name for name in get_args(Overlay) if name in parts.get("overlays", "").split(",")),
        compare=_two(parts.get("compare", "")),
        knobs={name: value for name in _KNOBS if (value := _positive(parts.get(name, ""))) is not None},
        heat="busy" if heat == "busy" else "waiting" if heat == "waiting" else "period",
        ranks=parts.get("ranks", "")[:_MOST_TEXT],
        theme=theme_of(parts),
    )


def _pair(text: str) -> tuple[str, str] | None:
    left, comma, right = text.partition(",")
    return (left, right) if comma and left and right and "," not in right else None


def _two(text: str) -> tuple[str, str]:
    left, _, right = text.partition(",")
    return ("", "") if "," in right else (left, right)


def _whole(text: str) -> int | None:
    return int(text) if text.isascii() and text.isdigit() and len(text) < 12 else None


def _number(text: str) -> float | None:
    try:
        value = float(text)
    except ValueError:
        return None
    return value if math.isfinite(value) and abs(value) < 1e15 else None


def _positive(text: str) -> float | None:
    value = _number(text)
    return value if value is not None and value > 0 else None


def _range(text: str) -> tuple[float, float] | None:
    pair = _pair(text)
    if pair is None:
        return None
    low, high = _number(pair[0]), _number(pair[1])
    return (low, high) if low is not None and high is not None and low < high else None
