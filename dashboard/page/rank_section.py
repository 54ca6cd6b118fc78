"""The part of the page about ranks: the heat map, which of them are shown below it, and what their clocks are."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from dash import Dash, Input, Output, dcc, html, no_update

from ..opened_report import OpenedReport
from ..plotting import STILL_PX, css_px, theme_named
from ..rank_heat import heat_figure, heat_words, height_px
from ..rank_sets import FIGURE_WORDS, RankSet
from ..view import View, from_query
from .actions import shown_cells
from .figure_tables import clock_words
from .panels import choice, in_browser, labelled, still_graph
from .server import Width

RANK_CONTROLS: Final = {"heat": "heat-of", "ranks": "ranks-of", "rank_a": "rank-a", "rank_b": "rank-b"}
"""Control → its component."""

_LABEL: Final = "Heat map of ranks and steps; the two lists below it choose a rank by keyboard, the timelines its step"


def ranks_section(opened: OpenedReport, view: View, values: Mapping[str, Any]) -> list[html.Section]:
    """None where nothing has several ranks. The heat map comes when the timelines are painted."""
    chosen = opened.rank_set(view.ranks)
    if chosen is None:
        return []
    modes = [(each.key, each.label) for each in opened.rank_sets]
    figures = [(name, FIGURE_WORDS[name]) for name in chosen.figures]
    height = max(height_px(len(each.bands)) for each in opened.rank_sets)
    return [
        html.Section(
            [
                html.H2("Ranks"),
                html.Div(
                    [
                        _modes(modes, values["ranks"]),
                        choice("heat-of", figures, values["heat"], "Colour"),
                    ],
                    className="controls",
                ),
                html.Div(id="heat-frame", className="heat-frame", style={"minHeight": css_px(height)}),
                html.Div(_notes(chosen, view, STILL_PX), id="ranks-note", className="muted", role="status"),
                html.Div(
                    [_picker("Timeline of", "rank-a", chosen, values["rank_a"]),
                     _picker("beside", "rank-b", chosen, values["rank_b"])],
                    className="controls pickers",
                ),
            ],
            className="ranks",
        )
    ]  # fmt: skip


def _modes(modes: list[tuple[str, str]], value: str) -> html.Div:
    """Of which mode; not to be seen where there is one."""
    chosen = choice("ranks-of", modes, value, "Of")
    return chosen if len(modes) > 1 else html.Div(chosen, style={"display": "none"})


def _picker(label: str, name: str, chosen: RankSet, value: str | None) -> html.Div:
    return labelled(label, name, dcc.Dropdown(id=name, options=_options(chosen), value=value, placeholder="a rank"))


def _options(chosen: RankSet) -> list[dict[str, str]]:
    pairs = zip(chosen.bands, chosen.labels, strict=True)
    return [{"value": band.key, "label": label} for band, label in pairs]


def _notes(chosen: RankSet, view: View, width_px: int) -> list[html.P]:
    sentences = [
        "A click on a cell shows that rank's timeline at that step.",
        *heat_words(chosen.heat(chosen.figure(view.heat)), width_px),
        *([] if chosen.in_step else [_apart(chosen)]),
    ]
    return [html.P(" ".join([*sentences, *_in_part(chosen)])), html.P(clock_words(chosen))]


def _in_part(chosen: RankSet) -> Iterator[str]:
    """What is not known of waiting, as ranks are missing."""
    sizes = {(len(group.members), group.size) for group in chosen.matching.groups if not group.whole}
    for given, size in sorted(sizes, key=str):
        yield f"Only {given} of the {size} ranks of a process group are here: they may have waited longer than is told."


def _apart(chosen: RankSet) -> str:
    """Why the n-th step of one rank's timeline is not that of another's."""
    if not len(chosen.matching.steps.places):
        return "The ranks have no step in common."
    return (
        "The recordings don't hold the same steps: here those of one number stand below one another, while a timeline "
        "counts its own from 1, so that the same step has another place on each rank."
    )


def register_ranks(app: Dash, opened: OpenedReport) -> None:
    """The heat map and what stands below it."""
    in_browser(app, "same", Output("heat-click", "data"), Input("heat", "clickData"))

    @app.callback(
        Output("heat-frame", "children"),
        Output("ranks-note", "children"),
        Output("rank-a", "options"),
        Output("rank-b", "options"),
        Input("ranks-view", "data"),
        Input("scheme", "data"),
        Input("width", "data"),
        Input("painted", "data"),
    )
    def draw(query: str | None, scheme: str | None, width: Width, painted: bool | None) -> tuple[Any, ...]:
        view = from_query(query or "")
        chosen = opened.rank_set(view.ranks)
        if not painted or chosen is None:
            return (no_update,) * 4
        theme = theme_named(view.theme or scheme)
        figure = heat_figure(chosen.heat(chosen.figure(view.heat)), theme, width, shown_cells(opened, view))
        options = _options(chosen)
        return still_graph("heat", figure, width, _LABEL), _notes(chosen, view, width), options, options
