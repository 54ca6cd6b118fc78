"""Draws the README's picture, docs/report.svg, and those of docs/dashboard.md from the demo capture.

Run python docs/pictures.py; the dashboard is drawn in an installed Chromium, and needs playwright.
"""

from __future__ import annotations

import io
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Final

import launchscope
from launchscope.analysis import report_story
from playwright.sync_api import sync_playwright
from rich.console import Console
from rich.text import Text

if TYPE_CHECKING:
    from playwright.sync_api import Page

ROOT: Final = Path(__file__).parents[1]
CAPTURE: Final = ROOT / "fixtures" / "captures" / "llama_1b.zip"
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)
COLUMNS: Final = 100
WIDTH: Final = 1280
SETTLED_MS: Final = 3_000  # for the last chart to be drawn

PICTURES: Final = {
    "dashboard-first": ("", None, 1205),
    "dashboard-zoom": ("?bands=eager,graph&x=1000,1250&op=eager,776", "Timelines", 808),
    "dashboard-compare": ("?compare=eager,fused", "Compare", 915),
}
"""Name → what stands in the page's address, the heading at the top (the page's own top without one), height in px."""


def main() -> None:
    draw_report()
    draw_dashboard()


def draw_report() -> None:
    """The report in a terminal."""
    console = Console(record=True, width=COLUMNS, file=io.StringIO(), force_terminal=True, color_system="truecolor")
    console.print("$ launchscope profile fixtures/models/llama_1b.py --steps 5", style="bold", highlight=False)
    report = launchscope.load(CAPTURE)
    console.print(Text.from_ansi(report_story.render_terminal(report, width=COLUMNS, color=True, verbose=False)))
    svg = console.export_svg(title="launchscope")
    svg = re.sub(r"@font-face \{.*?\}\s*", "", svg, flags=re.DOTALL)  # fonts that a browser would fetch
    (ROOT / "docs" / "report.svg").write_text(svg)


def draw_dashboard() -> None:
    chromium = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    assert chromium is not None, "needs Chromium, and none is installed"
    with served() as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=[*FLAGS])
        for name, (query, heading, height) in PICTURES.items():
            page = browser.new_page(viewport={"width": WIDTH, "height": height}, color_scheme="light")
            page.goto(address + query)
            (ROOT / "docs" / f"{name}.png").write_bytes(picture(page, heading))
            page.close()
        browser.close()


def picture(page: Page, heading: str | None) -> bytes:
    """What is in view, once it is drawn, with this heading at the top."""
    page.wait_for_selector("#timeline .bglayer, #timeline .barlayer", state="attached")
    page.wait_for_timeout(SETTLED_MS)
    if heading is not None:
        top = page.get_by_role("heading", name=heading, exact=True).bounding_box()
        assert top is not None
        page.evaluate("y => window.scrollTo(0, y)", top["y"] - 12)
        page.wait_for_timeout(SETTLED_MS)
    return page.screenshot()


@contextmanager
def served() -> Iterator[str]:
    """Where ``launchscope dashboard`` serves the demo capture."""
    command = [sys.executable, "-m", "launchscope", "dashboard", str(CAPTURE), "--port", "0", "--no-browser"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = next((re.search(r"http://\S+", line) for line in server.stderr if "open http" in line), None)
        assert found is not None, "it ended before it served"
        try:
            yield found.group()
        finally:
            server.send_signal(signal.SIGINT)


if __name__ == "__main__":
    main()
