"""Warnings that stand beside a mode's figures: what changes how to read them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from ..model import units
from ..model.capture import UNGRAPHED, WARM_CACHE_NOTE
from ..model.document import WarningDoc
from .measured_mode import MeasuredMode

NOISY: Final = 0.10  # half the 95 % interval ÷ T from which the report warns
OFF_FLOOR: Final = 1.02  # floor ÷ W above which one of the two is wrong


def mode_warnings(mode: MeasuredMode) -> list[WarningDoc]:
    """What changes how to read this mode's numbers; docs/warnings.md lists the codes."""
    return [*_circumstances(mode), *_doubts(mode), *_notes(mode)]


def _circumstances(mode: MeasuredMode) -> Iterator[WarningDoc]:
    """What went on while it was measured."""
    step = mode.step_ns
    if step is not None and step.median > 0 and step.ci_low is not None and step.ci_high is not None:
        spread = (step.ci_high - step.ci_low) / 2 / step.median
        if spread >= NOISY:
            yield WarningDoc(
                code="noisy_host", message=f"T ±{units.share(spread)}: noisy host; more --repeats narrow it"
            )
    states = [s for p in mode.record.processes for s in (p.before, p.after) if s is not None]
    slowed = ", ".join(sorted({reason for s in states for reason in s.throttle_reasons}))
    if slowed:
        text = f"the GPU was throttled ({slowed}): times are longer than they could be; cool it and profile again"
        yield WarningDoc(code="throttled", message=text)
    others = max((s.other_processes or 0 for s in states), default=0)
    if others:
        text = f"{others} other processes used the GPU meanwhile: times hold their work; profile on a GPU of your own"
        yield WarningDoc(code="shared_gpu", message=text, count=others)
    failed = [p.error for p in mode.record.processes if p.error]
    if failed and mode.timed:
        text = f"{len(failed)} processes of this mode failed: {failed[0]}"
        yield WarningDoc(code="process_failed", message=text, count=len(failed))


def _doubts(mode: MeasuredMode) -> Iterator[WarningDoc]:
    """Figures that contradict each other, or that come from a place they should not."""
    if mode.exposed_ns is not None and mode.exposed_ns < -(mode.uncertainty_ns or 0.0):
        text = f"W is {units.duration(-mode.exposed_ns)} longer than T: the profiler stretched it; T stands"
        yield WarningDoc(code="work_over_step", message=text)
    if mode.floor_ns is not None and mode.work_ns is not None and mode.floor_ns > OFF_FLOOR * mode.work_ns:
        floor = units.duration(mode.floor_ns)
        text = f"the floor of {floor} is over W: the step reads less than was counted; take it with care"
        yield WarningDoc(code="floor_over_work", message=text)
    for reason in dict.fromkeys(reason for a in mode.cuda for reason in a.document.coverage.unreliable):
        yield WarningDoc(
            code="unreliable_trace", message=f"W and the taxes come from a trace that can't be trusted: {reason}"
        )
    covered = [a.document.graphs.coverage_by_count for a in mode.cuda]
    lowest = min((c for c in covered if c is not None), default=None)
    if mode.name in UNGRAPHED and lowest is not None and lowest < 1.0:
        text = f"only {units.share(lowest)} of the kernels ran in a graph: it did not fully engage; see its launches"
        yield WarningDoc(code="graph_not_engaged", message=text)
    if mode.host_submit_ns is not None and mode.submits_as_profiled:
        text = "host time is as profiled: the step waits for the GPU inside, or fills the launch queue"
        yield WarningDoc(code="host_as_profiled", message=text)


def _notes(mode: MeasuredMode) -> Iterator[WarningDoc]:
    """What the measuring processes noticed themselves, each told once."""
    processes = mode.record.processes
    for note in dict.fromkeys(note for p in processes for note in p.notes if note != WARM_CACHE_NOTE):
        yield WarningDoc(code="note", message=note)
    for note in dict.fromkeys(p.output.note for p in processes if p.output is not None and p.output.note):
        yield WarningDoc(code="output_check", message=f"output check: {note}")
