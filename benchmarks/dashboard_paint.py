"""How long a person waits for the dashboard in a browser, and what comes over the wire for it.

    python benchmarks/dashboard_paint.py [--kernels 1000,100000,1000000] [--keys 60]

The traces of dashboard_speed.py, served on this machine to a headless Chromium that must be installed, its cache off.
From the request for the page it takes ``answer`` to the first paint, which has verdict, cards and a picture of the
timelines, and ``timelines`` until these are painted and answer to a mouse. Then keys zoom and pan: ``moved`` is from
a key to the next paint, of the figure as it was, moved; ``filled in`` to the paint of what the server drew for the new
view. Medians and 95th percentiles of all keys. Bytes are compressed, as they are sent: the whole first page, the median
and the most of a key.
"""

from __future__ import annotations

import argparse
import logging
import os
import platform
import random
import shutil
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, Final, NamedTuple

from dashboard_speed import synthetic
from launchscope import __version__
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model.document import ReportDocument
from launchscope.analysis.report import Report
from launchscope.dashboard.opened import open_bands
from launchscope.dashboard.page.server import Access
from launchscope.dashboard.site.app import build_app
from launchscope.dashboard.watched import Watched
from playwright.sync_api import sync_playwright
from werkzeug.serving import make_server

CHROMIUM: Final = ("chromium", "chromium-browser", "google-chrome")
FLAGS: Final = ("--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking")

PAINTED: Final = "() => document.querySelector('#timeline .hm, #timeline .barlayer .point') !== null"
SINCE_ASKED: Final = "() => new Promise(done => requestAnimationFrame(() => setTimeout(() => done(performance.now()))))"
FIRST_PAINT: Final = "() => performance.getEntriesByName('first-contentful-paint')[0].startTime"
PRESS: Final = """async key => {
    const plot = document.querySelector('#timeline .js-plotly-plot'), before = plot.layout.uirevision;
    const painted = () => new Promise(done => requestAnimationFrame(() => setTimeout(done)));
    const begun = performance.now();
    document.body.dispatchEvent(new KeyboardEvent('keydown', {key, bubbles: true}));
    await painted();
    const moved = performance.now() - begun;
    while (plot.layout.uirevision === before) await new Promise(done => setTimeout(done, 2));
    await painted();
    return [moved, performance.now() - begun];
}"""
"""A paint has been when a task that was queued in its frame runs."""


class Row(NamedTuple):
    """One line of the table: ms and bytes."""

    kernels: int
    answer_ms: float
    first_ms: float
    first_bytes: int
    moved_ms: list[float]
    filled_ms: list[float]
    key_bytes: list[int]


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernels", default="1000,100000,1000000")
    parser.add_argument("--keys", type=int, default=60)
    options = parser.parse_args(arguments)
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}")
    logging.getLogger("werkzeug").setLevel(logging.ERROR)
    print("| kernels | answer | timelines | moved, p95 | filled in, p95 | first page | a key, most |")
    print("|--:|--:|--:|--:|--:|--:|--:|")
    for count in map(int, options.kernels.split(",")):
        row = measure(count, options.keys)
        sizes = f"{row.first_bytes / 1e6:.2f} MB | {median(row.key_bytes) / 1e3:.0f}, {max(row.key_bytes) / 1e3:.0f} KB"
        first = f"{row.answer_ms / 1e3:.1f} s | {row.first_ms / 1e3:.1f} s"
        print(f"| {row.kernels:,} | {first} | {_times(row.moved_ms)} | {_times(row.filled_ms)} | {sizes} |", flush=True)


def measure(count: int, keys: int) -> Row:
    """The page of a trace of this many kernels."""
    executable = next(filter(None, map(shutil.which, CHROMIUM)), None)
    with served(count) as address, sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=executable, args=[*FLAGS])
        page = browser.new_context(viewport={"width": 1280, "height": 900}).new_page()
        wire: Any = page.context.new_cdp_session(page)
        wire.send("Network.enable")
        wire.send("Network.setCacheDisabled", {"cacheDisabled": True})
        sizes: list[int] = []
        wire.on("Network.loadingFinished", lambda loaded: sizes.append(int(loaded["encodedDataLength"])))
        page.goto(address, wait_until="commit")
        page.wait_for_function(PAINTED, polling="raf")
        first_ms = page.evaluate(SINCE_ASKED)
        answer_ms = page.evaluate(FIRST_PAINT)
        page.wait_for_load_state("networkidle")
        first_bytes = sum(sizes)
        times, key_bytes = [], []
        for key in moves(keys):
            sizes.clear()
            times.append(page.evaluate(PRESS, key))
            page.wait_for_load_state("networkidle")
            page.wait_for_timeout(50)
            key_bytes.append(sum(sizes))
        browser.close()
    moved, filled = zip(*times, strict=True)
    return Row(count, answer_ms, first_ms, first_bytes, [*moved], [*filled], key_bytes)


def moves(count: int) -> Iterator[str]:
    """Out to the whole trace, into it, sideways, and out again."""
    chance = random.Random(7)
    depth = 0
    for _ in range(count):
        key = chance.choices("wsad", weights=(6 if depth < 6 else 1, 6 if depth > -6 else 1, 2, 2))[0]
        depth += {"w": 1, "s": -1}.get(key, 0)
        yield key


@contextmanager
def served(count: int) -> Iterator[str]:
    """Where the page of a synthetic trace is."""
    analysis = analyze_trace(synthetic(count), name="synthetic")
    document = ReportDocument(
        launchscope=__version__, target=None, environment=None, traces=[analysis.document], profile=None
    )
    server = make_server("127.0.0.1", 0, lambda *_: [], threaded=True)
    access = Access.of("127.0.0.1", server.port)
    server.app = build_app(open_bands(Report(document, (analysis,))), access, Watched(())).server
    thread = threading.Thread(target=server.serve_forever, daemon=True)
    thread.start()
    yield access.url
    server.shutdown()
    thread.join()


def _times(ms: list[float]) -> str:
    ranked = sorted(ms)
    return f"{median(ms):.0f}, {ranked[min(len(ranked) - 1, int(len(ranked) * 0.95))]:.0f} ms"


if __name__ == "__main__":
    main()
