"""What comes to a page's callbacks: what the page sends is answered, all else is refused in one line."""

from __future__ import annotations

import json
from collections.abc import Iterator
from copy import deepcopy
from itertools import product
from typing import Any, Final

import pytest
from dash import Output
from launchscope.analysis.inputs.sources import sources
from launchscope.analysis.many.ranks import analyze_ranks
from launchscope.analysis.report import analyze
from launchscope.dashboard.many import app as many_app
from launchscope.dashboard.many.rank_pages import RankPages
from launchscope.dashboard.opened_report import Watched, open_bands
from launchscope.dashboard.page.index_page import IndexPage
from launchscope.dashboard.page.server import Access
from launchscope.dashboard.site.serve import build_app
from werkzeug.test import Client, TestResponse

from ...analysis.many.rank_files import write_ranks
from ..opening import two_modes

LOCAL: Final = Access("127.0.0.1", 8050, None)
PATH: Final = "/_dash-update-component"
OTHERS: Final[list[Any]] = [
    *(None, True, 0, -1, 3, 0.5, 1e300, 10**30, [], [None], ["x"], [[1, 2]], {}, {"x": 1}),
    *("", "x", "²", "a|9999|", "graph|-1|"),
    *({"points": points} for points in ([], None, [None], [{"customdata": 5}], [{"x": [], "y": {}}])),
    {"points": [{"customdata": ["graph", "gpu_op", 10**9]}]},
    {"points": [{"customdata": ["graph", "launch", -(10**9)]}]},
    {"points": [{"customdata": [{}, [], "x"]}]},
    {"rowId": 5},
    {"rowId": "graph|" + "9" * 30 + "|"},
    {"pressed": "x", "count": 1},
    {"pressed": [["a", "b"]], "count": 1},
    {"pressed": [], "count": "x"},
    {"pressed": [[1, 1e308]], "count": 10**20},
]
"""Values that some property may not have, or that name nothing that there is."""


@pytest.fixture(scope="module", params=["report", "ranks", "many ranks"])
def app(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> IndexPage:
    """A page of each kind."""
    if request.param == "report":
        return build_app(two_modes(), LOCAL, Watched(()))
    paths = write_ranks(tmp_path_factory.mktemp("ranks"), 3)
    if request.param == "ranks":
        return build_app(open_bands(analyze(*paths, cache=False)), LOCAL, Watched(()))
    doc = analyze_ranks(sources(paths), workers=1)
    return many_app.build_app(doc, LOCAL, RankPages(doc, _unread, _unread))


def _unread(*_: Any) -> Any:
    raise AssertionError("nothing is opened here")


def ask(app: IndexPage, body: Any) -> TestResponse:
    data = body if isinstance(body, (bytes, str)) else json.dumps(body)
    return Client(app.server).post(PATH, data=data, content_type="application/json", base_url="http://127.0.0.1:8050")


AT_FIRST: Final = {
    "align": "time",
    "bands": [],
    "overlays": [],
    "heat-of": "period",
    "ranks-of": "",
    "sort": "rank",
    "table": "kernels",
    "width": 1200,
    "painted": True,
    "can-grid": True,
    "answered": {},
    "scheme": "light",
    "timeline-view": "",
}
"""What components tell at first, by their ids; others null."""


def given(declared: dict[str, str]) -> Any:
    return [] if declared["id"].startswith("{") else {**declared, "value": AT_FIRST.get(declared["id"])}


def bodies(app: IndexPage) -> Iterator[dict[str, Any]]:
    """A request of each callback that the server answers, as the page sends it."""
    for output, callback in app.callback_map.items():
        if "callback" not in callback:
            continue
        first, its = callback["inputs"][0], callback["output"]
        yield {
            "output": output,
            "outputs": [named(each) for each in its] if isinstance(its, list) else named(its),
            "inputs": [given(each) for each in callback["inputs"]],
            "state": [given(each) for each in callback["state"]],
            "changedPropIds": [f"{first['id']}.{first['property']}"],
        }


def named(output: Output) -> dict[str, Any]:
    return {"id": output.component_id, "property": output.component_property}


def test_what_a_page_sends_is_answered(app: IndexPage) -> None:
    asked = list(bodies(app))
    assert len(asked) >= 5
    for body in asked:
        assert ask(app, body).status_code in (200, 204), body["output"]


@pytest.mark.parametrize(
    "body",
    [b"", b"[]", b"{", b"{}", b"5", b"\xff", b'{"output": "nothing.here"}', b"[" * 100_000,
     b'{"output":"x.y","outputs":{"id":"x","property":"y"},"inputs":[],"changedPropIds":[]}',
     b'{"output":"cell.data","outputs":{"id":"cell","property":"data"},"inputs":[],"changedPropIds":[]}'],
)  # fmt: skip
def test_what_is_no_request_of_a_callback_is_refused_in_a_line(
    body: bytes, app: IndexPage, capfd: pytest.CaptureFixture[str]
) -> None:
    answer = ask(app, body)
    assert (answer.status_code, answer.mimetype) == (400, "text/plain")
    assert answer.text.startswith("not a request of this page: ")
    assert answer.text.count("\n") == 1
    assert "Traceback" not in capfd.readouterr().err


@pytest.mark.parametrize("path", ["nothing/x.js", "dash/x.js", "dash/../dash.py"])
def test_a_package_s_file_that_there_is_not(path: str, app: IndexPage, capfd: pytest.CaptureFixture[str]) -> None:
    answer = Client(app.server).get(f"/_dash-component-suites/{path}", base_url="http://127.0.0.1:8050")
    assert answer.status_code == 404
    assert "Traceback" not in capfd.readouterr().err


def misshapen(body: dict[str, Any]) -> Iterator[dict[str, Any]]:
    for key in ("output", "outputs", "inputs", "changedPropIds"):
        yield {name: value for name, value in body.items() if name != key}
    for key in ("outputs", "inputs", "state", "changedPropIds"):
        yield from ({**body, key: other} for other in (None, 5, "x", {}, [5], [{"id": "x"}], [[{"id": "x"}]]))
    yield {**body, "inputs": body["inputs"][1:]}
    yield {**body, "inputs": [*body["inputs"], *body["inputs"][:1]]}
    yield {**body, "state": [*body["state"], {"id": "x", "property": "data"}]}
    yield {**body, "inputs": [{**body["inputs"][0], "property": "other"}, *body["inputs"][1:]]}
    yield {**body, "changedPropIds": ["{.n_clicks"]}


def test_a_callback_with_other_inputs_or_outputs_is_refused(app: IndexPage) -> None:
    for body in bodies(app):
        for other in misshapen(body):
            assert ask(app, other).status_code == 400, other


def with_a_value(body: dict[str, Any], kind: str, place: int, value: Any) -> dict[str, Any]:
    """The request as if this came from its input or state."""
    other = deepcopy(body)
    part = other[kind][place]
    if isinstance(part, list):
        part.append({"id": {"op": value, "row": "x"}, "property": "n_clicks", "value": 1})
        return {**other, "changedPropIds": ['{"op":"x","row":"x"}.n_clicks']}
    part["value"] = value
    return {**other, "changedPropIds": [f"{part['id']}.{part['property']}"]}


def test_no_value_makes_a_callback_fail(app: IndexPage) -> None:
    """It is refused, or changes nothing."""
    statuses = set[int]()
    for body in bodies(app):
        places = [(kind, place) for kind in ("inputs", "state") for place in range(len(body[kind]))]
        for (kind, place), value in product(places, OTHERS):
            status = ask(app, with_a_value(body, kind, place, value)).status_code
            assert status in (200, 204, 400), (body["output"], body[kind][place], value)
            statuses.add(status)
    assert {200, 400} <= statuses
