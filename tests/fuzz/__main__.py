"""The long campaign: python -m tests.fuzz [--mutants 20000] [--campaign 1] [--workers 2] [--only kineto,nsys]

Prints a table for docs/robustness.md, and every mutant that broke a promise; ``--write READER NUMBER FILE`` writes one.
``--hostile`` reads the files of hostile.py instead, 1 and 4 MB of each, and prints time and memory.
"""

from __future__ import annotations

import argparse
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from .campaign import SHARES, Tally, run
from .hostile import LARGE, SLOW
from .mutants import mutant


def main(arguments: Sequence[str] | None = None) -> int:
    """Run it; 1 where a promise was broken."""
    parser = argparse.ArgumentParser(prog="python -m tests.fuzz", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--mutants", type=int, default=20_000)
    parser.add_argument("--campaign", type=int, default=1, help="its number: another one has other mutants")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--only", help="readers, between commas")
    parser.add_argument("--write", nargs=3, metavar=("READER", "NUMBER", "FILE"))
    parser.add_argument("--hostile", action="store_true")
    parser.add_argument("--one", nargs=2, help=argparse.SUPPRESS)
    told = parser.parse_args(arguments)
    if told.one is not None:
        _read_one(told.one[0], int(told.one[1]))
        return 0
    if told.hostile:
        return _hostile()
    if told.write is not None:
        reader, number, file = told.write
        Path(file).write_bytes(mutant(reader, told.campaign, int(number)).data)
        return 0
    began = time.monotonic()
    readers = told.only.split(",") if told.only else list(SHARES)
    tallies = run(told.campaign, readers, told.mutants, told.workers)
    _print_table(tallies)
    print(f"\n{sum(sum(tally.count.values()) for tally in tallies.values()):,} in {time.monotonic() - began:.0f} s")
    faults = [fault for tally in tallies.values() for fault in tally.faults]
    for fault in faults:
        print(f"{fault.reader} {fault.number}: {fault.what}")
    return 1 if faults else 0


def _print_table(tallies: dict[str, Tally]) -> None:
    print("| mutants of | count | read | refused | faults | slowest, CPU s | most memory, MiB |")
    print("|---|--:|--:|--:|--:|--:|--:|")
    for reader, tally in tallies.items():
        count, slowest, largest = tally.count, tally.slowest, tally.largest
        figures = [sum(count.values()), count["read"], count["refused"], count["fault"]]
        ends = [f"{slowest.cpu_s:.2f}" if slowest else "", f"{largest.peak >> 20:,}" if largest else ""]
        print(f"| {reader} | " + " | ".join([*(f"{figure:,}" for figure in figures), *ends]) + " |")


def _hostile() -> int:
    print("| file | MB | s | MiB |\n|---|--:|--:|--:|")
    for name in (*SLOW, *LARGE):
        for size in (1_000_000, 4_000_000):
            command = [sys.executable, "-m", "tests.fuzz", "--one", name, str(size)]
            print(subprocess.run(command, capture_output=True, text=True, check=True).stdout, end="", flush=True)
    return 0


def _read_one(name: str, size: int) -> None:
    from launchscope.analysis.figures.analyses import analyze_trace
    from launchscope.analysis.inputs.readers import read_trace
    from launchscope.analysis.model.errors import UnreadableInput

    data = (SLOW | LARGE)[name](size)
    began = time.process_time()
    try:
        analyze_trace(read_trace(data, "x"), name="x")
    except UnreadableInput:
        name += " (refused)"
    most = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10
    print(f"| {name} | {size / 1e6:.0f} | {time.process_time() - began:.2f} | {most} |")


if __name__ == "__main__":
    sys.exit(main())
