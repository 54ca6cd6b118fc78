"""Whether the rank that recordings find late is the one whose host is the slower one without a profiler, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from statistics import median
from typing import Final

from ..model.document import WarningDoc
from ..model.units import duration, plural
from .measured_mode import MeasuredMode

LONGER: Final = 1.05
"""A host that takes so many times as long to submit a step is the slower one."""


def late_rank_differs(stragglers: Sequence[int], ranks: Mapping[int, MeasuredMode]) -> list[WarningDoc]:
    """A warning where another rank than the late one of the recordings took longer to submit a step in some process.

    None where no rank is late, where hosts don't hold the step up (all submit it in less time than the GPU works), and
    where unprofiled submit times hold blocked time.
    """
    if len(stragglers) != 1 or any(mode.submits_as_profiled for mode in ranks.values()):
        return []
    late, work = stragglers[0], ranks[stragglers[0]].work_ns or 0.0
    by_repeat = _submits_ns(ranks)
    slower = []
    for submits in by_repeat.values():
        slowest = max(submits, key=lambda rank: submits[rank])
        if late in submits and submits[slowest] > max(LONGER * submits[late], work):
            slower.append((submits[slowest], slowest, submits[late]))
    if not slower:
        return []
    told = ", ".join(f"rank {rank} {duration(ns)} against {duration(own)}" for ns, rank, own in slower[:3])
    text = (
        f"recorded, rank {late} is late, but unprofiled another host took longer to submit a step in {len(slower)} of "
        f"{plural(len(by_repeat), 'process', 'processes')} ({told}): which rank is late differs between processes, so "
        "what a rank waits, and wait-bound or launch-bound of it, is of the recording; T is of all. Give each rank's "
        "process cores of its own, or use graphs; more --repeats tell how often"
    )
    return [WarningDoc(code="late_rank_differs", message=text, count=len(slower))]


def _submits_ns(ranks: Mapping[int, MeasuredMode]) -> dict[int, dict[int, float]]:
    """Repeat → rank → median unprofiled time to submit a step; of repeats in which several ranks were timed."""
    found: dict[int, dict[int, float]] = {}
    for rank, mode in ranks.items():
        for process in mode.timed:
            if process.host_submit_ns:
                found.setdefault(process.repeat, {})[rank] = median(process.host_submit_ns)
    return {repeat: submits for repeat, submits in sorted(found.items()) if len(submits) > 1}
