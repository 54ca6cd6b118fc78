"""What a thread of the host did in a span of time, in words."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from ..analysis.model.nesting import outermost_first
from ..analysis.model.trace import HostKind, HostOps, Ints, Trace
from ..analysis.model.units import duration, plural, printable

TOLD: Final = 3  # calls by name


def host_activity(trace: Trace, process: int, thread: int, start_ns: int, end_ns: int) -> Iterator[str]:
    """The outermost calls inside the span by name, the longest in total first, and what was around all of it."""
    start, end, name = _calls(trace, process, thread, start_ns, end_ns)
    around = (start <= start_ns) & (end >= end_ns)
    inner = np.flatnonzero(~around)
    inner = inner[outermost_first(start[inner], end[inner])]
    reached = np.maximum.accumulate(end[inner]) if len(inner) else end[inner]
    outermost = inner[np.append(True, start[inner][1:] >= reached[:-1])] if len(inner) else inner
    spent: Counter[int] = Counter()
    calls: Counter[int] = Counter()
    lasts = np.minimum(end[outermost], end_ns) - np.maximum(start[outermost], start_ns)
    for its, ns in zip(name[outermost].tolist(), lasts.tolist(), strict=True):
        spent[its] += ns
        calls[its] += 1
    for its, ns in spent.most_common(TOLD):
        times = "" if calls[its] == 1 else f" in {plural(calls[its], 'call')}"
        yield f"{printable(trace.name(its))} {duration(ns)}{times}"
    if around.any():
        innermost = np.flatnonzero(around)[np.lexsort((-end[around], start[around]))[-1]]
        yield f"inside {printable(trace.name(int(name[innermost])))}"
    elif not len(outermost):
        yield "nothing that was recorded"


def _calls(trace: Trace, process: int, thread: int, start_ns: int, end_ns: int) -> tuple[Ints, Ints, Ints]:
    """Starts, ends and names of the thread's calls that have a part in the span. Annotations are no calls."""
    found = []
    tables = (
        (trace.launches, trace.launches.api),
        (trace.blocking_calls, trace.blocking_calls.api),
        (trace.host_ops, trace.host_ops.name),
    )
    for table, names in tables:
        in_span = (table.start_ns < end_ns) & (table.end_ns > start_ns)
        its = in_span & (table.process == process) & (table.thread == thread)
        if isinstance(table, HostOps):
            its &= table.kind != HostKind.ANNOTATION
        found.append((table.start_ns[its], table.end_ns[its], names[its]))
    start, end, name = (np.concatenate(columns) for columns in zip(*found, strict=True))
    return start, end, name
