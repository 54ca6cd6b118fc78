"""How long it takes to read and analyze a trace, and in how much memory, beside other readers of the same file.

    python benchmarks/read_speed.py [--mb 250] [--runs 5] [--only launchscope,orjson] [--folder DIR]

Whole processes, from start to exit, by turns in each of the runs, so that a busy machine slows all. ``launchscope`` is
``launchscope analyze --no-cache``: read, analyzed, reported. ``orjson`` and ``json`` unpack and parse, no more. ``hta``
is HolisticTraceAnalysis' TraceAnalysis() with its breakdown of idle time. Prints the median time, the highest resident
memory of the process tree, and time as a multiple of orjson's. The others get a virtual environment of their own, in
DIR, which is kept for the next time.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import shutil
import subprocess
import sys
import tempfile
import threading
import time
import venv
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from synthetic_kineto import write

BASELINE: Final = "orjson"
OTHERS: Final = ("HolisticTraceAnalysis", "pandas<3", "orjson")
SAMPLE_S: Final = 0.02  # a look takes 0.5 ms of a core that a reader of two processes needs

ORJSON: Final = "import gzip, sys, orjson; orjson.loads(gzip.open(sys.argv[1]).read())"
JSON: Final = "import gzip, sys, json; json.loads(gzip.open(sys.argv[1]).read())"
HTA: Final = """
import shutil, sys, tempfile
from hta.trace_analysis import TraceAnalysis
folder = tempfile.mkdtemp()
try:
    shutil.copy(sys.argv[1], folder + "/rank_0.json.gz")
    analysis = TraceAnalysis(trace_files={0: folder + "/rank_0.json.gz"}, trace_dir=folder)
    analysis.get_idle_time_breakdown(ranks=[0], visualize=False)
finally:
    shutil.rmtree(folder)
"""


class Run(NamedTuple):
    """One process."""

    seconds: float
    peak_bytes: int


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mb", type=float, default=250, help="size of the trace, unpacked")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="launchscope,orjson,json,hta")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "launchscope-read-speed")
    options = parser.parse_args(arguments)
    options.folder.mkdir(exist_ok=True)
    trace = packed(options.folder, options.mb)
    commands = contenders(options.folder, options.only.split(","))
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(options.runs):
        for name in list(commands):
            try:
                runs[name].append(measure([*commands[name], str(trace)]))
            except subprocess.CalledProcessError as error:
                print(f"{name}: skipped: it failed: {last_line(error.stderr)}")
                del commands[name], runs[name]
    print(table(runs, trace, options.mb))


def packed(folder: Path, megabytes: float) -> Path:
    """A trace of this size, made once."""
    trace = folder / f"{megabytes:g}mb.json.gz"
    if not trace.exists():
        plain = trace.with_suffix("")
        write(plain, megabytes)
        with plain.open("rb") as text, gzip.open(trace.with_suffix(".part"), "wb", compresslevel=6) as file:
            shutil.copyfileobj(text, file, 1 << 20)
        trace.with_suffix(".part").rename(trace)
        plain.unlink()
    return trace


def contenders(folder: Path, wanted: Sequence[str]) -> dict[str, list[str]]:
    """The commands of those that can be run; a reason for each of the others."""
    commands = {"launchscope": [sys.executable, "-m", "launchscope", "analyze", "--no-cache"]}
    python = folder / "venv" / "bin" / "python"
    problem = None if python.exists() else install(python)
    if problem is None:
        commands |= {name: [str(python), "-c", code] for name, code in (("orjson", ORJSON), ("hta", HTA))}
    else:
        print(f"orjson, hta: skipped: {problem}")
    commands["json"] = [sys.executable, "-c", JSON]
    return {name: command for name, command in commands.items() if name in wanted}


def install(python: Path) -> str | None:
    """Make the environment of the others; why it can't be, or None."""
    folder = python.parent.parent
    try:
        venv.create(folder, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "-q", *OTHERS], check=True, capture_output=True, text=True)
    except (OSError, subprocess.CalledProcessError) as error:
        shutil.rmtree(folder, ignore_errors=True)
        return f"can't be installed: {last_line(getattr(error, 'stderr', None) or str(error))}"
    return None


def measure(command: Sequence[str]) -> Run:
    """Time and highest resident memory of a process and those that it starts. CalledProcessError when it fails."""
    begun = time.perf_counter()
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
    peak = 0

    def watch() -> None:
        nonlocal peak
        while process.returncode is None:
            peak = max(peak, resident(process.pid))
            time.sleep(SAMPLE_S)

    watcher = threading.Thread(target=watch)
    watcher.start()
    _, problem = process.communicate()
    seconds = time.perf_counter() - begun
    watcher.join()
    if process.returncode:
        raise subprocess.CalledProcessError(process.returncode, command, stderr=problem)
    return Run(seconds, peak)


def resident(process: int) -> int:
    """Bytes in memory of a process and its children, by Linux' /proc."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        tasks = Path(f"/proc/{process}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except (OSError, IndexError):  # it has ended
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(int(child)) for child in children)


def table(runs: dict[str, list[Run]], trace: Path, megabytes: float) -> str:
    """One row per reader."""
    middles = {name: median(run.seconds for run in its) for name, its in runs.items() if its}
    baseline = middles.get(BASELINE)
    lines = [
        f"{megabytes:g} MB of Kineto JSON ({trace.stat().st_size / 1e6:.0f} MB packed), {os.cpu_count()} cores, "
        f"{platform.machine()}, Python {platform.python_version()}, median of {max(map(len, runs.values()))}",
        f"{'reader':<12} {'time':>9} {'fastest':>9} {'peak memory':>12} {'÷ ' + BASELINE:>9}",
    ]
    for name, middle in sorted(middles.items(), key=lambda item: item[1]):
        ratio = f"{middle / baseline:8.2f}×" if baseline else f"{'–':>9}"
        fastest, peak = min(run.seconds for run in runs[name]), max(run.peak_bytes for run in runs[name])
        lines.append(f"{name:<12} {middle:7.2f} s {fastest:7.2f} s {peak / 1e6:9.0f} MB {ratio}")
    return "\n".join(lines)


def last_line(text: str | None) -> str:
    """What a failing process said last."""
    lines = (text or "").strip().splitlines()
    return lines[-1] if lines else "it says nothing"


if __name__ == "__main__":
    main()
