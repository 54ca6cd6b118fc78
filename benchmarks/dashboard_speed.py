"""How long the dashboard's server takes for the timelines, and how large what it sends is.

    python benchmarks/dashboard_speed.py [--kernels 1000,100000,1000000] [--runs 15]

Traces of eager decode steps of 500 kernels, a launch and two operators each. ``lanes`` is done once for a trace, when
it is opened, and ``first`` is the figure after it; ``all`` is one of the whole trace, ``step`` of one step, ``zoom`` of
100 kernels with both overlays, each at another place every time: medians of the runs and the slowest. Sizes are of the
figure as JSON, and as gzip sends it.
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import platform
import random
import time
from collections.abc import Sequence
from statistics import median
from typing import Final, NamedTuple

import numpy as np
from launchscope.analysis.figures.analyses import analyze_trace
from launchscope.analysis.model.trace import NONE, BlockingCalls, GpuOps, HostKind, HostOps, Launches, Source, Trace
from launchscope.dashboard.band import Band
from launchscope.dashboard.theme import LIGHT
from launchscope.dashboard.timeline.lanes import prepare
from launchscope.dashboard.timeline.timeline import timeline_figure
from launchscope.dashboard.view import View

STEP_KERNELS: Final = 500
NAMES: Final = 200
WIDTH_PX: Final = 1280


class Row(NamedTuple):
    """One line of the table; times in ms, sizes in KB."""

    kernels: int
    what: str
    middle: float
    slowest: float
    json: float
    packed: float


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--kernels", default="1000,100000,1000000")
    parser.add_argument("--runs", type=int, default=15)
    options = parser.parse_args(arguments)
    rows = []
    for count in map(int, options.kernels.split(",")):
        rows += measure(count, options.runs)
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, numpy {np.__version__}")
    print(f"{'kernels':>9}  {'what':<6} {'median':>9} {'slowest':>9} {'JSON':>9} {'gzip':>9}")
    for row in rows:
        sizes = f"{row.json:6.0f} KB {row.packed:6.0f} KB" if row.json else ""
        print(f"{row.kernels:9,}  {row.what:<6} {row.middle:6.1f} ms {row.slowest:6.1f} ms {sizes}")


def measure(count: int, runs: int) -> list[Row]:
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
    rows = [Row(count, "lanes", lanes_ms, lanes_ms, 0, 0), Row(count, "first", first_ms, first_ms, 0, 0)]
    for what, view_of in (("all", all_of_it), ("step", one_step), ("zoom", zoom)):
        times = []
        for _ in range(runs):
            view = view_of()
            begun = time.perf_counter()
            figure = timeline_figure([band], view, LIGHT, WIDTH_PX)
            times.append((time.perf_counter() - begun) * 1e3)
        text = json.dumps(figure, separators=(",", ":")).encode()
        rows.append(Row(count, what, median(times), max(times), len(text) / 1e3, len(gzip.compress(text, 6)) / 1e3))
    return rows


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
