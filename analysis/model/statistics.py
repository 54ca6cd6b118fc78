"""Distributions and sums of figures, and how far to trust a median over processes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, Final, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from .document import Summary

Key = TypeVar("Key")
Number = TypeVar("Number", int, float)

RESAMPLES: Final = 2000
"""Bootstrap resamples: the ends of a 95 % interval then rest on 50 values each."""

INTERVAL_PERCENTILES: Final = (2.5, 97.5)


def known_sum(values: Iterable[Number | None]) -> Number | int | None:
    """The sum; None where one of the values is not known."""
    found = list(values)
    return None if None in found else sum(value for value in found if value is not None)


def sums(amounts: Iterable[tuple[Key, float]]) -> defaultdict[Key, float]:
    """What the amounts of each key add up to; 0 of one that has none."""
    found: defaultdict[Key, float] = defaultdict(float)
    for key, amount in amounts:
        found[key] += amount
    return found


def summarize(values: ArrayLike) -> Summary:
    """Median, 10th and 90th percentile (linear between ranks), total and count; no values: nulls and a total of 0."""
    data = np.asarray(values, dtype=np.float64)
    if data.size == 0:
        return Summary(median=None, p10=None, p90=None, total=0.0, count=0)
    p10, median, p90 = np.percentile(data, (10, 50, 90)) if data.size > 1 else data.repeat(3)
    return Summary(median=float(median), p10=float(p10), p90=float(p90), total=float(data.sum()), count=int(data.size))


def median_of_medians(samples_per_process: Sequence[Sequence[float]]) -> float:
    """T of METRICS: the median over processes of each process's median. ValueError without samples."""
    medians = [float(np.median(np.asarray(samples))) for samples in samples_per_process if len(samples)]
    if not medians:
        raise ValueError("no samples")
    return float(np.median(medians))


def bootstrap_interval(samples_per_process: Sequence[Sequence[float]], seed: int = 0) -> tuple[float, float]:
    """95 % interval of the median of medians: resampled over processes, then over each one's samples.

    The same samples and seed give the same interval. Processes without samples are left out; ValueError if none has
    any. One process yields the spread within it alone, which says nothing about the spread between processes.
    """
    processes = [np.asarray(samples, dtype=np.float64) for samples in samples_per_process if len(samples)]
    if not processes:
        raise ValueError("no samples")
    rng = np.random.default_rng(seed)
    chosen = rng.integers(len(processes), size=(RESAMPLES, len(processes)))
    medians = np.empty(chosen.shape, dtype=np.float64)
    for index, samples in enumerate(processes):
        slots = chosen == index
        medians[slots] = _resampled_medians(samples, int(slots.sum()), rng)
    low, high = np.percentile(np.median(medians, axis=1), INTERVAL_PERCENTILES)
    return float(low), float(high)


def _resampled_medians(samples: NDArray[np.float64], count: int, rng: np.random.Generator) -> NDArray[Any]:
    """Medians of `count` resamples (with replacement) of one process's samples."""
    picks = rng.integers(len(samples), size=(count, len(samples)))
    return np.asarray(np.median(samples[picks], axis=1))
