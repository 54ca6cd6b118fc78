"""What the server sends first: the answer and the timelines, before any script has run."""

from __future__ import annotations

import re

import pytest
from launchscope.dashboard.opened_report import OpenedReport, Watched
from launchscope.dashboard.page.cards import sentence
from launchscope.dashboard.page.index_page import first_response
from launchscope.dashboard.page.server import Access
from launchscope.dashboard.site.serve import build_app
from launchscope.dashboard.view import View
from launchscope.fixtures.builder import TraceBuilder, trace
from markupsafe import escape

from ..opening import built, capture, two_modes

HOSTILE = "<img src=x onerror=alert(1)>{%config%}"


def index(opened: OpenedReport, query: str = "") -> str:
    app = build_app(opened, Access("127.0.0.1", 8050, None), Watched(()))
    text: str = app.server.test_client().get(f"/{query}", headers={"Host": "127.0.0.1:8050"}).get_data(as_text=True)
    return text


def hostile_trace() -> TraceBuilder:
    return trace().step(0).launch(at=0, dur=5).kernel(at=10, dur=20, name=HOSTILE)


def test_the_verdict_and_the_cards_are_in_it_before_any_script() -> None:
    html = index(capture())
    above = html[: html.index("dash_renderer")]
    assert str(escape(sentence(capture()))) in above
    for words in ("What to do next", "fused_graph", "9.43 ms (8.74–9.87)", 'class="card baseline"'):
        assert words in above
    assert "<svg" in above


def test_what_says_so_unfolds_without_a_script() -> None:
    page = index(capture("faults/static_input"))
    line = "try overwrite what was captured: buffers.token.copy_(new); changed by itself"
    assert f'<details class="unfolding muted"><summary>{line}' in page
    assert 'class="basis "' not in page


def test_foreign_names_are_text() -> None:
    opened = built(hostile_trace, f"{HOSTILE.replace('/', '')}.json")
    assert opened is not None
    html = index(opened)
    assert "<img" not in html
    assert "&lt;img src=x onerror=alert(1)&gt;{&#37;config%}" in html
    assert html.count('id="_dash-config"') == 1


def test_no_id_is_there_twice_when_the_page_takes_its_place() -> None:
    html = first_response(two_modes(), View())
    assert re.findall(r' id="([^"]*)"', html) == ["first"]


def test_the_picture_is_of_the_view() -> None:
    """Of eager's 300 µs steps the kernel runs from 0 to 20 µs, in the picture of 4,000 units."""
    whole, near = (first_response(two_modes(), View(bands=("eager",), x=x)) for x in ((0.0, 300.0), (0.0, 30.0)))
    widths = [[int(width) for width in re.findall(r"h(\d+)v", html)] for html in (whole, near)]
    assert max(widths[1]) > max(widths[0]) / 2
    assert all(width <= 4_000 for width in widths[0] + widths[1])


@pytest.mark.parametrize("query", ["?x=0,1e14", "?step=99999999999", "?bands=gone", "?search=%00&theme=dark", "?x=a"])
def test_any_address_is_answered(query: str) -> None:
    assert 'id="first"' in index(two_modes(), query)


def test_tables_come_later_and_what_is_not_used_never() -> None:
    html = index(two_modes())
    assert "dash_table" not in re.sub(r'<script id="_dash-config".*?</script>', "", html)
    assert re.findall(r'<script type="text/plain" id="later" data-src="[^"]*dash_ag_grid[^"]*"></script>', html)
    assert not re.findall(r'<script src="[^"]*dash_ag_grid', html)
