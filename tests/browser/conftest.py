"""A page of the dashboard in an installed Chromium. Every test fails on a console error and on any outside request."""

from __future__ import annotations

import contextlib
import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pytest

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

CAPTURES: Final = Path(__file__).parents[2] / "fixtures" / "captures"
CHROMIUM: Final = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
FLAGS: Final = (
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
)

THEIRS: Final = (
    "#grid",
    ".js-plotly-plot",
    ".dash-dropdown-wrapper",
    ".dash-dropdown-focus-target",
    ".dash-options-list",
)
"""Markup of the libraries."""

Open = Callable[..., "Page"]


@pytest.fixture(scope="session")
def chromium() -> Iterator[Browser]:
    if CHROMIUM is None:
        pytest.skip("needs Chromium, and none is installed")
    from playwright.sync_api import sync_playwright

    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=CHROMIUM, args=[*FLAGS])
        yield browser
        browser.close()


@contextlib.contextmanager
def served(*arguments: str | Path) -> Iterator[str]:
    """Where ``launchscope dashboard`` of these arguments serves its page."""
    command = [sys.executable, "-m", "launchscope", "dashboard", *map(str, arguments)]
    with subprocess.Popen([*command, "--port", "0", "--no-browser"], stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        found = next((re.search(r"http://\S+", line) for line in server.stderr if "open http" in line), None)
        assert found is not None, "it ended before it served"
        rest = threading.Thread(target=server.stderr.read, daemon=True)
        rest.start()
        yield found.group()
        server.send_signal(signal.SIGINT)
        assert server.wait(30) == 0
        rest.join(10)


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where ``launchscope dashboard`` serves the demo capture."""
    with served(CAPTURES / "llama_1b.zip") as where:
        yield where


@contextlib.contextmanager
def opening(chromium: Browser, address: str, drawn: str = "#timeline .bglayer, #timeline .barlayer") -> Iterator[Open]:
    """Opens pages at this address until the block ends, and waits until what ``drawn`` selects is there."""
    contexts, problems = [], list[str]()

    def open_it(query: str = "", *, width: int = 1280, height: int = 900, dark: bool = False) -> Page:
        context = chromium.new_context(
            viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
        )
        contexts.append(context)
        page = context.new_page()
        page.set_default_timeout(30_000)
        page.on("console", lambda m: problems.append(f"{m.type}: {m.text}") if m.type == "error" else None)
        page.on("pageerror", lambda error: problems.append(f"exception: {error}"))
        page.on("request", lambda r: None if r.url.startswith((address, "data:", "blob:")) else problems.append(r.url))
        page.goto(address + query)
        page.wait_for_selector(drawn, state="attached")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not problems, problems


@pytest.fixture
def open_page(chromium: Browser, address: str) -> Iterator[Open]:
    """Opens the page: ``open_page("?step=2", width=1280, dark=True)``."""
    with opening(chromium, address) as open_it:
        yield open_it


def serious_findings(page: Page) -> list[Any]:
    """What axe says of our own markup."""
    from axe_playwright_python.sync_playwright import Axe

    found: dict[str, Any] = Axe().run(page, context={"exclude": [[each] for each in THEIRS]}).response
    serious = [each for each in found["violations"] if each["impact"] in ("serious", "critical")]
    return [(each["id"], [node["html"][:200] for node in each["nodes"]]) for each in serious]
