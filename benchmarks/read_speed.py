"""How long it takes to read and analyze a trace, and in how much memory, beside other readers of the same file.

    python benchmarks/read_speed.py [--make graph,eager,ranks] [--mb 250] [--runs 5] [--only launchscope,orjson]

Each make of file is one of ``synthetic_traces.MAKES``. Whole processes, from start to exit, by turns in each of the
runs, so that a busy machine slows all; CPU time is theirs with their children's, which other work slows less.
``launchscope`` is ``launchscope analyze --no-cache``: read, analyzed, reported. ``orjson`` and ``json`` unpack and
parse, no more. ``hta`` is HolisticTraceAnalysis' TraceAnalysis() with its breakdown of idle time. Prints the median
times, the highest resident memory of the process tree, and both times as multiples of orjson's. The others get a
virtual environment of their own, in the folder of ``--folder``, which is kept for the next time.
"""

from __future__ import annotations

import argparse
import gzip
import os
import platform
import resource
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

from synthetic_traces import MAKES, write

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
    cpu_seconds: float
    peak_bytes: int


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--make", default=",".join(MAKES), help="what the traces are mostly of")
    parser.add_argument("--mb", type=float, default=250, help="size of each trace, unpacked")
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--only", default="launchscope,orjson,json,hta")
    parser.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "launchscope-read-speed")
    options = parser.parse_args(arguments)
    options.folder.mkdir(exist_ok=True)
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # installed packages are compiled, a checkout is on its first run
    os.environ.setdefault("PYTHONPYCACHEPREFIX", str(options.folder / "pycache"))
    commands = contenders(options.folder, options.only.split(","))
    print(f"{os.cpu_count()} cores, {platform.machine()}, Python {platform.python_version()}, median of {options.runs}")
    for make in options.make.split(","):
        trace = packed(options.folder, options.mb, make)
        print(f"\n{make}: {options.mb:g} MB of Kineto JSON ({trace.stat().st_size / 1e6:.0f} MB packed)")
        print(table(by_turns(commands, trace, options.runs)), flush=True)


def packed(folder: Path, megabytes: float, make: str) -> Path:
    """A trace of this size and make, made once."""
    trace = folder / f"{make}-{megabytes:g}mb.json.gz"
    if not trace.exists():
        plain = trace.with_suffix("")
        write(plain, megabytes, make)
        with plain.open("rb") as text, gzip.open(trace.with_suffix(".part"), "wb", compresslevel=6) as file:
            shutil.copyfileobj(text, file, 1 << 20)
        trace.with_suffix(".part").rename(trace)
        plain.unlink()
    return trace


def by_turns(commands: dict[str, list[str]], trace: Path, turns: int) -> dict[str, list[Run]]:
    """The runs of each reader; without those that fail."""
    runs: dict[str, list[Run]] = {name: [] for name in commands}
    for _ in range(turns):
        for name in list(runs):
            try:
                runs[name].append(measure([*commands[name], str(trace)]))
            except subprocess.CalledProcessError as error:
                print(f"{name}: skipped: it failed: {last_line(error.stderr)}")
                del runs[name]
    return runs


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
    """Times and highest resident memory of a process and those that it starts. CalledProcessError when it fails."""
    begun, cpu_before = time.perf_counter(), children_cpu_s()
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
    return Run(seconds, children_cpu_s() - cpu_before, peak)


def resident(process: int) -> int:
    """Bytes in memory of a process and its children, by Linux' /proc."""
    try:
        pages = int(Path(f"/proc/{process}/statm").read_text().split()[1])
        tasks = Path(f"/proc/{process}/task").iterdir()
        children = [child for task in tasks for child in (task / "children").read_text().split()]
    except (OSError, IndexError):  # it has ended
        return 0
    return pages * os.sysconf("SC_PAGE_SIZE") + sum(resident(int(child)) for child in children)


def children_cpu_s() -> float:
    """CPU time of all processes that were started from here and have ended, with their children's."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def table(runs: dict[str, list[Run]]) -> str:
    """One row per reader."""
    times = {
        name: (median(run.seconds for run in its), median(run.cpu_seconds for run in its)) for name, its in runs.items()
    }
    lines = [f"{'reader':<12} {'time':>9} {'CPU time':>9} {'peak memory':>12} {'time and CPU ÷ ' + BASELINE:>22}"]
    for name, (seconds, cpu_seconds) in sorted(times.items(), key=lambda item: item[1]):
        peak = max(run.peak_bytes for run in runs[name])
        line = f"{name:<12} {seconds:7.2f} s {cpu_seconds:7.2f} s {peak / 1e6:9.0f} MB"
        if baseline := times.get(BASELINE):
            line += f" {seconds / baseline[0]:12.2f}× {cpu_seconds / baseline[1]:7.2f}×"
        lines.append(line)
    return "\n".join(lines)


def last_line(text: str | None) -> str:
    """What a failing process said last."""
    lines = (text or "").strip().splitlines()
    return lines[-1] if lines else "it says nothing"


if __name__ == "__main__":
    main()
