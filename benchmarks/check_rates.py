"""How often a check of the step time cries wolf, and what it finds: on samples of an H200, at the limit +3 %.

    python benchmarks/check_rates.py [--draws 1000]

Draws processes from those that `launchscope profile --for-check` and `--against` recorded (h200_processes/: manifests
of captures, unprofiled samples of every process, five separate starts of the machine) and puts each draw through the
statistics of `launchscope check`. Nothing is simulated: a slowdown is a model with more kernels, measured. Prints a
table in Markdown.
"""

from __future__ import annotations

import argparse
import zipfile
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cache
from math import comb
from pathlib import Path
from typing import Final

import msgspec
import numpy as np
from launchscope.analysis.compare.difference import (
    GPU_PACED_BETWEEN_RUNS,
    HOST_PACED_BETWEEN_RUNS,
    PROCESSES,
    Change,
    change,
    is_host_paced,
)
from launchscope.analysis.compare.documents import EXIT_CODES
from launchscope.analysis.compare.snapshot import Timing
from launchscope.analysis.model.capture import Manifest

DATA: Final = Path(__file__).parent / "h200_processes"
ALLOWED: Final = 0.03
SEED: Final = 0
SLOWER: Final = {
    "graph76": "76 to 80 more kernels",
    "graph80": "76 to 80 more kernels",
    "eager8": "8 % more kernels",
    "eager16": "16 % more kernels",
    "eager25": "25 % more kernels",
    "eager50": "50 % more kernels",
}
"""Runs against a slowed model (fixtures/models/llama_1b_regressed.py, `extra`) of 735 kernels."""

Process = tuple[float, ...]
"""Unprofiled step times of one process, ns."""
Pair = tuple[Process, Process]


@dataclass
class Start:
    """One start of the machine."""

    plain: list[Process] = field(default_factory=list)  # the unchanged model
    alike: list[Pair] = field(default_factory=list)  # the unchanged model twice, in turn
    slower: dict[str, list[Pair]] = field(default_factory=lambda: defaultdict(list))  # (slowed, unchanged), by run


@dataclass(frozen=True)
class Rates:
    """What the draws of one kind came to."""

    kind: str
    size: float  # the median of the draws' changes
    outcomes: Counter[int]  # by exit code
    independent: int  # draws that share no process
    largest: float  # the largest change that a draw saw, either way

    def share(self, code: int) -> float:
        return self.outcomes[code] / self.outcomes.total()


def starts(mode: str) -> list[Start]:
    """The samples of a mode by start of the machine."""
    found = []
    for runs in _timings(mode):
        start = Start()
        for name, timings in runs.items():
            processes = [timing.samples_ns for timing in timings]
            run, against, _ = name.partition("-against")
            if run in SLOWER and against:
                start.slower[run] = list(zip(processes, [each.samples_ns for each in runs[run]], strict=True))
                continue
            start.plain += processes
            if against:
                start.alike += zip(processes, [each.samples_ns for each in runs[run]], strict=True)
        found.append(start)
    return found


def between_runs(mode: str) -> float:
    """By how much two runs of this mode may differ, as `check` decides it."""
    timings = [timing for runs in _timings(mode) for each in runs.values() for timing in each]
    return HOST_PACED_BETWEEN_RUNS if is_host_paced(timings) else GPU_PACED_BETWEEN_RUNS


@cache
def _timings(mode: str) -> list[dict[str, list[Timing]]]:
    """By start and run; the captures of one run in turn are NAME and NAME-against."""
    found = []
    for path in sorted(DATA.glob("start*.zip")):
        runs = {}
        with zipfile.ZipFile(path) as archive:
            for file in archive.namelist():
                manifest = msgspec.json.decode(archive.read(file), type=Manifest)
                if mode in manifest.modes:
                    runs[file.rpartition("/")[0]] = [
                        Timing(repeat=each.repeat, samples_ns=each.samples_ns, host_submit_ns=each.host_submit_ns)
                        for each in manifest.modes[mode].processes
                        if each.samples_ns
                    ]
        found.append(runs)
    return found


def rates(kind: str, draws: int, independent: int, draw: Callable[[np.random.Generator], Change]) -> Rates:
    """The outcomes of so many draws."""
    rng = np.random.default_rng(SEED)
    changes = [draw(rng) for _ in range(draws)]
    seen = [each.change for each in changes]
    outcomes = Counter(EXIT_CODES[each.decide(ALLOWED)[0]] for each in changes)
    return Rates(kind, float(np.median(seen)), outcomes, independent, max(map(abs, seen)))


def paired(pool: list[Pair], *, swap: bool) -> Callable[[np.random.Generator], Change]:
    """Eight pairs of one pool; ``swap``: which of two alike ones is the current one is a toss of a coin."""

    def draw(rng: np.random.Generator) -> Change:
        chosen = [pool[i] for i in rng.choice(len(pool), PROCESSES, replace=False)]
        if swap:
            chosen = [pair[::-1] if rng.random() < 0.5 else pair for pair in chosen]
        return change([p[0] for p in chosen], [p[1] for p in chosen], paired=True, between_runs=0.0)

    return draw


def apart(
    current: list[list[Process]], baseline: list[list[Process]], noise: float, *, same_start: bool
) -> Callable[[np.random.Generator], Change]:
    """Eight processes against eight others, from one start of the machine or from two."""
    choices = [
        (i, j)
        for i, ours in enumerate(current)
        for j, theirs in enumerate(baseline)
        if (i == j) == same_start and len(ours) >= PROCESSES and len(theirs) >= PROCESSES * (1 + (ours is theirs))
    ]

    def draw(rng: np.random.Generator) -> Change:
        i, j = choices[rng.integers(len(choices))]
        ours, theirs = current[i], baseline[j]
        if ours is theirs:
            picks = rng.choice(len(ours), 2 * PROCESSES, replace=False)
            a, b = [ours[k] for k in picks[:PROCESSES]], [ours[k] for k in picks[PROCESSES:]]
        else:
            a = [ours[k] for k in rng.choice(len(ours), PROCESSES, replace=False)]
            b = [theirs[k] for k in rng.choice(len(theirs), PROCESSES, replace=False)]
        return change(a, b, paired=False, between_runs=noise)

    return draw


def of_mode(mode: str, draws: int) -> Iterator[Rates]:
    """The same code in turn, from one start and from two; then what is slower, in turn and from two."""
    found = starts(mode)
    noise = between_runs(mode)
    plain = [start.plain for start in found]
    alike = [pair for start in found for pair in start.alike]
    eights = sum(len(each) // PROCESSES for each in plain)
    halves = sum(len(each) // (2 * PROCESSES) for each in plain)
    same, two = (f"{mode}, the same code, {how}" for how in ("two runs of one start", "two starts"))
    yield rates(f"{mode}, the same code, in turn", draws, len(alike) // PROCESSES, paired(alike, swap=True))
    yield rates(same, draws, halves, apart(plain, plain, noise, same_start=True))
    yield rates(two, draws, eights // 2, apart(plain, plain, noise, same_start=False))
    for what in dict.fromkeys(SLOWER.values()):
        slowed = [[p for run, pairs in start.slower.items() if SLOWER[run] == what for p in pairs] for start in found]
        pool = [pair for pairs in slowed for pair in pairs]
        if pool:
            ours = [[slow for slow, _ in pairs] for pairs in slowed]
            count = len(pool) // PROCESSES
            yield rates(f"{mode}, {what}, in turn", draws, count, paired(pool, swap=False))
            yield rates(f"{mode}, {what}, two starts", draws, count, apart(ours, plain, noise, same_start=False))


def interval(found: int, trials: int) -> tuple[float, float]:
    """The rates that so many in so many independent trials leave open, with 95 % confidence (Clopper, Pearson 1934)."""

    def tail(rate: float, counts: range) -> float:
        return sum(comb(trials, k) * rate**k * (1 - rate) ** (trials - k) for k in counts)

    def solve(is_below: Callable[[float], bool]) -> float:
        low, high = 0.0, 1.0
        for _ in range(60):
            middle = (low + high) / 2
            low, high = (middle, high) if is_below(middle) else (low, middle)
        return low

    least = solve(lambda rate: tail(rate, range(found, trials + 1)) < 0.025) if found else 0.0
    most = solve(lambda rate: tail(rate, range(found + 1)) > 0.025) if found < trials else 1.0
    return least, most


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--draws", type=int, default=1000)
    draws = parser.parse_args().draws
    for mode in ("graph", "eager"):
        found = starts(mode)
        print(f"{mode}: {', '.join(str(len(each.plain)) for each in found)} processes of the unchanged model by start")
    print(f"\n{PROCESSES} against {PROCESSES} processes, limit +{ALLOWED:.0%}, {draws:,} draws of each kind\n")
    print("| what is compared | change, median (largest) | exit 0 | exit 1 | exit 3 | independent; exit 1, 95 % |")
    print("| :-- | --: | --: | --: | --: | --: |")
    for mode in ("graph", "eager"):
        for each in of_mode(mode, draws):
            shares = " | ".join(f"{each.share(code):.1%}" for code in (0, 1, 3))
            low, high = interval(round(each.share(1) * each.independent), each.independent)
            told = f"{each.independent}; {low:.0%} to {high:.0%}"
            print(f"| {each.kind} | {each.size:+.2%} ({each.largest:.2%}) | {shares} | {told} |")


if __name__ == "__main__":
    main()
