"""The measuring protocol of one process: warm up, time unprofiled, then one profiler session, in that order.

The order is the point: timing never follows a profiler session in the same process (CUPTI stays attached: launching a
735-node graph then costs 480 µs instead of 25), and no process has a second session (CUPTI before 13.1 update 1 gives
wrong correlation ids for graph launches after the first). Measured on an H200 with torch 2.11 and CUDA 13.0.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import msgspec

from ...analysis.model.capture import UNGRAPHED, OutputCheck, OwnGraphs, ReplacedBuffer
from ..target.reasons import reason
from ..target.step import Target
from ..target.variables import Buffers, ladder
from ..target.watch import UNDER_GRAPHS, CapturesSeen, watching
from .device import Device, Step, host_times
from .modes import Prepared, prepare

WARM_UP_STEPS: Final = 10
ROUNDS: Final = 10  # of T's batches and host_submit's steps in turn: a host that changes its pace then changes both
BATCHES: Final = 4  # of back-to-back steps in a round: 40 in all; the definition of T asks for at least 30
BATCH_NS: Final = 30e6  # a batch runs about this long, so that the events' resolution (0.5 µs) vanishes
MOST_STEPS_PER_BATCH: Final = 100
HOST_SUBMITS: Final = 2  # in a round

Fields = dict[str, Any]
"""Fields of a ProcessRecord."""


class Ranks(Protocol):
    """The ranks of a job, seen from one of them: a step of several holds collectives, so every rank must run the same
    steps in the same order."""

    several: bool

    def barrier(self) -> None:
        """Go on when all are here."""

    def from_rank_0(self, value: int) -> int:
        """Rank 0's value."""

    def any_rank(self, here: bool) -> bool:
        """Whether it is so on any rank."""


class _OneProcess:
    several = False

    def barrier(self) -> None:
        """Nobody else is to come."""

    def from_rank_0(self, value: int) -> int:
        return value

    def any_rank(self, here: bool) -> bool:
        return here


NO_OTHER_RANKS: Final[Ranks] = _OneProcess()
"""One process, as most profiles have it."""


@dataclass
class Progress:
    """Where a job stands and where its time went, seconds by phase."""

    tell: Callable[[str], None]
    phase: str = "start"
    seconds: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def __call__(self, phase: str) -> None:
        """``phase`` begins now."""
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + time.perf_counter() - self.began
        self.phase, self.began = phase, time.perf_counter()
        self.tell(phase)


def first_steps(target: Target, device: Device, progress: Progress) -> tuple[list[float], str | None]:
    """Host time of the warm-up steps, ns, and why the target runs only as written (null: it runs in every mode).

    Raises BadTarget for a step that is not one decode step.
    """
    progress("warm up")
    with watching() as watch:
        times = device.warm_up(target.step, 2)
    watch.refuse()
    return times + device.warm_up(target.step, WARM_UP_STEPS), watch.as_written(target.step)


def target_graphs(
    seen: CapturesSeen, target: Target, buffers: Buffers | None, as_written: str | None, *, several: bool = False
) -> tuple[OwnGraphs | None, tuple[ReplacedBuffer, ...]]:
    """The graphs that it captured itself, and the buffers that its steps replaced; ``buffers`` as they were at first.

    Without ``buffers`` nothing is run for it, nor with ``several`` ranks: how many steps are run depends on what a rank
    computes, and each waits for the others.
    """
    replaced = () if buffers is None else buffers.replaced(target.step)
    if not seen.captured and not seen.failed:
        return None, replaced
    replays = as_written == UNDER_GRAPHS
    table, sizes = ladder(target.step)
    unread: Sequence[str] = ()
    if replays and buffers is not None and target.inputs and not several:
        from .outputs import unread_inputs

        unread = unread_inputs(target.step, target)
        if unread:
            replaced += _replaced_by_a_step(target)
    own = OwnGraphs(
        captured=seen.captured,
        failed=tuple(seen.failed),
        replayed=replays,
        table=table,
        sizes=sizes,
        unread_inputs=tuple(unread),
    )
    return own, replaced


def _replaced_by_a_step(target: Target) -> tuple[ReplacedBuffer, ...]:
    """Variables of any tensor that one more step replaces: one of them is what the graph no longer sees."""
    state = [tensor.clone() for tensor in target.state]
    buffers = Buffers.of(target.step, {}, others=True)
    target.step()
    found = buffers.replaced(target.step)
    for tensor, before in zip(target.state, state, strict=True):
        tensor.copy_(before)
    return found


def into_mode(
    mode: str, target: Target, device: Device, progress: Progress, *, check: bool, ranks: Ranks = NO_OTHER_RANKS
) -> tuple[Prepared, OutputCheck | None]:
    """Compile and capture as the mode asks; with ``check``, compare its outputs with eager's."""
    from . import outputs

    if mode == "eager" or not check:
        return prepare(mode, target.step, device, progress, WARM_UP_STEPS), None
    progress("output check")
    try:
        expected = outputs.reference(target.step, target, by_input=mode in UNGRAPHED)
    except Exception as error:  # on inputs that we made: that is no fault of the mode
        prepared = prepare(mode, target.step, device, progress, WARM_UP_STEPS)
        note = f"outputs not compared: eager fails on varied inputs: {reason(error, 'output check', None)}"
        return replace(prepared, notes=(*prepared.notes, note)), None
    prepared = prepare(mode, target.step, device, progress, WARM_UP_STEPS)
    progress("output check")
    found = outputs.compare(prepared.step, target, expected)
    wrong = found is not None and not found.matches
    if ranks.any_rank(wrong) and mode in UNGRAPHED:
        frozen = outputs.frozen_inputs(prepared.step, target, expected, every=ranks.several)
        found = msgspec.structs.replace(found, frozen_inputs=frozen) if found is not None and wrong else found
    return prepared, found


def costs(prepared: Prepared) -> Fields:
    """What it cost to get into the mode."""
    return {
        "compile_ns": prepared.compile_ns,
        "capture_ns": prepared.capture_ns,
        "graph_memory_bytes": prepared.graph_memory_bytes,
        "notes": prepared.notes,
    }


def unprofiled(step: Step, device: Device, progress: Progress, ranks: Ranks = NO_OTHER_RANKS) -> Fields:
    """T's samples and host_submit's, in turn; nothing may have profiled in this process."""
    progress("timing")
    estimate = min(_batches(step, device, 5, 1, ranks))
    steps = ranks.from_rank_0(int(min(max(round(BATCH_NS / estimate), 1), MOST_STEPS_PER_BATCH)))
    gc.collect()
    before = device.state()
    _batches(step, device, 2, steps, ranks)  # the clocks are up and the allocator has settled
    samples: list[float] = []
    submits: list[float] = []

    def drained() -> None:
        device.synchronize()
        ranks.barrier()

    for _ in range(ROUNDS):
        samples += _batches(step, device, BATCHES, steps, ranks)
        submits += host_times(step, HOST_SUBMITS, drained)
    return {
        "samples_ns": tuple(samples),
        "steps_per_sample": steps,
        "host_submit_ns": tuple(submits),
        "before": before,
        "after": device.state(),
    }


def _batches(step: Step, device: Device, batches: int, steps: int, ranks: Ranks) -> list[float]:
    """Device time of a step in each batch, ns; of several ranks all begin a batch at once."""
    if not ranks.several:
        return device.time_batches(step, batches, steps)
    times: list[float] = []
    for _ in range(batches):
        device.synchronize()
        ranks.barrier()
        times += device.time_batches(step, 1, steps)
    return times


def marked_steps(step: Step, count: int) -> tuple[tuple[int, int], ...]:
    """Run ``count`` back-to-back steps; the host-clock range (epoch ns) of each one's submission.

    The first is a sacrifice: CUPTI can drop a session's first records.
    """
    marks = []
    for _ in range(count):
        begin = time.time_ns()
        step()
        marks.append((begin, time.time_ns()))
    return tuple(marks)
