"""By how much a step became slower, and how far that can be told: by processes, which is where the noise is.

Samples of one process share its luck, so a process counts once, by its median. No shape of the noise is assumed: the
change is the median of all ratios (Hodges and Lehmann 1963), its interval are the ratios between which the exact
null distribution of the rank test puts it: Mann and Whitney's for two runs, Wilcoxon's signed ranks for the pairs of
one run. How often this errs on real samples is in docs/guard.md.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Final

import numpy as np
from numpy.typing import NDArray

from .documents import HOLDS, INCONCLUSIVE, REGRESSION
from .snapshot import Timing

ERROR: Final = 0.005
"""Chance that an interval's end lies on the wrong side of the truth: 99 % intervals."""

PROCESSES: Final = 8
"""Processes per mode and side that `profile --for-check` runs: the fewest at which eight pairs reach that level."""

GPU_PACED_BETWEEN_RUNS: Final = 0.01
HOST_PACED_BETWEEN_RUNS: Final = 1.0
"""Share by which two runs of the same code may differ; on H200 VMs starts differed by 0.1 % and 46 % in the median."""

HOST_PACED: Final = 0.5
"""Share of a step from which submitting it decides its time as soon as the host is twice as slow, as hosts get."""

_EXACT: Final = 64
"""Processes per side up to which the null distributions are counted out; beyond, their normal limits are as good."""

_LARGEST_LOG: Final = math.log(sys.float_info.max)


@dataclass(frozen=True)
class Change:
    """A relative change of the median, as a share, with its 99 % interval; infinite ends: too few processes."""

    change: float
    low: float
    high: float
    processes: int  # of the current side, or pairs
    processes_baseline: int
    paired: bool
    between_runs: float  # share by which the interval is wider because the two runs are not one

    @property
    def is_known(self) -> bool:
        """Whether there are processes enough for an interval."""
        return math.isfinite(self.high)

    @property
    def ends(self) -> dict[str, float | None]:
        """``low`` and ``high`` as documents have them: null with too few processes."""
        return {"low": self.low if self.is_known else None, "high": self.high if self.is_known else None}

    def decide(self, allowed: float) -> tuple[str, int | None]:
        """Whether it is a regression beyond ``allowed``, a share; if that can't be told, with how many processes.

        A regression is both: significant, and larger than allowed. It holds when the whole interval is allowed.
        """
        if self.high <= allowed:
            return HOLDS, None
        if self.low > 0 and self.change > allowed:
            return REGRESSION, None
        return INCONCLUSIVE, self._needed(allowed)

    def _needed(self, allowed: float) -> int | None:
        """Processes per side at which this change could be told; None where more of them don't help."""
        fewest = fewest_processes(paired=self.paired)
        have = min(self.processes, self.processes_baseline)
        between, change = _log(self.between_runs), _log(self.change)
        margin = (change if self.change > allowed else _log(allowed) - change) - between
        if margin <= 0:
            return None
        if not self.is_known or self.low <= -1:
            return max(fewest, have + 1)
        half = (change - _log(self.low) if self.change > allowed else _log(self.high) - change) - between
        return max(fewest, have + 1, math.ceil(have * (half / margin) ** 2))


def change(
    current: Sequence[Sequence[float]], baseline: Sequence[Sequence[float]], *, paired: bool, between_runs: float
) -> Change:
    """From the baseline's processes to the current ones: samples by process, those without any left out.

    ``paired``: both were measured in turn, and the i-th processes are a pair. ValueError when a side has no samples.
    """
    if paired:
        pairs = [(c, b) for c, b in zip(current, baseline, strict=True) if len(c) and len(b)]
        current, baseline = [c for c, _ in pairs], [b for _, b in pairs]
    ours, theirs = _log_medians(current), _log_medians(baseline)
    if paired:
        ratios, below = _walsh(ours - theirs), _ends(_signed_rank_null(len(ours)))
    else:
        ratios, below = np.sort((ours[:, None] - theirs).ravel()), _ends(_rank_sum_null(len(ours), len(theirs)))
    low, high = (ratios[below - 1], ratios[-below]) if below else (-math.inf, math.inf)
    between = math.log1p(between_runs)
    return Change(
        change=_change(float(np.median(ratios))),
        low=_change(float(low) - between),
        high=_change(float(high) + between),
        processes=len(ours),
        processes_baseline=len(theirs),
        paired=paired,
        between_runs=between_runs,
    )


def in_pairs(
    current: Mapping[int, Sequence[float]], baseline: Mapping[int, Sequence[float]]
) -> tuple[list[Sequence[float]], list[Sequence[float]]]:
    """Samples by process of both sides of one run, by repeat: those of the repeats that both have."""
    both = sorted(current.keys() & baseline.keys())
    return [current[repeat] for repeat in both], [baseline[repeat] for repeat in both]


def between_runs(
    *sides: Iterable[Timing],
    paired: bool,
    gpu_paced: float = GPU_PACED_BETWEEN_RUNS,
    host_paced: float = HOST_PACED_BETWEEN_RUNS,
) -> float:
    """Share by which the step time of the same code may differ between the two sides' runs; 0 within one run."""
    if paired:
        return 0.0
    return host_paced if any(is_host_paced(side) for side in sides) else gpu_paced


def against_value(current: Sequence[Sequence[float]], value: float) -> Change:
    """From a fixed value to the processes' median."""
    return change(current, [[value]] * len(current), paired=True, between_runs=0.0)


def fewest_processes(*, paired: bool) -> int:
    """Processes per side with which any difference at all can be significant."""
    count = 1
    while not _ends(_signed_rank_null(count) if paired else _rank_sum_null(count, count)):
        count += 1
    return count


def is_host_paced(timings: Iterable[Timing]) -> bool:
    """Whether the host's pace may decide the step time; True where submitting was not measured."""
    shares = [
        float(np.median(timing.host_submit_ns) / np.median(timing.samples_ns)) if timing.host_submit_ns else math.inf
        for timing in timings
        if timing.samples_ns
    ]
    return not shares or float(np.median(shares)) >= HOST_PACED


def _log(share: float) -> float:
    """The logarithm of a ratio that is given as a change; −∞ of one that nothing is left of, if only by rounding."""
    return math.log1p(share) if share > -1 else -math.inf


def _change(log: float) -> float:
    """The change that a ratio's logarithm tells; ∞ beyond what a float holds."""
    return math.expm1(log) if log < _LARGEST_LOG else math.inf


def _log_medians(processes: Sequence[Sequence[float]]) -> NDArray[np.float64]:
    medians = [float(np.median(np.asarray(samples))) for samples in processes if len(samples)]
    if not medians:
        raise ValueError("no samples")
    return np.log(medians)


def _walsh(differences: NDArray[np.float64]) -> NDArray[np.float64]:
    """Means of all pairs of differences, each with itself too, sorted."""
    rows, columns = np.triu_indices(len(differences))
    return np.sort((differences[rows] + differences[columns]) / 2)


def _ends(null: NDArray[np.float64]) -> int:
    """How many ratios from either end the interval ends; 0: no interval has this level."""
    return int(np.searchsorted(np.cumsum(null), ERROR, side="right"))


@lru_cache
def _rank_sum_null(ours: int, theirs: int) -> NDArray[np.float64]:
    """Probability of each value of Mann and Whitney's U, 0 to ours · theirs, when both sides are alike."""
    size = ours * theirs
    if max(ours, theirs) > _EXACT:
        return _normal(size, math.sqrt(size * (ours + theirs + 1) / 12))
    # the generating function: a product of (1 − q^(theirs + i)) ÷ (1 − q^i)
    counts = np.zeros(size + 1)
    counts[0] = 1.0
    for i in range(1, ours + 1):
        shifted = counts.copy()
        shifted[theirs + i :] -= counts[: max(size + 1 - theirs - i, 0)]
        for start in range(i):
            shifted[start::i] = np.cumsum(shifted[start::i])
        counts = shifted * (i / (theirs + i))
    return counts


@lru_cache
def _signed_rank_null(pairs: int) -> NDArray[np.float64]:
    """Probability of each value of Wilcoxon's sum of ranks, 0 to n · (n + 1) ÷ 2, when a pair's sides are alike."""
    size = pairs * (pairs + 1) // 2
    if pairs > _EXACT:
        return _normal(size, math.sqrt(size * (2 * pairs + 1) / 12))
    counts = np.zeros(size + 1)
    counts[0] = 1.0
    for rank in range(1, pairs + 1):
        taken = np.zeros_like(counts)
        taken[rank:] = counts[: size + 1 - rank]
        counts = (counts + taken) / 2
    return counts


def _normal(size: int, deviation: float) -> NDArray[np.float64]:
    """The bell curve on 0 … size."""
    density = np.exp(-0.5 * ((np.arange(size + 1) - size / 2) / deviation) ** 2)
    return np.asarray(density / density.sum())
