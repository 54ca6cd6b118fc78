"""The page as the server first sends it: the answer in it as HTML, and no script before its time.

A browser works for seconds on the scripts that draw the page. Until then it shows this: the same header, cards and
timelines, made of the same components and figures, the timelines as a picture. assets/dashboard.js takes it away.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final, NamedTuple

import dash
import flask
from dash.development.base_component import Component
from markupsafe import Markup, escape

from ..opened_report import OpenedReport
from ..plotting import STILL_PX
from ..timeline.still import still
from ..view import View
from . import layout
from .actions import control_values, timelines
from .rank_section import ranks_section
from .server import of_declared_types, refuse_malformed

LEAST_PX: Final = 300
MOST_PX: Final = 8_000

ASSETS: Final = Path(__file__).parents[1] / "assets"
_SCRIPT: Final = re.compile(r'<script src="([^"]*)"></script>')
_UNUSED: Final = "/dash/dash_table/"
_LATER: Final = "/dash_ag_grid/"
"""Its tables stand at the end of the page: assets/dashboard.js loads it when the timelines are painted."""
_OWN: Final = "assets/"
_PLOTLY: Final = "_dash-component-suites/plotly/package_data/plotly.min.js"

_ATTRIBUTES: Final = {"className": "class", "href": "href", "title": "title", "role": "role", "style": "style"}


class IndexPage(dash.Dash):
    """A Dash app whose page begins with what ``first`` makes of the query of its address."""

    def __init__(self, first: Callable[[str], Markup], **options: Any) -> None:
        super().__init__("launchscope", **options)
        self._first = first
        self._plain = first("")
        refuse_malformed(self)

    def callback(self, *parts: Any, **more: Any) -> Callable[[Callable[..., Any]], Any]:
        """As Dash's; what the browser sends has to be of the types that the function's parameters declare."""
        register = super().callback(*parts, **more)
        return lambda function: register(of_declared_types(function))

    def interpolate_index(self, **parts: str) -> str:  # type: ignore[override]
        """The page for the view that its address names."""
        query = flask.request.query_string.decode("ascii", "replace")
        scripts = _SCRIPT.findall(parts["scripts"])
        own = [src for src in scripts if _OWN in src]
        later = [src for src in scripts if _LATER in src]
        rest = [src for src in scripts if src not in {*own, *later} and _UNUSED not in src]
        parts["css"] += _tags(own)
        plotly = self.config.requests_pathname_prefix + _PLOTLY
        parts["scripts"] = (
            _tags(rest)
            + f'<link rel="preload" as="script" fetchpriority="low" href="{plotly}">'
            + f'<script type="text/plain" id="later" data-src="{next(iter(later), "")}"></script>'
        )
        parts["app_entry"] = in_index(self._first(query) if query else self._plain) + parts["app_entry"]
        page: str = super().interpolate_index(**parts)  # type: ignore[no-untyped-call]
        return page


def index_page(first: Callable[[str], Markup], title: str, path: str) -> IndexPage:
    """A page below this path, without its content; ``first`` as for IndexPage."""
    app = IndexPage(
        first,
        assets_folder=str(ASSETS),
        requests_pathname_prefix=path,
        routes_pathname_prefix="/",
        title=in_index(escape(f"{title} · launchscope")),
        update_title="",
        serve_locally=True,
        eager_loading=False,
        suppress_callback_exceptions=True,  # the grid is made later
    )
    app.index_string = app.index_string.replace("<html>", '<html lang="en">')
    return app


class PageRequest(NamedTuple):
    """What a browser asks of the page: its view, and by assets/dashboard.js its colour scheme and width."""

    query: str
    scheme: str
    width_px: int


def page_request() -> PageRequest:
    """Of the request that is answered; the defaults where there is none, as when Dash makes the app."""
    if not flask.has_request_context():
        return PageRequest("", "light", STILL_PX)
    given = flask.request
    width_px = min(max(given.args.get("width", STILL_PX, int), LEAST_PX), MOST_PX)
    return PageRequest(given.query_string.decode("ascii", "replace"), given.args.get("scheme", "light"), width_px)


def attachment(content: str | bytes, kind: str, name: str) -> flask.Response:
    """A file to keep."""
    response = flask.Response(content, mimetype=kind)
    response.headers["Content-Disposition"] = f'attachment; filename="{name}"'
    return response


def in_index(html: Markup) -> str:
    """For Dash's index page, in which ``{%`` stands for more to come."""
    return str(html).replace("{%", "{&#37;")


def first_response(opened: OpenedReport, view: View) -> Markup:
    """Header, cards and timelines for this view, as HTML."""
    light, dark = (timelines(opened, view, scheme, STILL_PX) for scheme in ("light", "dark"))
    stand_for = {"timeline": still(light.figure, dark.figure, light.height_px)}
    answer = [layout.header(opened), layout.next_steps(opened), layout.mode_cards(opened)]
    values = control_values(opened, view)
    section = [*ranks_section(opened, view, values), layout.timelines_section(opened, values, light)]
    return Markup('<div id="first">{}<div inert>{}</div></div>').format(
        to_html(answer, {}), to_html(section, stand_for)
    )


def to_html(part: Any, filled: dict[str, Markup]) -> Markup:
    """A component as HTML without ids: others will have them. Those that scripts draw are empty, or as ``filled``."""
    if isinstance(part, (list, tuple)):
        return Markup().join(to_html(each, filled) for each in part)
    if not isinstance(part, Component):
        return escape("" if part is None else part)
    props = part.to_plotly_json()["props"]  # type: ignore[no-untyped-call]
    inside = filled.get(props.get("id", ""), Markup())
    if part._namespace != "dash_html_components":
        return Markup('<div class="unfilled {}">{}</div>').format(part._type, inside)
    tag, attributes = part._type.lower(), Markup().join(_attributes(props))
    return Markup("<{0}{1}>{2}</{0}>").format(Markup(tag), attributes, inside + to_html(props.get("children"), filled))


def _attributes(props: dict[str, Any]) -> Iterator[Markup]:
    for name, value in props.items():
        if name == "style":
            value = ";".join(f"{_dashed(key)}:{each}" for key, each in value.items())
        if name in _ATTRIBUTES or name.startswith("aria-"):
            yield Markup(' {}="{}"').format(_ATTRIBUTES.get(name, name), value)


def _dashed(name: str) -> str:
    return re.sub("[A-Z]", lambda letter: f"-{letter[0].lower()}", name)


def _tags(sources: list[str]) -> str:
    return "".join(f'<script src="{src}"></script>\n' for src in sources)
