"""What a person does with the page, in a real browser, on a capture recorded on an H200."""

from __future__ import annotations

import json
import re
import time
from typing import TYPE_CHECKING, Final
from urllib.parse import parse_qs, urlsplit

from playwright.sync_api import expect

from .conftest import serious_findings

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from .conftest import Open


def query(page: Page) -> dict[str, str]:
    return {name: values[0] for name, values in parse_qs(urlsplit(page.url).query).items()}


expect.set_options(timeout=30_000)

RANGE: Final = "document.querySelector('#timeline .js-plotly-plot').layout.xaxis.range"


PIXEL: Final = """([x, share]) => {
    const plot = document.querySelector('#timeline .js-plotly-plot'), axes = plot._fullLayout;
    const box = plot.getBoundingClientRect(), y = axes.yaxis;
    return {x: box.left + axes.xaxis._offset + axes.xaxis.l2p(x), y: box.top + y._offset + y._length * share};
}"""
"""Where a place of the axis is on the screen, at this share of the timelines' height."""

LONGEST_OP: Final = """key => {
    const plot = document.querySelector('#timeline .js-plotly-plot'), axes = plot._fullLayout;
    const box = plot.getBoundingClientRect(), low = axes.xaxis.range[0], high = axes.xaxis.range[1];
    let found = null;
    for (const bars of plot.data.filter((each) => each.type === 'bar'))
        (bars.customdata || []).forEach((custom, i) => {
            if (!custom || custom[0] !== key || custom[1] !== 'gpu_op') return;
            const begin = bars.base[i], length = bars.x[i];
            if (begin > low && begin + length < high && !(found && found.length > length))
                found = {length, row: custom[2], middle: begin + length / 2, at: bars.y[i]};
        });
    return {
        row: found.row,
        x: box.left + axes.xaxis._offset + axes.xaxis.l2p(found.middle),
        y: box.top + axes.yaxis._offset + axes.yaxis.l2p(found.at),
    };
}"""
"""Row and place on the screen of the longest GPU op of a band that is in view."""


COUNTS: Final = """() => {
    const grid = dash_ag_grid.getApi('grid');
    return Array.from({length: grid.getDisplayedRowCount()}, (_, row) => grid.getDisplayedRowAtIndex(row).data.count);
}"""
"""The column of counts, as the table shows it."""


def in_json(values: list[int]) -> str:
    return json.dumps(values, separators=(",", ":"))


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
    assert "LAUNCH-BOUND: the GPU works 1.95 ms" in page.request.get(page.url).text()  # before any script
    band = page.locator("#timeline .bglayer").first.bounding_box()
    assert band is not None
    assert band["y"] + 110 < 900  # the first band is in view without scrolling
    expect(page.locator(".card")).to_have_count(4)
    expect(page.locator(".card.baseline h2")).to_have_text("eager")
    expect(page.locator(".card").nth(1)).to_contain_text("2.22 ms")
    for chart in ("idle", "durations", "bound", "what-if", "sketch"):  # drawn when the timelines are
        expect(page.locator(f"#{chart} .main-svg").first).to_be_visible()


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


def test_keys_in_a_row_all_count(open_page: Open) -> None:
    page = open_page()
    low, high = view_range(page)
    for key in "wwwsd":
        page.keyboard.press(key)
    width = (high - low) / 4
    middle = (low + high) / 2 + width / 4
    page.wait_for_function(
        "x => Math.abs(Number(new URLSearchParams(location.search).get('x')?.split(',')[0]) - x) < 0.1",
        arg=middle - width / 2,
    )
    page.wait_for_function(f"x => Math.abs({RANGE}[1] - x) < 0.1", arg=middle + width / 2)


def test_a_zoom_right_after_another_step_is_of_that_one(open_page: Open) -> None:
    page = open_page("?x=100,200")
    for key in "]w":
        page.keyboard.press(key)
    wait_for_query(page, r"step=1&x=")
    page.wait_for_function(f"() => {RANGE}[1] - {RANGE}[0] > 2000")  # half of a step, not of what was in view


def test_a_drag_pans_and_the_wheel_zooms(open_page: Open) -> None:
    page = open_page()
    low, high = view_range(page)
    page.locator("#timeline").scroll_into_view_if_needed()
    left, right = (page.evaluate(PIXEL, [low + (high - low) * share, 0.5]) for share in (0.25, 0.5))
    page.mouse.move(right["x"], right["y"])
    page.mouse.down()
    page.mouse.move(left["x"], left["y"], steps=5)
    page.mouse.up()
    page.wait_for_function(f"x => Math.abs({RANGE}[0] - x[0]) < x[1]", arg=[(3 * low + high) / 4, (high - low) / 100])
    page.wait_for_function("() => location.search.includes('x=')")
    page.mouse.wheel(0, -300)
    page.wait_for_function(f"w => {RANGE}[1] - {RANGE}[0] < w", arg=0.95 * (high - low))


def test_a_click_tells_of_a_kernel_and_leads_to_the_other_mode(open_page: Open) -> None:
    page = open_page("?bands=eager,graph&x=0,700")
    page.locator("#timeline").scroll_into_view_if_needed()
    kernel = page.evaluate(LONGEST_OP, "eager")
    page.mouse.click(kernel["x"], kernel["y"])
    wait_for_query(page, rf"op=eager(%2C|,){kernel['row']}")
    details = page.locator("#details")
    for told in ("its launch", "overhead", "before it", "all of this name", "in other modes"):
        expect(details).to_contain_text(told)
    page.wait_for_function(
        "() => document.querySelector('#timeline .js-plotly-plot').data.some(trace => trace.name === 'launch to op')"
    )
    details.get_by_role("link", name=re.compile("graph")).first.click()
    wait_for_query(page, r"op=graph(%2C|,)\d+")
    page.keyboard.press("Escape")
    page.wait_for_function("() => !location.search.includes('op=')")
    expect(details).to_have_text("")


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
    page.keyboard.insert_text("splitK")
    expect(page.locator("#search-count")).to_have_text(re.compile(r"[1-9][\d,]* found"))
    assert query(page)["search"] == "splitK"


def test_no_event_is_lost_whose_answer_the_next_one_overtakes(open_page: Open) -> None:
    page = open_page()
    page.wait_for_selector("#charts .js-plotly-plot")
    held: list[Route] = []
    updates = re.compile("_dash-update-component")
    page.route(updates, lambda route: held.append(route))

    def wait_until_held(count: int) -> None:
        """Other parts of the page may ask, too."""
        until = time.monotonic() + 30
        while len(held) < count and time.monotonic() < until:
            page.wait_for_timeout(100)
        assert len(held) >= count

    page.keyboard.press("/")
    page.keyboard.insert_text("splitK")
    wait_until_held(1)
    page.locator("h1").click()
    page.locator("#next").click()
    wait_until_held(2)
    page.keyboard.press("]")
    wait_until_held(3)
    page.locator("#next").click()
    wait_until_held(4)
    for route in held:
        route.continue_()
    page.unroute(updates)
    expect(page.locator("#step-label")).to_have_text(re.compile("step 4 of"))
    expect(page.locator("#search-count")).to_have_text(re.compile(r"[1-9][\d,]* found"))
    assert query(page) == {"search": "splitK", "step": "3"}


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
    expect(readout).to_contain_text("measured")
    measured = readout.inner_text()
    page.locator("#knob-tau [role=slider]").first.press("ArrowLeft")
    wait_for_query(page, "tau=")
    expect(readout).not_to_have_text(measured)
    page.locator("#reset").click()
    page.wait_for_function("() => !location.search.includes('tau=')")
    page.wait_for_function("t => document.querySelector('#readout').innerText === t", arg=measured)


def test_the_keyboard_moves_a_slider_of_few_values(open_page: Open) -> None:
    page = open_page()
    for _ in range(3):
        page.locator("#knob-batch [role=slider]").first.press("ArrowRight")
    wait_for_query(page, "batch=8")
    expect(page.locator("#readout")).to_contain_text("batch 8")


def test_the_table_sorts_and_filters(open_page: Open) -> None:
    page = open_page()
    header = page.locator("#grid .ag-header-cell[col-id=count]")
    expect(page.locator("#grid .ag-center-cols-container .ag-row").first).to_be_visible()
    counts = page.evaluate(COUNTS)
    assert len(counts) > 10
    header.locator(".ag-header-cell-label").click()
    page.wait_for_function(f"want => JSON.stringify(({COUNTS})()) === want", arg=in_json(sorted(counts)))
    header.locator(".ag-header-cell-label").click()
    page.wait_for_function(f"want => JSON.stringify(({COUNTS})()) === want", arg=in_json(sorted(counts, reverse=True)))
    page.evaluate("dash_ag_grid.getApi('grid').setFilterModel({kernel: {type: 'contains', filter: 'elementwise'}})")
    assert 0 < page.evaluate("dash_ag_grid.getApi('grid').getDisplayedRowCount()") < len(counts)


def test_what_could_be_fused_is_one_of_the_tables_and_the_graph_doctor_stands_by_itself(open_page: Open) -> None:
    page = open_page()
    expect(page.locator("#grid .ag-center-cols-container .ag-row").first).to_be_visible()
    page.locator("#table").get_by_label("fusion").check()
    rows = page.locator("#grid .ag-center-cols-container .ag-row")
    expect(rows.filter(has_text="residual add + RMSNorm")).to_contain_text("263 of 263 launches promised")
    expect(page.locator("#table-note")).to_contain_text("648 → 100 launches")
    expect(page.get_by_label("serving")).to_have_count(0)
    expect(page.locator(".doctor p")).to_have_text(re.compile("^graph and fused_graph: every kernel runs in a graph"))


def test_two_modes_are_chosen_and_compared(open_page: Open) -> None:
    page = open_page()
    for picker, mode in (("compare-a", "eager"), ("compare-b", "fused")):
        page.locator(f"#{picker}").click()
        page.get_by_role("option", name=mode, exact=True).click()
    wait_for_query(page, "compare=eager,fused")
    expect(page.locator("#comparison")).to_contain_text(re.compile("merged", re.IGNORECASE))


def test_a_row_of_a_comparison_is_shown_in_the_timeline(open_page: Open) -> None:
    page = open_page("?compare=eager,fused")
    page.locator("#comparison button.link").first.click()
    wait_for_query(page, r"op=(eager|fused)(%2C|,)\d+")
    assert "x" in query(page)
    expect(page.locator("#details")).to_contain_text("duration")
    expect(page.locator("#timeline")).to_be_in_viewport()


def test_a_row_of_the_table_is_shown_in_the_timeline(open_page: Open) -> None:
    page = open_page()
    page.locator("#grid .ag-center-cols-container .ag-row .ag-cell").first.click()
    wait_for_query(page, r"op=\w+(%2C|,)\d+")
    expect(page.locator("#details")).to_contain_text("duration")
    expect(page.locator("#timeline")).to_be_in_viewport()


def test_a_link_shows_a_colleague_the_same_view(open_page: Open) -> None:
    link = "?bands=graph,eager&step=1&x=10,400&align=time&search=gemm&overlays=queue&theme=dark"
    page = open_page(link)
    assert view_range(page) == (10, 400)
    expect(page.locator("#step-label")).to_have_text(re.compile("step 2 of"))
    expect(page.locator("#search")).to_have_value("gemm")
    assert page.locator("html").get_attribute("data-theme") == "dark"
    page.reload()
    page.wait_for_selector("#timeline .bglayer", state="attached")
    page.wait_for_function(f"() => JSON.stringify({RANGE}) === '[10,400]'")


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
    assert not serious_findings(open_page())
