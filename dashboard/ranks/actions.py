"""The view after an action of the user on the ranks."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import msgspec

from ..opened_report import OpenedReport
from ..rank_heat import cell_at
from ..rank_sets import RankSet
from ..view import View


def view_after_on_ranks(opened: OpenedReport, view: View, name: str, values: Mapping[str, Any]) -> View:
    """The view after what was done with the control of this name; the same one where that changes nothing."""
    chosen = opened.rank_set(view.ranks)
    if chosen is None:
        return view
    change = msgspec.structs.replace
    match name:
        case "heat":
            return change(view, heat=values["heat"])
        case "ranks":
            first = opened.rank_sets[0].key
            return change(view, ranks="" if values["ranks"] == first else values["ranks"])
        case "heat_click":
            return _clicked(chosen, view, values["heat_click"])
        case _:
            keys = [key for key in dict.fromkeys((values["rank_a"], values["rank_b"])) if key]
            return change(view, bands=tuple(keys))


def _clicked(chosen: RankSet, view: View, click: Any) -> View:
    """The step of the cell. Where its rank is one of two that are shown both stay; else it alone."""
    cell = cell_at(chosen.heat(chosen.figure(view.heat)), click)
    if cell is None:
        return view
    rank, column = cell
    step = chosen.step_of(rank, column)
    key = chosen.bands[rank].key
    if step is None:
        return view
    bands = view.bands if key in view.bands and len(view.bands) == 2 else (key,)
    return msgspec.structs.replace(view, bands=bands, step=step, x=None)


def rank_controls(opened: OpenedReport, view: View) -> dict[str, Any]:
    """What the controls of the ranks show: two ranks where they are the first that are shown."""
    chosen = opened.rank_set(view.ranks)
    assert chosen is not None
    shown = [band.key for band in opened.chosen(view.bands) if chosen.place(band.key) is not None]
    return {
        "heat": chosen.figure(view.heat),
        "ranks": chosen.key,
        "rank_a": shown[0] if shown else None,
        "rank_b": shown[1] if len(shown) > 1 else None,
    }


def shown_cells(opened: OpenedReport, view: View) -> list[tuple[int, int]]:
    """Row and column of the heat map of each timeline that is shown."""
    chosen = opened.rank_set(view.ranks)
    if chosen is None:
        return []
    places = [chosen.place(band.key) for band in opened.chosen(view.bands)]
    cells = [(place, chosen.column_of(place, view.step)) for place in places if place is not None]
    return [(place, column) for place, column in cells if column is not None]
