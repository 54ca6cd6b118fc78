"""Host time to submit a step, as the trace shows it, and the calls that it waits for the GPU in meanwhile.

Per launching thread, from the start of the step's first launch to the end of its last, minus the time inside
blocking calls; the step's is the largest over its threads (docs/metrics.md, "Verdict").
"""

from __future__ import annotations

from collections import Counter
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..model.columns import follow, named
from ..model.document import QueueDepthDoc, StepsDoc
from ..model.intervals import Intervals, threads
from ..model.trace import NONE, Ints, Trace
from ..model.units import brief
from .steps import Steps

QUEUE_FULL: Final = 1_000  # launches; the driver blocks the host at about 1,024 (NVIDIA H200, CUDA 13.0)


def submits_as_profiled(steps: StepsDoc, queue: QueueDepthDoc) -> bool:
    """True when the step waits for the GPU inside, or the launch queue fills: host_submit is then the trace's."""
    return bool(steps.blocking_calls.median) or (queue.max_launches or 0) >= QUEUE_FULL


def host_submit_ns(trace: Trace, launch_step: Ints, steps: Ints) -> NDArray[np.float64]:
    """N·τ of each named step, 0 for a step without launches; ``launch_step`` is the step index of each launch row."""
    launches, blocking = trace.launches, trace.blocking_calls
    result = np.zeros(len(steps), dtype=np.float64)
    row_of = np.full(max(launch_step.max(initial=NONE), steps.max(initial=NONE)) + 2, NONE, np.int64)
    row_of[steps] = np.arange(len(steps))
    row = row_of[launch_step]  # NONE: the last, of no step
    blocking_of = threads(blocking.process, blocking.thread)
    for thread, own in threads(launches.process, launches.thread).items():
        own = own[row[own] != NONE]
        if not len(own):
            continue
        own = own[np.argsort(row[own], kind="stable")]
        first = np.flatnonzero(np.diff(row[own], prepend=NONE))
        start = np.minimum.reduceat(launches.start_ns[own], first)
        end = np.maximum.reduceat(launches.end_ns[own], first)
        calls = blocking_of.get(thread, own[:0])
        blocked = Intervals.union(blocking.start_ns[calls], blocking.end_ns[calls])
        np.maximum.at(result, row[own[first]], end - start - blocked.covered_ns(start, end))
    return result


def blocking_words(trace: Trace, steps: Steps) -> tuple[str, ...]:
    """Blocking calls inside kept steps as 'api in operator', those with the most time first."""
    calls = trace.blocking_calls
    operators = named(trace.names, follow(trace.host_ops.name, calls.operator_row))
    spent_ns: Counter[str] = Counter()
    for row in np.flatnonzero(np.isin(steps.blocking_step, steps.kept_rows)).tolist():
        api, operator = brief(trace.name(int(calls.api[row]))), operators[row]
        spent_ns[api if operator is None else f"{api} in {brief(operator)}"] += int(calls.dur_ns[row])
    return tuple(words for words, _ in spent_ns.most_common())
