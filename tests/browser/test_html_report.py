"""The report in one file, opened as by a double click: it asks for nothing, nothing is refused, all of it works."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest
from launchscope.dashboard.page.one_file import render

from ..dashboard.opening import capture, capture_as_html

pytest.importorskip("playwright", reason="needs playwright")

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser, FloatRect, Page

RANGE: Final = "document.getElementById('timeline').layout.xaxis.range"
STRIPS: Final = "document.getElementById('timeline').data.filter(trace => trace.type === 'heatmap').length"
TITLES: Final = "document.getElementById('timeline').layout.annotations.map(each => each.text).join()"
IS_DRAWN: Final = "#timeline .barlayer path, #timeline .heatmaplayer image"
VIOLATIONS: Final = """
window.violations = [];
document.addEventListener("securitypolicyviolation", (event) => window.violations.push(event.violatedDirective));
"""

OpenFile = Callable[..., "Page"]


@pytest.fixture(scope="module")
def file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("mailed") / "report.html"
    path.write_text(capture_as_html(), "utf-8")
    return path


@pytest.fixture
def open_file(chromium: Browser, file: Path) -> Iterator[OpenFile]:
    """Opens the file without a network. Fails on a console message, a request and on what the policy refuses."""
    contexts, pages, problems = [], list[Any](), list[str]()

    def open_it(*, script: bool = True, **options: Any) -> Page:
        context = chromium.new_context(java_script_enabled=script, offline=True, **options)
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(60_000)
        page.on("console", lambda message: problems.append(f"{message.type}: {message.text}"))
        page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
        page.on("request", lambda request: problems.append(request.url) if request.url != file.as_uri() else None)
        page.add_init_script(VIOLATIONS)
        page.goto(file.as_uri())
        if script:
            pages.append(page)
            page.wait_for_selector(IS_DRAWN, state="attached")
        return page

    yield open_it
    for page in pages:
        assert page.evaluate("window.violations") == []
    for context in contexts:
        context.close()
    assert not problems, problems


def until(page: Page, condition: str, seconds: float = 60) -> None:
    """Wait for it. (Playwright's own way makes a function of text, which the file forbids.)"""
    end = time.monotonic() + seconds
    while not page.evaluate(condition):
        assert time.monotonic() < end, condition
        page.wait_for_timeout(50)


def view_range(page: Page) -> tuple[float, float]:
    low, high = page.evaluate(RANGE)
    return low, high


def plot_area(page: Page) -> FloatRect:
    page.locator("#timeline").scroll_into_view_if_needed()
    box = page.locator("#timeline .nsewdrag").first.bounding_box()
    assert box is not None
    return box


def test_it_opens_with_the_answer_the_timelines_and_the_charts(open_file: OpenFile) -> None:
    page = open_file()
    expect(page.locator(".sentence")).to_contain_text("eager is LAUNCH-BOUND")
    expect(page.locator(".card")).to_have_count(4)
    for mode in ("eager", "graph", "fused", "fused_graph"):
        assert f"<b>{mode}</b>" in page.evaluate(TITLES)
    for chart in ("idle", "durations", "bound"):
        expect(page.locator(f"#{chart} .main-svg").first).to_be_visible()


def test_eval_other_scripts_and_requests_are_refused(chromium: Browser, file: Path) -> None:
    page = chromium.new_page()
    page.add_init_script(VIOLATIONS)
    page.goto(file.as_uri())
    page.wait_for_selector(IS_DRAWN, state="attached")
    page.evaluate("""() => setTimeout(() => {  // by itself, as what the test calls may do more than the page
        try { eval("window.ran = 1"); } catch (error) { window.refused = error.name; }
        const more = document.createElement("script");
        more.textContent = "window.ran = 1";
        document.body.append(more);
        fetch("https://example.com/").catch(() => {});
    })""")
    until(page, "window.violations.length === 3")
    assert page.evaluate("window.refused") == "EvalError"
    assert page.evaluate("window.ran === undefined")
    assert set(page.evaluate("window.violations")) == {"script-src", "script-src-elem", "connect-src"}
    page.close()


def test_one_zooms_with_the_wheel_until_every_kernel_is_there_and_can_be_pointed_at(open_file: OpenFile) -> None:
    page = open_file()
    whole = view_range(page)
    assert page.evaluate(STRIPS) > 0
    page.get_by_label("step to step").check()
    until(page, f"{RANGE}[1] < 2")
    area = plot_area(page)
    middle = area["x"] + area["width"] / 2
    page.mouse.move(middle, area["y"] + 60)
    for _ in range(60):
        page.mouse.wheel(0, -300)
        page.wait_for_timeout(50)
        if view_range(page)[1] - view_range(page)[0] < 0.06:
            break
    until(page, f"{STRIPS} < 8 && document.querySelectorAll('#timeline .bars path').length > 200")
    told = []
    for place in range(60):
        page.mouse.move(middle + 2 * place, area["y"] + 60)
        page.wait_for_timeout(60)
        told += page.locator("#timeline .hoverlayer .hovertext").all_text_contents()
        if any("gap before it" in text for text in told):
            break
    assert any(re.search(r"on stream 7.*gap before it", text) for text in told), told
    page.keyboard.press("f")
    until(page, f"{RANGE}[1] - {RANGE}[0] > 1")
    page.get_by_label("same scale").check()
    until(page, f"{RANGE}[1] > 100")
    assert view_range(page) == whole


def test_keys_zoom_and_a_drag_pans(open_file: OpenFile) -> None:
    page = open_file()
    low, high = view_range(page)
    for _ in range(3):
        page.keyboard.press("w")
    until(page, f"{RANGE}[1] - {RANGE}[0] < {(high - low) / 7}")
    before, area = view_range(page), plot_area(page)
    page.mouse.move(area["x"] + 600, area["y"] + 100)
    page.mouse.down()
    page.mouse.move(area["x"] + 300, area["y"] + 100, steps=5)
    page.mouse.up()
    until(page, f"{RANGE}[0] > {before[0] + 100}")


def test_a_step_is_picked(open_file: OpenFile) -> None:
    page = open_file()
    assert "step 1 of 4" in page.evaluate(TITLES)
    expect(page.get_by_label("Step before")).to_be_disabled()
    page.get_by_label("Step after").click()
    until(page, f"{TITLES}.includes('step 2 of 4')")
    page.get_by_label("Step", exact=True).select_option("step 4 of 4")
    until(page, f"{TITLES}.includes('step 4 of 4')")
    expect(page.get_by_label("Step after")).to_be_disabled()
    page.get_by_label("Step before").focus()
    page.keyboard.press("[")
    until(page, f"{TITLES}.includes('step 3 of 4')")


def test_the_theme_follows_the_system_and_can_be_changed(open_file: OpenFile) -> None:
    page = open_file(color_scheme="dark")
    paper = "document.getElementById('timeline').layout.paper_bgcolor"
    assert page.evaluate(paper) == "#14171A"
    assert page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(20, 23, 26)"
    page.emulate_media(color_scheme="light")
    until(page, f"{paper} === '#FFFFFF'")
    page.locator("#theme").click()
    until(page, f"{paper} === '#14171A'")
    assert page.evaluate("document.getElementById('idle').layout.paper_bgcolor") == "#14171A"


def test_without_scripts_all_but_the_figures_is_there(open_file: OpenFile) -> None:
    page = open_file(script=False, color_scheme="dark")
    expect(page.locator(".sentence")).to_contain_text("eager is LAUNCH-BOUND")
    expect(page.locator(".card").nth(1)).to_contain_text("2.22 ms")
    expect(page.locator("#table-kernels tbody tr").first).to_be_visible()
    page.locator("#table-gaps summary").click()
    expect(page.locator("#table-gaps tbody tr")).to_have_count(500)
    expect(page.get_by_text(re.compile("need JavaScript"))).to_be_visible()
    expect(page.locator(".timelines")).to_be_hidden()
    expect(page.locator("body")).to_have_css("background-color", "rgb(20, 23, 26)")


def test_a_line_that_tries_it_unfolds_with_the_keyboard_and_without_scripts(chromium: Browser, tmp_path: Path) -> None:
    path = tmp_path / "fault.html"
    path.write_text(render(capture("faults/static_input").report), "utf-8")
    page = chromium.new_page(java_script_enabled=False, offline=True, viewport={"width": 800, "height": 900})
    page.goto(path.as_uri())
    line = page.locator(".next details").first
    folded = line.bounding_box()
    line.locator("summary").focus()
    page.keyboard.press("Enter")
    expect(line).to_have_attribute("open", "")
    unfolded = line.bounding_box()
    assert folded is not None
    assert unfolded is not None
    assert unfolded["height"] > 1.5 * folded["height"]
    expect(line).to_contain_text("at llama_1b_faults.py:208 in step")
    page.context.close()


def test_no_serious_finding_of_axe_in_our_own_markup(open_file: OpenFile) -> None:
    axe = pytest.importorskip("axe_playwright_python.sync_playwright").Axe
    page = open_file()
    found: dict[str, Any] = axe().run(page, context={"exclude": [[".js-plotly-plot"]]}).response
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    assert not serious, json.dumps([(v["id"], [n["html"][:200] for n in v["nodes"]][:3]) for v in serious], indent=1)
