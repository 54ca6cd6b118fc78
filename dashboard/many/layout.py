"""The page of many ranks from top to bottom: the answer, what stands out, ranks × steps, how figures lie, all rows."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, Final

from dash import dcc, html

from ...analysis.many.document import RankRow, RanksDocument
from ...analysis.many.many_story import by_row, headline
from ...analysis.many.outliers import OF_REGISTRY, RANK_FIGURES, RankFigure
from ...analysis.model.units import number, one_line, printable
from ...analysis.story import TypedColumn
from ..grid_table import Row, TableData, figure, in_us, text, typed_cell, typed_columns, typed_row
from ..page.panels import choice, labelled, named, page_header
from ..plotting import css_px
from ..rank_heat import height_px
from .charts import alike_words, chart_px, differing
from .view import BY_RANK, HEAT_WORDS, ManyView, compared, figure_words, labels, machine, notes, path_of, title, where

MOST_OUTLIERS: Final = 200
"""Ranks that stand out and have a row above the table of all."""


def page(doc: RanksDocument, view: ManyView, scheme: str, width_px: int) -> html.Div:
    """Everything; callbacks fill in what is not drawn yet."""
    data: dict[str, Any] = {"scheme": scheme, "width": width_px}
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            *(dcc.Store(id=name) for name in ("painted", "can-grid", "heat-click", "go", "gone")),
            *(dcc.Store(id=name, data=value) for name, value in data.items()),
            header(doc),
            html.Main(
                [*outliers_section(doc), heat_section(doc, view), _distributions(doc, width_px), _all(), _downloads()]
            ),
        ],
        id="page",
        className="many",
    )


def header(doc: RanksDocument) -> html.Header:
    theme = html.Button("theme", id="theme", title="Light or dark")
    return page_header(title(doc), machine(doc), printable(headline(doc).text), notes(doc), [theme])


def outliers_section(doc: RanksDocument) -> list[html.Section]:
    """A row for each rank that stands out; none where none does."""
    outlying, names = by_row(doc), labels(doc)
    if not outlying:
        return []
    rows = [
        html.Tr(
            [
                html.Th(_link(doc, row, names[row]), scope="row"),
                html.Td([_reason(each.message) for each in its]),
                html.Td(where(doc.rows[row])),
            ]
        )
        for row, its in [*outlying.items()][:MOST_OUTLIERS]
    ]
    head = html.Thead(html.Tr([html.Th(text, scope="col") for text in ("rank", "why it stands out", "file")]))
    more = len(outlying) - MOST_OUTLIERS
    rest = [html.P(f"{number(more)} more are in the table of all ranks.", className="muted")] if more > 0 else []
    table = html.Div(html.Table([head, html.Tbody(rows)]), className="scroll odd", tabIndex="0", role="group",
                     **named("Ranks that stand out"))  # fmt: skip
    return [html.Section([html.H2("What stands out"), table, *rest])]


def _reason(message: str) -> html.Div:
    return html.Div(printable(one_line(message)))


def _link(doc: RanksDocument, row: int, name: str) -> Any:
    return name if doc.rows[row].error is not None else html.A(name, href=path_of(row), className="link")


def heat_section(doc: RanksDocument, view: ManyView) -> html.Section:
    """Ranks × steps, and which of them to open."""
    figures = [(BY_RANK, "rank"), *((each.figure, figure_words(each.figure)) for each in differing(doc))]
    options = [
        {"value": str(row), "label": name} for row, name in enumerate(labels(doc)) if doc.rows[row].error is None
    ]
    sort = dcc.Dropdown(
        id="sort",
        options=[{"value": name, "label": words} for name, words in figures],
        value=view.sort,
        clearable=False,
    )
    first = dcc.Dropdown(id="rank-a", options=options, value=options[0]["value"] if options else None, clearable=False)
    second = dcc.Dropdown(id="rank-b", options=options, placeholder="nothing")
    return html.Section(
        [
            html.H2("Ranks × steps"),
            html.Div(
                [choice("heat-of", [*HEAT_WORDS.items()], view.heat, "Colour"), labelled("Sorted by", "sort", sort)],
                className="controls",
            ),
            html.Div(id="heat-frame", className="heat-frame", style={"minHeight": css_px(height_px(len(doc.rows)))}),
            html.Div(id="ranks-note", className="muted", role="status"),
            html.P(compared(doc), className="muted"),
            html.Div(
                [
                    labelled("Timeline of", "rank-a", first),
                    labelled("side by side with", "rank-b", second),
                    html.A("open", id="open-rank", href="", className="button"),
                ],
                className="controls pickers",
            ),
        ],
        className="ranks",
    )


def _distributions(doc: RanksDocument, width_px: int) -> html.Section:
    if not differing(doc):
        return html.Section([])
    return html.Section(
        [
            html.H2("How the ranks differ"),
            html.P(
                "Each figure over all ranks that have it: the heights are square roots of how many, so that one rank "
                f"can be seen; dotted: the median; triangles: ranks that stand out by it. {alike_words(doc)}",
                className="muted",
            ),
            html.Div(id="spread-frame", style={"minHeight": css_px(chart_px(doc, width_px))}),
        ]
    )


def _all() -> html.Section:
    csv = html.A("CSV", href="download/ranks.csv", download="ranks.csv", className="button")
    return html.Section([html.H2("All ranks"), html.Div(csv, className="controls"), html.Div(id="grid-frame")])


def _downloads() -> html.Section:
    link = html.A("JSON", href="download/ranks.json", download="ranks.json", className="button")
    note = html.P(
        "launchscope dashboard ranks.json opens this page again without reading the traces.", className="muted"
    )
    return html.Section([html.H2("Take it with you"), html.Div(link, className="controls"), note])


_FIGURES: Final = [
    RANK_FIGURES[name]
    for name in (
        "launch_tax_ns",
        "gpu_work_without_waiting_ns",
        "communication_exposed_ns",
        "communication_hidden_ns",
        "communication_transfer_ns",
        "communication_waiting_ns",
        "idle_fraction",
        "launch_tax_share",
        "arrives_last_share",
        "launches",
        "kernels",
        "collectives",
        "steps",
    )
]
_OF_REGISTRY: Final = [TypedColumn(figure.name, figure.words, figure.kind) for figure in OF_REGISTRY]

_LINK: Final[dict[str, Any]] = {"sortable": False, "filter": False, "cellRenderer": "markdown", "linkTarget": "_self"}


def table(doc: RanksDocument, *, links: bool) -> TableData:
    """A row per file; columns that no row has a value for are left out. ``links``: with one to each rank's page."""
    outlying = by_row(doc)
    rows = [_row(place, row, outlying, links=links) for place, row in enumerate(doc.rows)]
    columns = [
        figure("rank", "rank", maxWidth=100),
        text("open", "timeline", minWidth=120, maxWidth=130, **_LINK),
        text("odd", "stands out", minWidth=220, flex=2, tooltipField="odd"),
        text("verdict", "verdict", minWidth=130),
        figure("period_us", "step, median µs", 1),
        figure("period_p90_us", "step, p90 µs", 1),
        figure("busy_us", "GPU work W, median µs", 1),
        *map(_column, _FIGURES),
        *typed_columns(_OF_REGISTRY),
        text("host", "host", minWidth=120),
        text("error", "why nothing is known", minWidth=260, flex=2, tooltipField="error"),
        text("file", "file", minWidth=200, flex=2, tooltipField="path"),
    ]
    there = [column for column in columns if any(row.get(column["field"]) is not None for row in rows)]
    return TableData(there, rows)


def _row(place: int, row: RankRow, outlying: dict[int, list[Any]], *, links: bool) -> Row:
    period, busy = row.period_ns, row.busy_ns
    found: Row = {
        "id": str(place),
        "rank": row.rank,
        "open": f"[open]({path_of(place)[1:]})" if links and row.error is None else None,
        "odd": "; ".join(one_line(each.message) for each in outlying[place]) if place in outlying else None,
        "verdict": row.verdict_class,
        "period_us": None if period is None else in_us(period.median),
        "period_p90_us": None if period is None else in_us(period.p90),
        "busy_us": None if busy is None else in_us(busy.median),
        "host": None if row.host is None else printable(row.host),
        "error": None if row.error is None else one_line(row.error),
        "file": printable(one_line(row.name)),
        "path": printable(one_line(row.path)),
    }
    found |= typed_row(_OF_REGISTRY, SimpleNamespace(**{c.field: row.figures.get(c.field) for c in _OF_REGISTRY}))
    return found | {each.name: typed_cell(each.kind, getattr(row, each.name)) for each in _FIGURES}


def _column(its: RankFigure) -> dict[str, Any]:
    match its.kind:
        case "ns":
            return figure(its.name, f"{its.words}, µs", 1, minWidth=136)
        case "share":
            return figure(its.name, f"{its.words}, %", 2)
        case _:
            return figure(its.name, its.words, 0)
