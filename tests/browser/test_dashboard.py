"""What a person does with the page, in a real browser, on a capture recorded on an H200."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page

    from .conftest import Open


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


expect.set_options(timeout=30_000)

RANGE: Final = "document.querySelector('#timeline .js-plotly-plot').layout.xaxis.range"


def view_range(page: Page) -> tuple[float, float]:
    low, high = page.evaluate(RANGE)
    return low, high


def wait_for_query(page: Page, pattern: str) -> None:
    page.wait_for_url(re.compile(pattern))


def test_the_verdict_is_the_first_thing_to_read(open_page: Open) -> None:
    page = open_page()
    expect(page.locator(".sentence")).to_contain_text("eager is LAUNCH-BOUND: the GPU works 1.95 ms of a 9.43 ms step")
    box = page.locator(".sentence").bounding_box()
    assert box is not None
    assert box["y"] + box["height"] < 400
    expect(page.locator(".card")).to_have_count(4)
    expect(page.locator(".card.baseline h2")).to_have_text("eager")
    expect(page.locator(".card").nth(1)).to_contain_text("2.22 ms")


def test_keys_zoom_pan_and_fit(open_page: Open) -> None:
    page = open_page()
    low, high = view_range(page)
    page.keyboard.press("w")
    wait_for_query(page, "x=")
    page.wait_for_function(
        f"w => {RANGE}[1] - {RANGE}[0] < w * 0.51",
        arg=high - low,
    )
    before = view_range(page)
    page.keyboard.press("d")
    page.wait_for_function(f"x => {RANGE}[0] > x", arg=before[0])
    page.keyboard.press("f")
    page.wait_for_function(
        f"w => Math.abs({RANGE}[1] - {RANGE}[0] - w) < 1",
        arg=high - low,
    )
    assert "x" not in query(page)


def test_a_step_is_picked_and_kept_in_the_url(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#step-label")).to_have_text(re.compile("step 1 of"))
    page.get_by_label("Step after").click()
    expect(page.locator("#step-label")).to_have_text(re.compile("step 2 of"))
    assert query(page)["step"] == "1"
    page.keyboard.press("]")
    expect(page.locator("#step-label")).to_have_text(re.compile("step 3 of"))


def test_a_search_is_counted(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("splitK")
    expect(page.locator("#search-count")).to_have_text(re.compile(r"[1-9][\d,]* found"))
    assert query(page)["search"] == "splitK"


def test_a_kernel_is_followed_to_the_other_modes(open_page: Open) -> None:
    """By its URL, as a click on the canvas' pixels would depend on the layout."""
    page = open_page("?op=eager,1100")
    details = page.locator("#details")
    expect(details).to_contain_text("graph")
    expect(details).to_contain_text(re.compile("inferred"))
    details.get_by_role("link", name=re.compile("graph")).first.click()
    wait_for_query(page, r"op=graph(%2C|,)\d+")


def test_a_slider_changes_the_prediction_and_reset_takes_it_back(open_page: Open) -> None:
    page = open_page()
    readout = page.locator("#readout")
    measured = readout.inner_text()
    page.locator("#knob-tau [role=slider]").first.press("ArrowLeft")
    wait_for_query(page, "tau=")
    expect(readout).not_to_have_text(measured)
    page.locator("#reset").click()
    page.wait_for_function("!location.search.includes('tau=')")
    page.wait_for_function("t => document.querySelector('#readout').innerText === t", arg=measured)


def test_the_table_sorts_and_filters(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#grid .ag-center-cols-container .ag-row").first).to_be_visible()
    rows = page.evaluate("dash_ag_grid.getApi('grid').getDisplayedRowCount()")
    assert rows > 10
    page.evaluate("dash_ag_grid.getApi('grid').setFilterModel({kernel: {type: 'contains', filter: 'elementwise'}})")
    assert 0 < page.evaluate("dash_ag_grid.getApi('grid').getDisplayedRowCount()") < rows


def test_two_modes_are_compared(open_page: Open) -> None:
    page = open_page("?compare=eager,fused")
    expect(page.locator("#comparison")).to_contain_text(re.compile("merged", re.IGNORECASE))


def test_a_link_shows_a_colleague_the_same_view(open_page: Open) -> None:
    link = "?bands=graph,eager&step=1&x=10,400&align=time&search=gemm&overlays=queue&theme=dark"
    page = open_page(link)
    assert view_range(page) == (10, 400)
    expect(page.locator("#step-label")).to_have_text(re.compile("step 2 of"))
    expect(page.locator("#search")).to_have_value("gemm")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.reload()
    page.wait_for_selector("#timeline .bglayer", state="attached")
    page.wait_for_function(f"JSON.stringify({RANGE}) === '[10,400]'")


def test_the_theme_follows_the_system_and_can_be_changed(open_page: Open) -> None:
    page = open_page(dark=True)
    expect(page.locator("html")).to_have_attribute("data-theme", "dark")
    page.locator("#theme").click()
    expect(page.locator("html")).to_have_attribute("data-theme", "light")


def test_help_lists_the_keys(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("?")
    expect(page.get_by_role("dialog")).to_contain_text("zoom in, out")
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()


def test_no_serious_finding_of_axe_in_our_own_markup(open_page: Open) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = open_page()
    theirs = ["#grid", ".js-plotly-plot", ".dash-dropdown-wrapper", ".dash-dropdown-focus-target", ".dash-options-list"]
    found: dict[str, Any] = Axe().run(page, context={"exclude": [[s] for s in theirs]}).response
    serious = [v for v in found["violations"] if v["impact"] in ("serious", "critical")]
    assert not serious, json.dumps([(v["id"], [n["html"][:200] for n in v["nodes"]]) for v in serious], indent=1)
