"""Several processes in one file: their marks, launches and streams would be taken for one rank's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..facts.processes import LEAST_SHARE, launching_processes
from ..model import units
from ..model.trace import Event, Notice, Void
from .check import Check


def _several_ranks(context: Context) -> Iterator[Notice]:
    trace, host = context.trace, context.trace.host_ops
    processes, counts = launching_processes(trace)
    if len(processes) < 2:
        return
    ranks = int((counts > LEAST_SHARE * counts.sum()).sum())
    made = ", ".join(f"{count:,}" for count in counts.tolist())
    text = (
        f"{len(processes)} processes launched GPU ops (launch calls: {made}): the file merges several ranks, whose "
        "marks, launches and streams can't be of one step; analyze each rank's own file"
    )
    voids = {}
    if ranks > 1:
        voids[Void.TRACE] = f"it merges {units.plural(ranks, 'process', 'processes')} that launch GPU ops"
    names = np.append(trace.launches.api, host.name[context.lost_calls.rows])
    process = np.append(trace.launches.process, host.process[context.lost_calls.rows])
    start_ns = np.append(trace.launches.start_ns, host.start_ns[context.lost_calls.rows])
    rows = np.flatnonzero(process == processes[1])
    second = int(rows[np.argmin(start_ns[rows])])
    event = Event(trace.name(int(names[second])), int(start_ns[second]), "another process than the first launches it")
    yield Notice("several_ranks", text, len(processes), event, voids)


MERGED: Final = (Check("several_ranks", "a file holds what one process launched", _several_ranks),)
