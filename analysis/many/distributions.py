"""How each figure lies over the ranks: no averages, which a single straggler moves and two hide."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import numpy as np

from ..figures.registry import values
from ..model.document import Summary
from .document import DistributionDoc, RankRow

FIGURES: Final = {
    "period_ns": "ns",
    "busy_ns": "ns",
    "gpu_work_without_waiting_ns": "ns",
    "idle_fraction": "share",
    "launch_tax_ns": "ns",
    "launch_tax_share": "share",
    "kernels": "count",
    "launches": "count",
    "collectives": "count",
    "communication_exposed_ns": "ns",
    "communication_hidden_ns": "ns",
    "communication_transfer_ns": "ns",
    "communication_waiting_ns": "ns",
    "arrives_last_share": "share",
    "steps": "count",
    **{value.name: value.kind for _, value in values() if value.of_ranks},
}
"""Field of a row, or name among its ``figures`` → its unit: ns, share or count."""


def value_of(row: RankRow, figure: str) -> float | None:
    """A figure of a row, of a summary its median; null for one that is not among them."""
    if figure in row.figures:
        return row.figures[figure]
    value: Summary | float | None = getattr(row, figure, None) if figure in FIGURES else None
    return value.median if isinstance(value, Summary) else value


def distributions(rows: Sequence[RankRow]) -> list[DistributionDoc]:
    """One of each figure that any row has, over the files that are reliable."""
    found = []
    for figure, unit in FIGURES.items():
        told = [(value_of(row, figure), index) for index, row in enumerate(rows) if not row.unreliable]
        known = [(value, index) for value, index in told if value is not None]
        if not known:
            continue
        values = np.array([value for value, _ in known], dtype=np.float64)
        low, p10, median, p90, high = np.percentile(values, (0, 10, 50, 90, 100)).tolist()
        found.append(
            DistributionDoc(
                figure=figure,
                unit=unit,
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
