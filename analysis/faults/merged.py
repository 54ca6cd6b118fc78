"""Several processes in one file: their marks, launches and streams would be taken for one rank's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model import units
from ..model.trace import Event, Notice, Void
from .check import Check

LEAST_SHARE: Final = 0.01
"""Of the launch calls: a process that makes fewer is a helper, not a rank."""


def _several_ranks(context: Context) -> Iterator[Notice]:
    trace, lost = context.trace, context.lost_calls.rows
    launches, host = trace.launches, trace.host_ops
    process = np.append(launches.process, host.process[lost])
    names = np.append(launches.api, host.name[lost])
    start_ns = np.append(launches.start_ns, host.start_ns[lost])
    found, first, counts = np.unique(process, return_index=True, return_counts=True)
    if len(found) < 2:
        return
    ranks = counts > LEAST_SHARE * len(process)
    made = ", ".join(f"{count:,}" for count in counts.tolist())
    text = (
        f"{len(found)} processes launched GPU ops (launch calls: {made}): the file merges several ranks, whose marks, "
        "launches and streams can't be of one step; analyze each rank's own file"
    )
    voids = {}
    if ranks.sum() > 1:
        voids[Void.TRACE] = f"it merges {units.plural(int(ranks.sum()), 'process', 'processes')} that launch GPU ops"
    second = int(first[np.argsort(start_ns[first], kind="stable")[1]])
    event = Event(trace.name(int(names[second])), int(start_ns[second]), "another process than the first launches it")
    yield Notice("several_ranks", text, len(found), event, voids)


MERGED: Final = (Check("several_ranks", "a file holds what one process launched", _several_ranks),)
