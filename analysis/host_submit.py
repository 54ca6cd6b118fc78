"""Host time to submit a step, as the trace shows it: where no unprofiled measurement can tell it.

Per launching thread, from the start of the step's first launch to the end of its last, minus the time inside
blocking calls; the step's is the largest over its threads (docs/metrics.md, "Verdict").
"""

from __future__ import annotations

from typing import Final

import numpy as np
from numpy.typing import NDArray

from .document import QueueDepthDoc, StepsDoc
from .trace import Ints, Trace

QUEUE_FULL: Final = 1_000  # launches; the driver blocks the host at about 1,024 (NVIDIA H200, CUDA 13.0)


def submits_as_profiled(steps: StepsDoc, queue: QueueDepthDoc) -> bool:
    """True when the step waits for the GPU inside, or the launch queue fills: host_submit is then the trace's."""
    return bool(steps.blocking_calls.median) or (queue.max_launches or 0) >= QUEUE_FULL


def host_submit_ns(trace: Trace, launch_step: Ints, steps: Ints) -> NDArray[np.float64]:
    """N·τ of each named step, 0 for a step without launches; ``launch_step`` is the step index of each launch row."""
    launches = trace.launches
    result = np.zeros(len(steps), dtype=np.float64)
    threads = np.unique(np.stack([launches.process, launches.thread], axis=1), axis=0)
    for process, thread in threads:
        own = (launches.process == process) & (launches.thread == thread)
        blocked_start, blocked_end = _blocked(trace, int(process), int(thread))
        before = np.concatenate([[0], np.cumsum(blocked_end - blocked_start)])
        for row, step in enumerate(steps):
            rows = np.flatnonzero(own & (launch_step == step))
            if len(rows):
                start, end = int(launches.start_ns[rows].min()), int(launches.end_ns[rows].max())
                blocked = _until(end, blocked_start, before) - _until(start, blocked_start, before)
                result[row] = max(result[row], end - start - blocked)
    return result


def _blocked(trace: Trace, process: int, thread: int) -> tuple[Ints, Ints]:
    """The union of a thread's blocking calls, as disjoint intervals in order."""
    calls = trace.blocking_calls
    own = np.flatnonzero((calls.process == process) & (calls.thread == thread))
    if not len(own):
        return np.zeros(0, np.int64), np.zeros(0, np.int64)
    start, reach = calls.start_ns[own], np.maximum.accumulate(calls.end_ns[own])
    first = np.concatenate([[True], start[1:] > reach[:-1]])
    last = np.concatenate([first[1:], [True]])
    return start[first], reach[last]


def _until(time: int, start: Ints, before: Ints) -> int:
    """Blocked time up to a moment; ``before[i]`` is the blocked time ahead of interval i."""
    row = int(np.searchsorted(start, time, side="right")) - 1
    if row < 0:
        return 0
    return int(min(before[row] + time - start[row], before[row + 1]))
