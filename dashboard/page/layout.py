"""The page from top to bottom: the answer, the evidence, the model to play with, the tables. Components only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import dash_ag_grid as dag  # type: ignore[import-untyped]
from dash import dcc, html

from ..charts.bound_chart import chart_rem
from ..charts.starting_point import slider_marks, starting_point
from ..grid_table import TableData
from ..opened_report import OpenedReport
from ..plotting import LIGHT, css_px
from ..timeline.timeline import collective_legend, legend_items
from ..view import View
from . import cards, tables
from .actions import Timelines, control_values, stores, timelines
from .figure_tables import has_one_clock
from .panels import GRAPH_CONFIG, MODEL_REM, attribute, choice, labelled, named, page_header, section_parts
from .rank_section import ranks_section
from .sections import graph_sections

KEYS: Final = (
    ("w, s", "zoom in, out"),
    ("a, d", "pan left, right"),
    ("f", "fit the step"),
    ("[, ]", "step before, after"),
    ("/", "search"),
    ("Esc", "close, clear the selection"),
    ("?", "this help"),
)
DOWNLOADS: Final = (
    ("trace.pftrace", "Perfetto trace"),
    ("report.json", "JSON"),
    ("report.html", "one-file HTML"),
)
TIMELINE_CONFIG: Final[Any] = GRAPH_CONFIG | {
    "scrollZoom": True,
    "doubleClick": False,
    "modeBarButtonsToRemove": ["select2d", "lasso2d", "autoScale2d", "resetScale2d"],
}


def page(
    opened: OpenedReport, view: View, scheme: str, width_px: int, *, most_upload_bytes: int | None = None
) -> html.Div:
    """Everything; callbacks fill in what is not drawn yet. Null where no other file can be opened."""
    values = control_values(opened, view)
    kept = stores(view, with_ranks=bool(opened.rank_sets))
    data: dict[str, Any] = {"scheme": scheme, "width": width_px, "answered": values, **kept}
    return html.Div(
        [
            dcc.Location(id="url", refresh=False),
            *(dcc.Store(id=name) for name in ("keys", "cell", "painted", "can-grid")),
            *([dcc.Store(id="heat-click")] if opened.rank_sets else []),
            *(dcc.Store(id=name, data=value) for name, value in data.items()),
            header(opened),
            html.Main(
                [
                    html.Div(id="changed", role="alert"),
                    next_steps(opened),
                    mode_cards(opened),
                    *ranks_section(opened, view, values),
                    timelines_section(opened, values, timelines(opened, view, scheme, width_px)),
                    _charts(opened),
                    _graph_doctor(opened),
                    _model(opened, values),
                    _compare(opened, values),
                    _tables(opened),
                    _downloads(),
                    *([] if most_upload_bytes is None else [_open_another(most_upload_bytes)]),
                ]
            ),
            _help(),
        ],
        id="page",
    )


def header(opened: OpenedReport) -> html.Header:
    back = [html.A("◀ all ranks", href=opened.within, className="button")] if opened.within else []
    buttons = [
        html.Button("theme", id="theme", title="Light or dark"),
        html.Button("?", id="help-button", **named("Keys and help")),
    ]
    words = cards.machine(opened), cards.sentence(opened), cards.notes(opened)
    return page_header(opened.title, *words, buttons, back)


def next_steps(opened: OpenedReport) -> html.Section:
    rows = [
        html.Li(
            [
                html.Span(step.what, className="what"),
                html.Span(f" → {step.leaves}" if step.leaves else "", className="leaves"),
                *([html.Span(step.basis, className=f"basis {step.basis}")] if step.basis else [" "]),
                html.Span(step.detail, className="muted"),
                *([_unfolding(step.reasons, "muted")] if step.reasons else []),
            ]
        )
        for step in cards.next_steps(opened)
    ]
    return html.Section([html.H2("What to do next"), html.Ol(rows)] if rows else [], className="next")


def mode_cards(opened: OpenedReport) -> html.Section:
    return html.Section([_card(card) for card in cards.cards(opened)], className="cards", **named("Modes"))


def _card(card: cards.Card) -> html.Article:
    body: list[Any] = [html.H2(card.title)]
    if card.failure is not None:
        body.append(html.P(card.failure, className="failure"))
    else:
        body.append(_unfolding(card.verdict or "", "muted"))
        pairs = [(html.Dt(fact.label, title=fact.hint), html.Dd(fact.value, title=fact.hint)) for fact in card.facts]
        body.append(html.Dl([part for pair in pairs for part in pair]))
    body += [_unfolding(f"⚠ {warning}", "warning") for warning in card.warnings]
    return html.Article(body, className="card baseline" if card.is_baseline else "card")


def _unfolding(text: str, look: str) -> html.Details:
    """A sentence on one line; a click shows the rest of it."""
    return html.Details(html.Summary(text), className=f"unfolding {look}")


def timelines_section(opened: OpenedReport, values: Mapping[str, Any], drawn: Timelines) -> html.Section:
    """The timelines with their controls, drawn."""
    return html.Section(
        [
            html.H2("Timelines"),
            html.Div(
                [
                    html.Div(
                        [
                            html.Button("◀", id="previous", **named("Step before")),
                            html.Span(drawn.step, id="step-label", role="status"),
                            html.Button("▶", id="next", **named("Step after")),
                        ],
                        className="steps",
                    ),
                    choice("align", _alignments(opened), values["align"], "Align"),
                    dcc.Checklist(
                        id="overlays",
                        options=[{"value": "queue", "label": "queue depth"}, {"value": "idle", "label": "GPU idle"}],
                        value=values["overlays"],
                        inline=True,
                    ),
                    html.Button("fit", id="fit", title="The whole step (f)"),
                    html.Div(
                        [
                            html.Label("Search", htmlFor="search"),
                            dcc.Input(
                                id="search",
                                type="search",
                                placeholder="kernel or operator",
                                debounce=0.3,
                                value=values["search"],
                            ),
                            html.Span(drawn.found, id="search-count", role="status", className="muted"),
                        ],
                        className="search",
                    ),
                ],
                className="controls",
            ),
            labelled(
                f"Traces shown, of {len(opened.bands):,}" if len(opened.bands) > len(opened.first) else "Traces shown",
                "bands",
                dcc.Dropdown(
                    id="bands", options=_band_options(opened), value=values["bands"], multi=True, clearable=False
                ),
            ),
            html.Div(
                [
                    html.Span("gaps, where the GPU idles, by cause:"),
                    html.Div([_swatch(item) for item in legend_items(LIGHT)], className="legend"),
                ],
                className="idle-legend",
            ),
            *(_collectives(item) for item in collective_legend(opened.bands)),
            html.Div(
                [
                    dcc.Graph(
                        id="timeline",
                        figure=drawn.figure,
                        style={"height": css_px(drawn.height_px)},
                        config=TIMELINE_CONFIG,
                        responsive=True,
                    ),
                    html.Div(id="still"),  # the picture of the first response, until they are painted
                ],
                id="timeline-frame",
                className="timeline-frame",
                tabIndex="0",
                role="group",
                **named("Timelines; zoom with w and s, pan with a and d, fit with f"),
            ),
            html.Aside(id="details", className="details", **attribute("aria-live", "polite")),
        ],
        className="timelines",
    )


def _alignments(opened: OpenedReport) -> list[tuple[str, str]]:
    one_clock = [("clock", "one clock for all ranks")] if has_one_clock(opened.rank_sets) else []
    return [("time", "same scale"), ("step", "step to step"), *one_clock]


def _collectives(item: Mapping[str, str]) -> html.Div:
    swatch = html.Span(className="swatch", style={"background": item["color"]})
    return html.Div([swatch, item["meaning"]], className="idle-legend")


def _swatch(item: Mapping[str, str]) -> html.Span:
    swatch = html.Span(className="swatch", style={"background": item["color"]})
    return html.Span([swatch, item["cause"]], title=item["meaning"])


def _charts(opened: OpenedReport) -> html.Section:
    room = {"minHeight": f"{chart_rem(opened)}rem"}
    return html.Section([html.H2("Where the time goes"), html.Div(id="charts", className="charts", style=room)])


def _graph_doctor(opened: OpenedReport) -> html.Section:
    parts = [part for section in graph_sections(opened) for part in section_parts(section)]
    return html.Section([html.H2("Graph doctor"), *parts] if parts else [], className="doctor")


def _model(opened: OpenedReport, values: Mapping[str, Any]) -> html.Section:
    start = starting_point(opened)
    intro = "From what was measured, by the closed form max(W, N·τ): predictions, drawn dashed. "
    if start.step is None:
        return html.Section([html.H2("The model, to play with"), html.P(f"Not for this report: {start.reason}")])
    sliders = [
        labelled(
            spec.label,
            f"knob-{name}",
            dcc.Slider(
                id=f"knob-{name}",
                min=spec.low,
                max=spec.high,
                step=spec.step,
                marks=spec.marks,
                value=values[name],
                updatemode="mouseup",
                allow_direct_input=False,
            ),
        )
        for name, spec in slider_marks(start).items()
    ]
    return html.Section(
        [
            html.H2("The model, to play with"),
            html.P(intro, className="muted"),
            html.Div([*sliders, html.Button("reset to what was measured", id="reset")], className="knobs"),
            html.Div(id="readout"),
            html.Div(id="model-charts", className="charts two", style={"minHeight": f"{MODEL_REM}rem"}),
        ],
        className="model",
    )


def _compare(opened: OpenedReport, values: Mapping[str, Any]) -> html.Section:
    if len(opened.bands) < 2:
        return html.Section([])
    options = _band_options(opened)
    pickers = [
        labelled(label, name, dcc.Dropdown(id=name, options=options, value=value, placeholder="a mode or trace"))
        for label, name, value in (
            ("Compare", "compare-a", values["compare_a"]),
            ("with", "compare-b", values["compare_b"]),
        )
    ]
    return html.Section([html.H2("Compare"), html.Div(pickers, className="controls"), html.Div(id="comparison")])


def _tables(opened: OpenedReport) -> html.Section:
    known = tables.table_names(opened, opened.bands)
    return html.Section(
        [
            html.H2("Tables"),
            html.Div(
                [
                    choice("table", [(name, name) for name in known], known[0], "Table"),
                    html.A("CSV", id="csv", href="", download="", className="button"),
                ],
                className="controls",
            ),
            html.P(id="table-note", className="muted"),
            html.Div(id="grid-frame"),
        ],
        className="tables",
    )


def grid(data: TableData) -> dag.AgGrid:
    """A table that is sorted and filtered in the browser; made when there is time for it."""
    return dag.AgGrid(
        id="grid",
        getRowId="params.data.id",
        columnDefs=data.columns,
        rowData=data.rows,
        defaultColDef={"sortable": True, "filter": True, "resizable": True, "flex": 1, "minWidth": 90},
        dashGridOptions={"animateRows": False},
        style={"height": "100%"},
    )


def _downloads() -> html.Section:
    links = [html.A(label, href=f"download/{name}", download=name, className="button") for name, label in DOWNLOADS]
    hand_over = html.Button(
        "open in the Perfetto UI ↗",
        id="perfetto",
        title="Opens ui.perfetto.dev, an outside page, and hands the trace to it inside your browser.",
    )
    return html.Section(
        [
            html.H2("Take it with you"),
            html.Div([*links, hand_over], className="controls"),
            html.P("The last one opens ui.perfetto.dev, an outside page; nothing else here does.", className="muted"),
        ]
    )


def _open_another(most_bytes: int) -> html.Section:
    place = html.Div(id="upload", className="controls", **attribute("data-most-bytes", str(most_bytes)))
    note = (
        f"Up to {most_bytes >> 20:,} MiB; it is read by the launchscope that serves this page, into a page of its own."
    )
    return html.Section(
        [html.H2("Open another file"), place, html.P(note, className="muted")]
    )  # assets/uploads.js fills it


def _help() -> html.Dialog:
    rows = [part for keys, what in KEYS for part in (html.Dt(keys), html.Dd(what))]
    return html.Dialog(
        [html.H2("Keys"), html.Dl(rows), html.Button("close", id="help-close")], id="help", **named("Help")
    )


def _band_options(opened: OpenedReport) -> list[dict[str, str]]:
    return [{"value": band.key, "label": band.label} for band in opened.bands]
