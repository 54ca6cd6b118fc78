"""A ladder of captured batch sizes: what padding to the next one costs, and which ladder would cost less.

A step of 13 sequences replays the graph of 16: it takes the time of 16, and 3 of its rows are padding. A step above
the largest size runs without a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from itertools import pairwise

import msgspec

from ..model.errors import LaunchscopeError

Curve = Callable[[int], float]
"""Step time in ns of a batch size."""


class LadderDoc(msgspec.Struct, frozen=True, kw_only=True):
    """What one ladder makes of a histogram of batch sizes."""

    capture_sizes: list[int]
    mean_step_ns: float  # over the steps of the histogram
    padding: float  # rows that are padding, of all rows of graph steps; 0 without any
    fallback: float  # steps above the largest size, of all


def curve(times_ns: Mapping[int, float]) -> Curve:
    """Step time by batch size, straight between measured ones. LaunchscopeError for one outside of them."""
    sizes = sorted(times_ns)

    def at(size: int) -> float:
        for low, high in pairwise(sizes):
            if low <= size <= high:
                share = (size - low) / (high - low)
                return times_ns[low] + share * (times_ns[high] - times_ns[low])
        if size in times_ns:
            return times_ns[size]
        measured = f"{sizes[0]} to {sizes[-1]}" if sizes else "none"
        raise LaunchscopeError(
            f"a batch of {size} lies outside of the measured ones ({measured}): measure it too, --batch-sizes"
        )

    return at


def judge_ladder(ladder: Sequence[int], histogram: Mapping[int, float], graph: Curve, eager: Curve) -> LadderDoc:
    """What steps of these batch sizes (size → how many) take with these captured ones."""
    rungs = sorted(set(ladder))
    steps = sum(histogram.values())
    time_ns = rows = padded = above = 0.0
    for size, count in histogram.items():
        rung = next((each for each in rungs if each >= size), None)
        if rung is None:
            above += count
            time_ns += count * eager(size)
        else:
            time_ns += count * graph(rung)
            rows += count * rung
            padded += count * (rung - size)
    return LadderDoc(
        capture_sizes=rungs,
        mean_step_ns=time_ns / steps,
        padding=padded / rows if rows else 0.0,
        fallback=above / steps,
    )


def better_ladder(rungs: int, histogram: Mapping[int, float], graph: Curve) -> list[int]:
    """The ladder of so many rungs at the most, up to the largest batch, whose steps take the least time together."""
    sizes = sorted(histogram)
    least: dict[int, tuple[float, list[int]]] = {-1: (0.0, [])}  # by the last size that is covered
    for _ in range(min(rungs, len(sizes))):
        longer = dict(least)
        for last, (time_ns, chosen) in least.items():
            covered = 0.0
            for place in range(last + 1, len(sizes)):
                covered += histogram[sizes[place]]
                total = time_ns + covered * graph(sizes[place])
                if place not in longer or total < longer[place][0]:
                    longer[place] = (total, [*chosen, sizes[place]])
        least = longer
    return least[len(sizes) - 1][1]
