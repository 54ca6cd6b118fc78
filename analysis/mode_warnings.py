"""Warnings that stand beside a mode's figures: what changes how to read them."""

from __future__ import annotations

from typing import Final

from .capture import UNGRAPHED, WARM_CACHE_NOTE
from .document import WarningDoc
from .measured_mode import MeasuredMode
from .verdict import percent_text, time_text

NOISY: Final = 0.10  # half the 95 % interval ÷ T from which the report warns
OFF_FLOOR: Final = 1.02  # floor ÷ W above which one of the two is wrong


def mode_warnings(mode: MeasuredMode) -> list[WarningDoc]:
    """What changes how to read this mode's numbers."""
    states = [s for p in mode.record.processes for s in (p.before, p.after) if s is not None]
    found = []
    step = mode.step_ns
    if step is not None and step.median > 0 and step.ci_low is not None and step.ci_high is not None:
        spread = (step.ci_high - step.ci_low) / 2 / step.median
        if spread >= NOISY:
            found.append(("noisy_host", f"T ±{percent_text(spread)}: noisy host; more --repeats narrow it", 1))
    throttled = [s for s in states if s.throttle_reasons]
    if throttled:
        reasons = ", ".join(sorted({reason for s in throttled for reason in s.throttle_reasons}))
        found.append(("throttled", f"the GPU was throttled ({reasons}): times are longer than they could be", 1))
    others = max((s.other_processes or 0 for s in states), default=0)
    if others:
        found.append(("shared_gpu", f"{others} other processes used the GPU meanwhile: times hold their work", others))
    failed = [p.error for p in mode.record.processes if p.error]
    if failed and mode.timed:
        found.append(("process_failed", f"{len(failed)} processes of this mode failed: {failed[0]}", len(failed)))
    found += _doubts(mode)
    return [WarningDoc(code=code, message=message, count=count) for code, message, count in found]


def _doubts(mode: MeasuredMode) -> list[tuple[str, str, int]]:
    """Figures that contradict each other."""
    found = []
    if mode.exposed_ns is not None and mode.exposed_ns < -(mode.uncertainty_ns or 0.0):
        words = f"W is {time_text(-mode.exposed_ns)} longer than T: the profiler stretched it"
        found.append(("work_over_step", words, 1))
    if mode.floor_ns is not None and mode.work_ns is not None and mode.floor_ns > OFF_FLOOR * mode.work_ns:
        words = f"the floor of {time_text(mode.floor_ns)} is over W: the step reads less than was counted"
        found.append(("floor_over_work", words, 1))
    reasons = dict.fromkeys(reason for a in mode.cuda for reason in a.unreliable)
    found += [("unreliable_trace", f"W and the taxes come from a trace that can't be trusted: {r}", 1) for r in reasons]
    covered = [a.document.graphs.coverage_by_count for a in mode.cuda]
    lowest = min((c for c in covered if c is not None), default=None)
    if mode.name in UNGRAPHED and lowest is not None and lowest < 1.0:
        words = f"only {percent_text(lowest)} of the kernels ran in a graph: it did not fully engage"
        found.append(("graph_not_engaged", words, 1))
    if mode.host_submit_ns is not None and mode.submits_as_profiled:
        words = "host time is as profiled: the step waits for the GPU inside, or fills the launch queue"
        found.append(("host_as_profiled", words, 1))
    told = dict.fromkeys(note for p in mode.record.processes for note in p.notes if note != WARM_CACHE_NOTE)
    found += [("note", note, 1) for note in told]
    notes = dict.fromkeys(p.output.note for p in mode.record.processes if p.output is not None and p.output.note)
    found += [("output_check", f"output check: {note}", 1) for note in notes]
    return found
