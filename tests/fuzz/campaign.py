"""Many mutants in processes of their own, each with a limit of time and memory: ``python -m tests.fuzz``."""

from __future__ import annotations

import faulthandler
import multiprocessing
import resource
import tempfile
import time
import traceback
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Final, NamedTuple

from .mutants import mutant, outcome

SHARES: Final = {
    "kineto": 0.28,
    "kineto-gzip": 0.15,
    "perfetto": 0.11,
    "proton": 0.10,
    "nsys": 0.22,
    "trace-zip": 0.05,
    "capture-zip": 0.04,
    "results": 0.05,
}
MOST_SECONDS: Final = 30.0
"""Wall-clock time of one mutant, on a machine that others use as well, before its process is ended."""

MOST_CPU_SECONDS: Final = 5.0
MOST_MEMORY: Final = 200 << 20
"""Resident memory at any time, of which the interpreter with everything loaded takes some 55 MiB."""

_ADDRESS_SPACE: Final = 6 << 30
_OUTPUTS: Final = 4  # every so many of the mutants are rendered, too
_BATCH: Final = 250


class Result(NamedTuple):
    """What became of one mutant."""

    reader: str
    number: int
    what: str  # read, refused, or what broke
    cpu_s: float
    peak: int  # bytes


@dataclass
class Tally:
    """What became of the mutants of one reader."""

    count: Counter[str] = field(default_factory=Counter)
    slowest: Result | None = None
    largest: Result | None = None
    faults: list[Result] = field(default_factory=list)

    def add(self, result: Result) -> None:
        is_fault = result.what not in ("read", "refused")
        self.count["fault" if is_fault else result.what] += 1
        if is_fault:
            self.faults.append(result)
        if self.slowest is None or result.cpu_s > self.slowest.cpu_s:
            self.slowest = result
        if self.largest is None or result.peak > self.largest.peak:
            self.largest = result


def run(campaign: int, readers: Sequence[str], mutants: int, workers: int) -> dict[str, Tally]:
    """All mutants of a campaign."""
    total = sum(SHARES[reader] for reader in readers)
    tallies = {reader: Tally() for reader in readers}
    waiting = [
        (reader, range(begin, min(begin + _BATCH, count)))
        for reader in readers
        for count in [round(mutants * SHARES[reader] / total)]
        for begin in range(0, count, _BATCH)
    ]
    for result in _results(campaign, waiting[::-1], workers):
        tallies[result.reader].add(result)
    return tallies


def _results(campaign: int, waiting: list[tuple[str, range]], workers: int) -> Iterator[Result]:
    """Results as they come in; a process that dies, or is ended as it takes too long, is a fault of its mutant."""
    context = multiprocessing.get_context("spawn")
    running: dict[Connection, tuple[Any, str, range]] = {}
    while waiting or running:
        while waiting and len(running) < workers:
            reader, numbers = waiting.pop()
            ours, theirs = context.Pipe(duplex=False)
            process = context.Process(target=_work, args=(campaign, reader, numbers, theirs))
            process.start()
            theirs.close()
            running[ours] = (process, reader, numbers)
        for pipe in wait(list(running)):
            assert isinstance(pipe, Connection)
            process, reader, left = running[pipe]
            try:
                result = pipe.recv()
                running[pipe] = (process, reader, left[1:])
                yield result
            except EOFError:
                process.join()
                del running[pipe]
                if left:
                    yield Result(reader, left[0], f"process ended with {process.exitcode}", MOST_SECONDS, 0)
                    waiting.append((reader, left[1:]))


def _work(campaign: int, reader: str, numbers: range, results: Connection) -> None:
    resource.setrlimit(resource.RLIMIT_AS, (_ADDRESS_SPACE, _ADDRESS_SPACE))
    with tempfile.TemporaryDirectory() as folder:
        for number in numbers:
            faulthandler.dump_traceback_later(MOST_SECONDS, exit=True)
            results.send(_judged(campaign, reader, number, Path(folder)))
            faulthandler.cancel_dump_traceback_later()


def _judged(campaign: int, reader: str, number: int, folder: Path) -> Result:
    made = mutant(reader, campaign, number)
    _forget_peak()
    began = time.process_time()
    try:
        what: str = outcome(made, folder, outputs=number % _OUTPUTS == 0)
    except Exception as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        what = f"{type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
    cpu_s, peak = time.process_time() - began, _peak()
    if what in ("read", "refused") and cpu_s > MOST_CPU_SECONDS:
        what = f"{what}, but in {cpu_s:.1f} s"
    elif what in ("read", "refused") and peak > MOST_MEMORY:
        what = f"{what}, but with {peak >> 20} MiB"
    return Result(reader, number, what, cpu_s, peak)


def _forget_peak() -> None:
    """Let the peak of resident memory count anew; Linux alone can."""
    if (place := Path("/proc/self/clear_refs")).exists():
        place.write_text("5")


def _peak() -> int:
    """The peak of resident memory, bytes."""
    if (place := Path("/proc/self/status")).exists():
        (line,) = (line for line in place.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) << 10
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
