"""Controls with their labels, charts, what a click shows, and what a comparison tells, as components."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Final

from dash import ClientsideFunction, Dash, Input, Output, dcc, html

from ...analysis.model.units import duration
from ..opened_report import OpenedReport
from ..plotting import Figure, css_px, enlarged, scale_of
from ..view import View, to_query
from .actions import Op, follow_op
from .details import Details, Pair, details
from .sections import Section, compare_sections

GRAPH_CONFIG: Final[Any] = {"displaylogo": False, "responsive": True, "showTips": False}
STILL_CONFIG: Final[Any] = GRAPH_CONFIG | {"displayModeBar": False, "scrollZoom": False, "doubleClick": False}
MODEL_REM: Final = 24.0
"""Height of the model's charts."""


def chart(name: str, figure: Figure, height_rem: float, scale: float) -> dcc.Graph:
    """A chart that is made with its figure: an empty one takes a browser as long to draw."""
    larger = enlarged(figure, scale)
    return dcc.Graph(id=name, figure=larger, config=GRAPH_CONFIG, responsive=True, style={"height": f"{height_rem}rem"})


def still_graph(name: str, figure: Figure, width_px: int, label: str) -> html.Div:
    """A figure of its own height that can only be clicked; ``label`` says what it is to those who can't see it."""
    height = figure["layout"].pop("height")
    graph = dcc.Graph(
        id=name,
        figure=enlarged(figure, scale_of(width_px)),
        config=STILL_CONFIG,
        responsive=True,
        style={"height": css_px(height)},
    )
    return html.Div(graph, role="group", **named(label))


def details_panel(opened: OpenedReport, view: View) -> Any:
    """The selected GPU op: itself, its launch, its place, and its counterparts in the other modes."""
    if view.selected is None:
        return []
    found = details(opened, *view.selected)
    if found is None:
        return html.P("The link names a GPU op that is not in this report.", className="warning")
    parts = [
        _pairs("the op", found.op),
        _pairs("its launch", found.launch),
        _pairs("before it", found.gap),
        html.Div(
            [html.Strong("in other modes"), html.Ul([html.Li(each) for each in _counterparts(opened, found, view)])],
            className="wide",
        ),
    ]
    return html.Div([html.H3(found.short_name, title=found.name), *parts])


def _pairs(title: str, pairs: Sequence[Pair]) -> html.Div:
    rows = [part for label, words in pairs for part in (html.Dt(label), html.Dd(_words(words)))]
    return html.Div([html.Strong(title), html.Dl(rows)])


def _words(words: str | tuple[str, ...]) -> Any:
    return words if isinstance(words, str) else html.Ol([html.Li(line) for line in words])


def _counterparts(opened: OpenedReport, found: Details, view: View) -> Iterator[Any]:
    for other in found.counterparts:
        there = follow_op(opened, view, (other.key, other.row))
        sure = " (inferred)" if other.inferred else ""
        link = dcc.Link(f"{other.label}: {other.short_name}", href=to_query(there), title=other.name)
        yield [link, f" {duration(other.dur_ns)} · {other.words}{sure}"]
    yield from (f"{label}: {why}" for label, why in found.without_counterpart)


def comparison_panel(opened: OpenedReport, before: str, after: str) -> Any:
    """What changed from one band to another."""
    if opened.band(before) is None or opened.band(after) is None:
        return html.P("The link names a mode that is not in this report.", className="warning")
    return [part for section in compare_sections(opened, before, after) for part in section_parts(section)]


def section_parts(section: Section) -> Iterator[Any]:
    """Its title, where it has one, its sentences and its table."""
    if section.title:
        yield html.H3(section.title)
    yield from (html.P(sentence) for sentence in section.sentences)
    if not section.rows:
        return
    head = html.Thead(html.Tr([html.Th(column, scope="col") for column in section.columns]))
    ops = section.ops or (None,) * len(section.rows)
    pairs = enumerate(zip(section.rows, ops, strict=True))
    body = [_row(f"{section.key}-{number}", cells, op, section.named) for number, (cells, op) in pairs]
    yield html.Div(html.Table([head, html.Tbody(body)]), className="scroll", tabIndex="0")


def _row(key: str, cells: Sequence[str], op: Op | None, named: int) -> html.Tr:
    """A row; where it is of a GPU op, that one's name shows it in the timeline."""
    row_cells: list[Any] = [*cells]
    if op is not None:
        name = {"op": f"{op[0]}|{op[1]}|", "row": key}
        row_cells[named] = html.Button(cells[named], id=name, className="link", title="Show it in the timeline")
    return html.Tr([html.Td(cell) for cell in row_cells])


def page_header(
    title: str,
    machine: str,
    sentence: str,
    notes: Iterable[str],
    buttons: Sequence[html.Button],
    back: Sequence[html.A] = (),
) -> html.Header:
    """What the page is about and what was found, in words."""
    top = [*back, html.H1(title), html.P(machine, className="muted"), html.Div([*buttons], className="buttons")]
    return html.Header(
        [
            html.Div(top, className="title"),
            html.P(sentence, className="sentence", role="status"),
            *(html.P(note, className="note") for note in notes),
        ]
    )


def in_browser(app: Dash, function: str, output: Output, event: Input) -> None:
    """A callback that assets/dashboard.js answers; not before something happens."""
    app.clientside_callback(  # type: ignore[no-untyped-call]
        ClientsideFunction("launchscope", function), output, event, prevent_initial_call=True
    )


def choice(name: str, options: Sequence[tuple[str, str]], value: str, label: str) -> html.Div:
    radios = dcc.RadioItems(
        id=name, options=[{"value": key, "label": text} for key, text in options], value=value, inline=True
    )
    return html.Div(
        [html.Span(label, id=f"{name}-label"), radios], role="group", **attribute("aria-labelledby", f"{name}-label")
    )


def labelled(label: str, name: str, control: Any) -> html.Div:
    return html.Div([html.Label(label, htmlFor=name), control], className="labelled")


def named(label: str) -> dict[str, Any]:
    return attribute("aria-label", label)


def attribute(name: str, value: str) -> dict[str, Any]:
    """An attribute whose name is no Python name."""
    return {name: value}
