"""What the page costs on the wire, and the one outside page that it can hand a trace to."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Page, Route

    from .conftest import Open

FIRST_PAGE_BYTES: Final = 2_600_000
ZOOM_BYTES: Final = 300_000

PERFETTO: Final = """<!doctype html><title>stands in for ui.perfetto.dev</title><script>
addEventListener("message", (event) => {
    if (event.data === "PING") event.source.postMessage("PONG", event.origin);
    else window.got = {title: event.data.perfetto.title, bytes: event.data.perfetto.buffer.byteLength};
});
</script>"""


class Wire:
    """Counts what comes over the wire, compressed as it is, with the browser's cache off."""

    def __init__(self, page: Page) -> None:
        self.bytes = 0
        session: Any = page.context.new_cdp_session(page)
        session.send("Network.enable")
        session.send("Network.setCacheDisabled", {"cacheDisabled": True})
        session.on("Network.loadingFinished", self._add)

    def _add(self, finished: dict[str, Any]) -> None:
        self.bytes += int(finished["encodedDataLength"])


def test_the_first_page_and_each_zoom_stay_small(open_page: Open) -> None:
    page = open_page()
    settle(page)  # else the end of the first visit is counted too
    wire = Wire(page)
    page.reload()
    settle(page)
    assert 1_000_000 < wire.bytes < FIRST_PAGE_BYTES
    for key in "wwwwdda":
        before, url = wire.bytes, page.url
        page.keyboard.press(key)
        page.wait_for_function("url => location.href !== url", arg=url)
        page.wait_for_load_state("networkidle")
        page.wait_for_timeout(300)
        assert 500 < wire.bytes - before < ZOOM_BYTES


def settle(page: Page) -> None:
    """Wait until everything is there."""
    page.wait_for_selector("#timeline .barlayer .point", state="attached")
    page.wait_for_selector("#grid .ag-row", state="attached")  # comes last
    page.wait_for_load_state("networkidle")


def test_a_trace_is_handed_to_the_perfetto_ui_inside_the_browser(open_page: Open) -> None:
    page = open_page()
    asked: list[str] = []

    def stand_in(route: Route) -> None:
        asked.append(route.request.url)
        route.fulfill(content_type="text/html", body=PERFETTO)

    page.context.route("https://ui.perfetto.dev/**", stand_in)
    told = re.compile("Opens ui.perfetto.dev, an outside page")
    expect(page.locator("#perfetto")).to_have_attribute("title", told)
    with page.expect_popup() as opened:
        page.locator("#perfetto").click()
    outside = opened.value
    outside.wait_for_function("() => window.got !== undefined")
    got = outside.evaluate("window.got")
    assert got["title"] == page.title()
    assert got["bytes"] == len(page.request.get(page.url.split("?")[0] + "download/trace.pftrace").body())
    assert asked == ["https://ui.perfetto.dev/"]
