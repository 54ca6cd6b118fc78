"""A page of the dashboard in an installed Chromium. Every test fails on a console error and on any outside request."""

from __future__ import annotations

import re
import shutil
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Final

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


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where ``launchscope dashboard`` serves the demo capture."""
    command = [sys.executable, "-m", "launchscope", "dashboard", str(CAPTURES / "llama_1b.zip")]
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


@pytest.fixture
def open_page(chromium: Browser, address: str) -> Iterator[Open]:
    """Opens the page: ``open_page("?step=2", width=1280, dark=True)``."""
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
        page.wait_for_selector("#timeline .bglayer, #timeline .barlayer", state="attached")
        return page

    yield open_it
    for context in contexts:
        context.close()
    assert not problems, problems
