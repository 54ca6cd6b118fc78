"""How each figure lies over the ranks: no averages, which a single straggler moves and two hide."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import numpy as np

from ..document import Summary
from .document import DistributionDoc, RankRow


class Figure(NamedTuple):
    """A figure of a row: its name in the document, its unit, and how it is taken from the row."""

    name: str
    unit: str  # ns, share, count
    of: Callable[[RankRow], float | None]


def _median(summary: Summary | None) -> float | None:
    return None if summary is None else summary.median


FIGURES: Final = (
    Figure("period_ns", "ns", lambda row: _median(row.period_ns)),
    Figure("busy_ns", "ns", lambda row: _median(row.busy_ns)),
    Figure("gpu_work_without_waiting_ns", "ns", lambda row: row.gpu_work_without_waiting_ns),
    Figure("idle_fraction", "share", lambda row: row.idle_fraction),
    Figure("launch_tax_ns", "ns", lambda row: row.launch_tax_ns),
    Figure("launch_tax_share", "share", lambda row: row.launch_tax_share),
    Figure("kernels", "count", lambda row: row.kernels),
    Figure("launches", "count", lambda row: row.launches),
    Figure("collectives", "count", lambda row: row.collectives),
    Figure("communication_exposed_ns", "ns", lambda row: row.communication_exposed_ns),
    Figure("communication_hidden_ns", "ns", lambda row: row.communication_hidden_ns),
    Figure("communication_transfer_ns", "ns", lambda row: row.communication_transfer_ns),
    Figure("communication_waiting_ns", "ns", lambda row: row.communication_waiting_ns),
    Figure("arrives_last_share", "share", lambda row: row.arrives_last_share),
    Figure("steps", "count", lambda row: row.steps),
)


def distributions(rows: Sequence[RankRow]) -> list[DistributionDoc]:
    """One of each figure that any row has, over the files that are reliable."""
    found = []
    for figure in FIGURES:
        told = [(figure.of(row), index) for index, row in enumerate(rows) if not row.unreliable]
        known = [(value, index) for value, index in told if value is not None]
        if not known:
            continue
        values = np.array([value for value, _ in known], dtype=np.float64)
        low, p10, median, p90, high = np.percentile(values, (0, 10, 50, 90, 100)).tolist()
        found.append(
            DistributionDoc(
                figure=figure.name,
                unit=figure.unit,
                count=len(values),
                min=low,
                p10=p10,
                median=median,
                p90=p90,
                max=high,
                spread=float(np.median(np.abs(values - median))),
                min_at=known[int(values.argmin())][1],
                max_at=known[int(values.argmax())][1],
            )
        )
    return found
