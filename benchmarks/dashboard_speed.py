"""How long the dashboard takes, and how large what it sends is: at the server, or for a person in a browser.

    python benchmarks/dashboard_speed.py [--kernels 1000,100000,1000000] [--runs 15] [--browser]

Traces of eager decode steps of 500 kernels, a launch and two operators each.

At the server ``lanes`` is done once for a trace, when it is opened, and ``first`` is the figure after it; ``all`` is
one of the whole trace, ``step`` of one step, ``zoom`` of 100 kernels with both overlays, each at another place every
time: medians of the runs and the slowest. Sizes are of the figure as JSON, and as gzip sends it.

``--browser``: the page served on this machine to a headless Chromium that must be installed, its cache off. From the
request for the page it takes ``answer`` to the first paint, which has verdict, cards and a picture of the timelines,
and ``timelines`` until these are painted and answer to a mouse. Then keys zoom and pan, four a run: ``moved`` is from
a key to the next paint, of the figure as it was, moved; ``filled in`` to the paint of what the server drew for the new
view. Medians and 95th percentiles of all keys. Bytes are compressed, as they are sent: the whole first page, the
median and the most of a key.
"""

from __future__ import annotations

import argparse
import gzip
import json
import logging
import os
import platform
import random
import shutil
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from statistics import median
from typing import Any, Final

import numpy as np
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model import __version__
from launchscope.analysis.model.document import ReportDocument
from launchscope.analysis.model.trace import NONE, BlockingCalls, GpuOps, HostKind, HostOps, Launches, Source, Trace
from launchscope.analysis.report import Report
from launchscope.dashboard.band import Band
from launchscope.dashboard.opened_report import Watched, open_bands
from launchscope.dashboard.page.server import Access
from launchscope.dashboard.plotting import LIGHT
from launchscope.dashboard.site.serve import build_app
from launchscope.dashboard.timeline.lanes import prepare
from launchscope.dashboard.timeline.timeline import timeline_figure
from launchscope.dashboard.view import View
from werkzeug.serving import make_server

STEP_KERNELS: Final = 500
NAMES: Final = 200
WIDTH_PX: Final = 1280
KEYS_A_RUN: Final = 4
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


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernels", default="1000,100000,1000000")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--browser", action="store_true")
    options = parser.parse_args(arguments)
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    if options.browser:
        logging.getLogger("werkzeug").setLevel(logging.ERROR)
        print("| kernels | answer | timelines | moved, p95 | filled in, p95 | first page | a key, most |")
        print("|--:|--:|--:|--:|--:|--:|--:|")
    else:
        print(f"{'kernels':>9}  {'what':<6} {'median':>9} {'slowest':>9} {'JSON':>9} {'gzip':>9}")
    for count in map(int, options.kernels.split(",")):
        if options.browser:
            print(f"| {count:,} | {in_a_browser(count, KEYS_A_RUN * options.runs)} |", flush=True)
        else:
            print("\n".join(f"{count:9,}  {row}" for row in at_the_server(count, options.runs)), flush=True)


def at_the_server(count: int, runs: int) -> Iterator[str]:
    """Every figure of a trace of this many kernels."""
    band = Band("eager", "eager", analyze_trace(synthetic(count), name="synthetic"), None)
    begun = time.perf_counter()
    prepare(band)
    lanes_ms = (time.perf_counter() - begun) * 1e3
    windows = band.step_windows
    extent_us = (windows[-1][1] - windows[0][0]) / 1e3
    places = random.Random(7)
    step_us = extent_us / len(windows)

    def all_of_it() -> View:
        return View(x=(0.0, extent_us * places.uniform(0.9, 1)))

    def one_step() -> View:
        return View(step=places.randrange(len(windows)))

    def zoom() -> View:
        at = places.uniform(0, extent_us)
        return View(x=(at, at + step_us * 100 / STEP_KERNELS), overlays=("queue", "idle"))

    begun = time.perf_counter()
    timeline_figure([band], View(x=(0.0, count * 20.0), overlays=("queue", "idle")), LIGHT, WIDTH_PX)
    first_ms = (time.perf_counter() - begun) * 1e3
    yield f"{'lanes':<6} {lanes_ms:6.1f} ms"
    yield f"{'first':<6} {first_ms:6.1f} ms"
    for what, view_of in (("all", all_of_it), ("step", one_step), ("zoom", zoom)):
        times = []
        for _ in range(runs):
            view = view_of()
            begun = time.perf_counter()
            figure = timeline_figure([band], view, LIGHT, WIDTH_PX)
            times.append((time.perf_counter() - begun) * 1e3)
        text = json.dumps(figure, separators=(",", ":")).encode()
        sizes = f"{len(text) / 1e3:6.0f} KB {len(gzip.compress(text, 6)) / 1e3:6.0f} KB"
        yield f"{what:<6} {median(times):6.1f} ms {max(times):6.1f} ms {sizes}"


def in_a_browser(count: int, keys: int) -> str:
    """The page of a trace of this many kernels."""
    from playwright.sync_api import sync_playwright

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
    sizes = f"{first_bytes / 1e6:.2f} MB | {median(key_bytes) / 1e3:.0f}, {max(key_bytes) / 1e3:.0f} KB"
    first = f"{answer_ms / 1e3:.1f} s | {first_ms / 1e3:.1f} s"
    return f"{first} | {_times(moved)} | {_times(filled)} | {sizes}"


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


def _times(ms: Sequence[float]) -> str:
    ranked = sorted(ms)
    return f"{median(ms):.0f}, {ranked[min(len(ranked) - 1, int(len(ranked) * 0.95))]:.0f} ms"


def synthetic(count: int) -> Trace:
    """Eager steps: every 18 µs an operator in another one, a launch of 5 µs, a kernel of 1 to 10 µs."""
    chance = np.random.default_rng(7)
    at = np.arange(count, dtype=np.int64) * 18_000 + chance.integers(0, 4_000, count)
    start = np.maximum.accumulate(at + 9_000)
    kernels = start, start + chance.integers(1_000, 8_000, count)
    zeros, absent, rows = np.zeros(count, np.int64), np.full(count, NONE), np.arange(count)
    steps = np.arange(0, count, STEP_KERNELS)
    last = np.minimum(steps + STEP_KERNELS, count) - 1
    kernel_names = [
        f"void at::native::elementwise_kernel<{n}, at::native::Functor_{n}<float>>(int)" for n in range(NAMES)
    ]
    step_names = [f"ProfilerStep#{n}" for n in range(len(steps))]
    names = (*kernel_names, "cudaLaunchKernel", "aten::linear", "aten::mm", *step_names)
    host_start = np.concatenate([at - 4_000, at - 2_000, at[steps] - 5_000])
    host_end = np.concatenate([at + 9_000, at + 8_000, at[last] + 12_000])
    name = np.concatenate([zeros + NAMES + 1, zeros + NAMES + 2, NAMES + 3 + np.arange(len(steps))])
    kind = np.full(len(name), HostKind.OPERATOR)
    kind[2 * count :] = HostKind.ANNOTATION
    order = np.lexsort((-host_end, host_start))
    place = np.argsort(order)
    all_zero = np.zeros(len(name), np.int64)
    host = HostOps(host_start, host_end, name, kind, all_zero, all_zero + 1, all_zero + NONE)
    operator = place[count : 2 * count]
    return Trace(
        source=Source("synthetic", "kineto-json", 0),
        names=names,
        gpu_ops=GpuOps(
            *kernels,
            zeros,
            chance.integers(0, NAMES, count),
            zeros,
            zeros + 7,
            zeros,
            rows,
            rows,
            absent,
            absent,
            absent,
            absent,
        ),
        launches=Launches(at, at + 5_000, zeros + NAMES, zeros, zeros + 1, rows, zeros > 0, operator),
        blocking_calls=BlockingCalls(*(zeros[:0] for _ in range(6))),
        host_ops=host.take(order),
        events=5 * count,
        device_names={0: "synthetic"},
    )


if __name__ == "__main__":
    main()
