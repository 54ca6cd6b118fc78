"""How long a table of ranks takes, and in how much memory, by the number of ranks and of workers.

    python benchmarks/many_ranks.py [--ranks 256] [--mb 20] [--workers 2] [--packed] [--folder DIR]

Made-up ranks (synthetic_traces.py: few timelines under many names, so the page cache holds what is read), as whole
commands from start to exit, ``launchscope analyze --ranks``. Told are

- the time of a quarter, a half and all of the ranks, and how far it is from a straight line through them;
- one worker against ``--workers``, in turn, on half of the ranks; 1.7 is asked of two workers on two cores;
- the most memory that a worker has held by its tenth file, and by its last: nothing may add up.

The ratios hold on a machine that does nothing else: its load is printed beside them, and the processor time of all
processes, which others' work changes less. Exits with 1 where a ratio is missed.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

import numpy as np
from synthetic_traces import write_ranks

TWO_WORKERS: Final = 1.7
STRAIGHT: Final = 0.10  # of the time of all: the most that a point may lie off the line
FLAT: Final = 1.10  # the peak after all files ÷ the one after ten
EARLY: Final = 10


class Run(NamedTuple):
    """One command."""

    ranks: int
    workers: int
    seconds: float
    cpu_seconds: float  # of all its processes
    document: dict[str, Any]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ranks", type=int, default=256)
    parser.add_argument("--mb", type=float, default=20, help="size of each file, unpacked")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--packed", action="store_true", help="gzip files, as vLLM writes them")
    parser.add_argument("--folder", type=Path, help="where to make the files, and leave them")
    options = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory(prefix="launchscope-many-ranks-") as temporary:
        folder = options.folder or Path(temporary)
        begun = time.perf_counter()
        files = [path for path in sorted(folder.glob("rank*")) if options.folder] or write_ranks(
            folder, options.ranks, options.mb, packed=options.packed
        )
        size = sum(path.stat().st_size for path in files)
        print(f"{len(files)} files, {size / 1e9:.2f} GB, made in {time.perf_counter() - begun:.0f} s")
        return report(files, options.workers)


def report(files: Sequence[Path], workers: int) -> int:
    """Measure, print, and say by the exit code whether what is asked holds."""
    parts = [len(files) // 4, len(files) // 2, len(files)]
    measure(files[: parts[0]], workers)  # the page cache, and compiled Python
    runs = [measure(files[:count], workers) for count in parts]
    alone = measure(files[: parts[1]], 1)
    load = f"{os.getloadavg()[0]:.1f}" if hasattr(os, "getloadavg") else "?"
    print(f"{os.cpu_count()} cores, load {load}, {platform.machine()}, Python {platform.python_version()}\n")
    heads = ("ranks", "workers", "    time", "     CPU", "per rank", "a second", "peak, 10 files", "   all")
    print("  ".join(heads))
    for run in [*runs, alone]:
        early, late = peaks(run.document)
        cells = (
            f"{run.ranks}",
            f"{run.workers}",
            f"{run.seconds:.1f} s",
            f"{run.cpu_seconds:.1f} s",
            f"{run.seconds / run.ranks * 1e3:.0f} ms",
            f"{megabytes(run.document) / run.seconds:.0f} MB",
            f"{early / 1e6:.0f} MB",
            f"{late / 1e6:.0f} MB",
        )
        print("  ".join(cell.rjust(len(head)) for cell, head in zip(cells, heads, strict=True)))
    ratio, bent = alone.seconds / runs[1].seconds, off_the_line(runs)
    early, late = peaks(runs[-1].document)
    odd = sorted({runs[-1].document["rows"][each["row"]]["rank"] for each in runs[-1].document["odd"]})
    print(f"\none worker ÷ {workers} workers: {ratio:.2f}; off a straight line: {bent:.1%} of the whole at most")
    print(f"peak after all files ÷ after {EARLY}: {late / early:.2f}; ranks that stand out: {odd}")
    wanted = [bent <= STRAIGHT, late <= FLAT * early, workers != 2 or ratio >= TWO_WORKERS]
    return 0 if all(wanted) else 1


def measure(files: Sequence[Path], workers: int) -> Run:
    """One command over these files."""
    with tempfile.TemporaryDirectory() as folder:
        out = Path(folder, "ranks.json")
        command = [sys.executable, "-m", "launchscope", "analyze", "--ranks", "--workers", str(workers), "-o", str(out)]
        begun, spent = time.perf_counter(), cpu_seconds()
        subprocess.run([*command, *map(str, files)], check=True, stderr=subprocess.DEVNULL)
        seconds, spent = time.perf_counter() - begun, cpu_seconds() - spent
        return Run(len(files), workers, seconds, spent, json.loads(out.read_bytes()))


def cpu_seconds() -> float:
    """Of all processes that were started here and have ended, and of those that they started."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def peaks(document: dict[str, Any]) -> tuple[float, float]:
    """The most that a worker held by its tenth file, or its last of fewer, and by its last; the largest worker's."""
    grown: dict[str, list[float]] = {}
    for row in document["rows"]:
        if row["worker_peak_bytes"] is not None:
            grown.setdefault(row["worker"], []).append(row["worker_peak_bytes"])
    by_age = [sorted(held) for held in grown.values()]  # a peak never falls
    return max(held[min(EARLY, len(held)) - 1] for held in by_age), max(held[-1] for held in by_age)


def off_the_line(runs: Sequence[Run]) -> float:
    """How far a point lies off the line through all, as a share of the longest time."""
    ranks, seconds = np.array([run.ranks for run in runs]), np.array([run.seconds for run in runs])
    slope, start = np.polyfit(ranks, seconds, 1)
    return float(np.abs(seconds - (start + slope * ranks)).max() / seconds.max())


def megabytes(document: dict[str, Any]) -> float:
    """Bytes of the files."""
    return sum(row["bytes"] for row in document["rows"]) / 1e6


if __name__ == "__main__":
    sys.exit(main())
