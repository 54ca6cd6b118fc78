"""Which recording of a mode stands for it."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median

import numpy as np

from ..figures.analyses import TraceAnalysis
from ..model.document import ModeDoc


def middle_first(recorded: Sequence[TraceAnalysis], mode: ModeDoc) -> list[TraceAnalysis]:
    """Recordings of one mode: of the `cuda` pass first, and of those the one whose process is nearest to T."""
    times = {process.repeat: median(process.samples_ns) for process in mode.processes if process.samples_ns}
    typical = mode.step_ns.median if mode.step_ns is not None else 0.0

    def rank(analysis: TraceAnalysis) -> tuple[bool, bool, float]:
        is_stacks = analysis.trace_pass == "stacks"
        return is_stacks, analysis.trace_pass != "cuda", abs(times.get(analysis.repeat or 0, np.inf) - typical)

    return sorted(recorded, key=rank)
