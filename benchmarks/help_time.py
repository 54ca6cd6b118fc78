"""How long ``launchscope --help`` takes beside ``python -c "import click"``; at most 2× is the promise.

    python benchmarks/help_time.py [rounds]

Runs alternate, so that a busy machine slows both. Prints median and fastest of each, and the ratio of the medians.
"""

from __future__ import annotations

import subprocess
import sys
import time
from statistics import median

BASELINE = ["-c", "import click"]
COMMANDS = [["--help"], *([name, "--help"] for name in ("profile", "analyze", "export", "calibrate", "demo"))]


def seconds(arguments: list[str]) -> float:
    begun = time.perf_counter()
    subprocess.run([sys.executable, *arguments], check=True, stdout=subprocess.DEVNULL)
    return time.perf_counter() - begun


def main(rounds: int) -> None:
    rows = {"import click": BASELINE} | {f"launchscope {' '.join(c)}": ["-m", "launchscope", *c] for c in COMMANDS}
    times: dict[str, list[float]] = {name: [] for name in rows}
    for _ in range(rounds):
        for name, arguments in rows.items():
            times[name].append(seconds(arguments))
    baseline = median(times["import click"])
    for name, taken in times.items():
        middle = median(taken)
        print(f"{name:<32} {middle * 1e3:6.1f} ms  (fastest {min(taken) * 1e3:6.1f})  {middle / baseline:5.2f}×")


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 15)
