"""A person opens another file in the page, in a real browser."""

from __future__ import annotations

import re
import socket
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

import launchscope
from launchscope.dashboard.site.uploads import KEPT
from launchscope.fixtures.builder import trace
from playwright.sync_api import expect

if TYPE_CHECKING:
    from playwright.sync_api import Browser

    from .conftest import Open

FIXTURES: Final = Path(launchscope.__file__).parent / "fixtures"
expect.set_options(timeout=30_000)
INPUT: Final = "Open another trace or capture .zip"


def test_a_chosen_file_gets_its_own_page_with_its_verdict(open_page: Open) -> None:
    page = open_page("?theme=dark")
    first = page.url
    page.get_by_label(INPUT).set_input_files(FIXTURES / "captures" / "serve_graph.zip")
    page.wait_for_url(re.compile(r"/r/[^/]{20,}/\?theme=dark"))
    expect(page.locator(".sentence")).to_contain_text("as written is GPU-BOUND")
    page.wait_for_selector("#timeline .bglayer, #timeline .barlayer", state="attached")
    expect(page.locator("#grid .ag-center-cols-container .ag-row").first).to_be_visible()
    page.get_by_label("Step after").click()
    page.wait_for_url(re.compile(r"/r/.*step=1"))
    with page.expect_download() as download:
        page.get_by_role("link", name="JSON").click()
    assert '"serve_graph.zip/' in download.value.path().read_text()
    page.go_back()
    page.goto(first)
    expect(page.locator(".card.baseline h2")).to_have_text("eager")


def test_a_file_that_is_no_trace_gives_a_message_beside_the_input(
    chromium: Browser, address: str, tmp_path: Path
) -> None:
    """Without ``open_page``: the browser logs an answer of 422 as an error."""
    file = tmp_path / "notes.txt"
    file.write_text("<b>no trace</b>")
    page = chromium.new_page()
    page.goto(address)
    page.get_by_label(INPUT).set_input_files(file)
    alert = page.locator("#upload [role=alert]")
    expect(alert).to_have_text(re.compile(r"^notes\.txt: HTML or XML"))
    expect(page.get_by_label(INPUT)).to_be_enabled()
    expect(page.get_by_label(INPUT)).to_be_focused()
    assert page.url == address
    page.close()


def test_a_page_that_made_room_for_others_says_so_where_it_stands(chromium: Browser, address: str) -> None:
    page = chromium.new_page()
    page.goto(address)
    page.get_by_label(INPUT).set_input_files(FIXTURES / "traces" / "torchao_quantize_vit_bfloat16.json.gz")
    page.wait_for_url(re.compile("/r/"))
    expect(page.locator("#step-label")).to_have_text("step 1 of 5")
    step = trace().step(0).launch(at=10, dur=5).kernel(at=20, dur=30).json()
    for _ in range(KEPT):
        assert page.request.post(f"{address}upload?name=step.json", data=step).status == 201
    page.get_by_label("Step after").click()
    expect(page.locator("#changed")).to_contain_text("This page is gone: newer files were opened since")
    page.reload()
    expect(page.locator("body")).to_contain_text("This page is gone")
    page.close()


def test_a_file_that_waits_for_another_says_so(open_page: Open, tmp_path: Path) -> None:
    page = open_page()
    where = urlsplit(page.url)
    with socket.create_connection((where.hostname, where.port), timeout=30) as other:
        other.sendall(f"POST /upload HTTP/1.1\r\nHost: {where.netloc}\r\nContent-Length: 9\r\n\r\n".encode())
        file = trace().step(0).launch(at=10, dur=5).kernel(at=20, dur=30).write(tmp_path / "mine.json")
        page.get_by_label(INPUT).set_input_files(file)
        expect(page.get_by_role("status").filter(has_text="mine.json")).to_have_text(
            "mine.json waits: another file is read first …"
        )
        other.sendall(b"no trace!")
    page.wait_for_url(re.compile(r"/r/[^/]{20,}/"))
