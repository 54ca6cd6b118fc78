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
    parts: dict[str, str] = {}
    if view.bands:
        parts["bands"] = ",".join(view.bands)
    if view.step:
        parts["step"] = str(view.step)
    if view.x is not None:
        parts["x"] = f"{view.x[0]:.9g},{view.x[1]:.9g}"
    if view.align != "time":
        parts["align"] = view.align
    if view.search:
        parts["search"] = view.search
    if view.selected is not None:
        parts["op"] = f"{view.selected[0]},{view.selected[1]}"
    if view.overlays:
        parts["overlays"] = ",".join(view.overlays)
    if any(view.compare):
        parts["compare"] = ",".join(view.compare)
    if view.heat != "period":
        parts["heat"] = view.heat
    if view.ranks:
        parts["ranks"] = view.ranks
    parts |= {name: f"{value:.6g}" for name, value in view.knobs.items()}
    if view.theme is not None:
        parts["theme"] = view.theme
    return "?" + urlencode(parts, safe=",") if parts else ""


def from_query(query: str) -> View:
    """The view of a query. A part that can't be read is at its default: people edit URLs, and programs cut them."""
    try:
        parts = dict(parse_qsl(query.removeprefix("?"), max_num_fields=50, errors="replace"))
    except ValueError:
        parts = {}
    selected = _pair(parts.get("op", ""))
    align, heat, theme = (parts.get(name) for name in ("align", "heat", "theme"))
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
        theme="dark" if theme == "dark" else "light" if theme == "light" else None,
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
