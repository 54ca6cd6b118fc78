"""The measuring protocol of one process: warm up, time unprofiled, then one profiler session, in that order.

The order is the point: timing never follows a profiler session in the same process (CUPTI stays attached: launching a
735-node graph then costs 480 µs instead of 25), and no process has a second session (CUPTI before 13.1 update 1 gives
wrong correlation ids for graph launches after the first). Measured on an H200 with torch 2.11 and CUDA 13.0.
"""

from __future__ import annotations

import gc
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import msgspec

from ...analysis.model.capture import COMPILED, UNGRAPHED, WARM_CACHE_NOTE, OwnGraphs, ReplacedBuffer
from ..target.options import Target
from ..target.reasons import failure, reason
from ..target.watch import UNDER_GRAPHS, Buffers, CapturesSeen, ladder, watching
from .device import CudaDevice, Step, host_times

WARM_UP_STEPS: Final = 10
ROUNDS: Final = 10  # of T's batches and host_submit's steps in turn: a host that changes its pace then changes both
BATCHES: Final = 4  # of back-to-back steps in a round: 40 in all; the definition of T asks for at least 30
BATCH_NS: Final = 30e6  # a batch runs about this long, so that the events' resolution (0.5 µs) vanishes
MOST_STEPS_PER_BATCH: Final = 100
HOST_SUBMITS: Final = 2  # in a round

Fields = dict[str, Any]
"""Fields of a ProcessRecord."""


class Ranks:
    """The ranks of a job, seen from one of them: a step of several holds collectives, so every rank must run the same
    steps in the same order. These are those of one process, as most profiles have it."""

    several = False

    def barrier(self) -> None:
        """Go on when all are here."""

    def from_rank_0(self, value: int) -> int:
        """Rank 0's value."""
        return value

    def any_rank(self, here: bool) -> bool:
        """Whether it is so on any rank."""
        return here


NO_OTHER_RANKS: Final = Ranks()


@dataclass
class Progress:
    """Where a job stands and where its time went, seconds by phase."""

    tell: Callable[[str], None]
    phase: str = "start"
    seconds: dict[str, float] = field(default_factory=dict)
    began: float = field(default_factory=time.perf_counter)

    def __call__(self, phase: str) -> None:
        self.seconds[self.phase] = self.seconds.get(self.phase, 0.0) + time.perf_counter() - self.began
        self.phase, self.began = phase, time.perf_counter()
        self.tell(phase)


def first_steps(target: Target, device: CudaDevice, progress: Progress) -> tuple[list[float], str | None]:
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
    graphs = OwnGraphs(
        captured=seen.captured,
        failed=tuple(seen.failed),
        replayed=replays,
        table=table,
        sizes=sizes,
        unread_inputs=tuple(unread),
    )
    return graphs, replaced


def _replaced_by_a_step(target: Target) -> tuple[ReplacedBuffer, ...]:
    """Variables of any tensor that one more step replaces: one of them is what the graph no longer sees."""
    state = [tensor.clone() for tensor in target.state]
    buffers = Buffers.of(target.step, {}, others=True)
    target.step()
    found = buffers.replaced(target.step)
    for tensor, before in zip(target.state, state, strict=True):
        tensor.copy_(before)
    return found


class NotCaptured(Exception):
    """A capture failed: its cause says of what."""

    def __init__(self, step: Step) -> None:
        super().__init__("the step can't be captured")
        self.step = step  # as it was to be captured


def prepare(mode: str, step: Step, device: CudaDevice, progress: Callable[[str], None]) -> tuple[Step, Fields]:
    """The step compiled and captured as the mode asks, and what it cost to get there.

    It has run in eager before, so that one-time work is done.
    """
    costs: Fields = {}
    if mode in COMPILED:
        progress("compile")
        step, costs = _compile(step, device)
        device.warm_up(step, WARM_UP_STEPS)
    if mode not in UNGRAPHED:
        return step, costs
    progress("capture")
    free_before = device.free_memory()
    begin = time.perf_counter_ns()
    try:
        replay = device.capture(step)
    except Exception as error:
        raise NotCaptured(step) from error
    costs["capture_ns"] = float(time.perf_counter_ns() - begin)
    replay()  # the first replay uploads the graph: it belongs to the memory it costs
    costs["graph_memory_bytes"] = max(free_before - device.free_memory(), 0)
    return replay, costs


def _compile(step: Step, device: CudaDevice) -> tuple[Step, Fields]:
    """torch.compile with its defaults and static shapes; the first call compiles."""
    import torch
    from torch._dynamo import utils
    from torch._dynamo.utils import counters

    counters.clear()
    for name in ("graph_break_reasons", "guard_failures"):  # of what was compiled before
        getattr(utils, name, {}).clear()
    compiled: Any = torch.compile(step, dynamic=False)
    begin = time.perf_counter_ns()
    compiled()
    device.synchronize()
    elapsed = float(time.perf_counter_ns() - begin)
    breaks = sum(counters["graph_break"].values())
    notes: tuple[str, ...] = (f"torch.compile broke the step into pieces at {breaks} places",) if breaks else ()
    if counters["inductor"]["fxgraph_cache_hit"] or counters["aot_autograd"]["autograd_cache_hit"]:
        notes += (WARM_CACHE_NOTE,)
    return compiled, {"compile_ns": elapsed, "notes": notes}


def failing_operator(step: Step, device: CudaDevice, line: str | None, folder: Path | None) -> str | None:
    """The operator at which a capture fails, 'aten::_local_scalar_dense', found by a second attempt.

    Null where no operator raised the error (a wait by itself is none), or the second attempt fails at another line.
    """
    from torch.utils._python_dispatch import TorchDispatchMode

    failed: list[str] = []

    class Watched(TorchDispatchMode):  # type: ignore[no-untyped-call]
        def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
            try:
                return func(*args, **(kwargs or {}))
            except Exception:
                failed.append(str(func._schema.name))
                raise

    def observed() -> Any:
        with Watched():  # type: ignore[no-untyped-call]
            return step()

    try:
        device.capture(observed)
    except Exception as error:
        return failed[0] if failed and failure(error, "capture", folder).line == line else None
    return None


def into_mode(
    mode: str, target: Target, device: CudaDevice, progress: Progress, *, check: bool, ranks: Ranks = NO_OTHER_RANKS
) -> tuple[Step, Fields]:
    """``prepare``; with ``check``, its outputs compared with eager's, too."""
    if mode == "eager" or not check:
        return prepare(mode, target.step, device, progress)
    from . import outputs

    progress("output check")
    try:
        expected = outputs.reference(target.step, target, by_input=mode in UNGRAPHED)
    except Exception as error:  # on inputs that we made: that is no fault of the mode
        step, costs = prepare(mode, target.step, device, progress)
        note = f"outputs not compared: eager fails on varied inputs: {reason(error, 'output check', None)}"
        return step, {**costs, "notes": (*costs.get("notes", ()), note)}
    step, costs = prepare(mode, target.step, device, progress)
    progress("output check")
    found = outputs.compare(step, target, expected)
    wrong = found is not None and not found.matches
    if ranks.any_rank(wrong) and mode in UNGRAPHED:
        frozen = outputs.frozen_inputs(step, target, expected, every=ranks.several)
        found = msgspec.structs.replace(found, frozen_inputs=frozen) if found is not None and wrong else found
    return step, {**costs, "output": found}


def unprofiled(step: Step, device: CudaDevice, progress: Progress, ranks: Ranks = NO_OTHER_RANKS) -> Fields:
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


def _batches(step: Step, device: CudaDevice, batches: int, steps: int, ranks: Ranks) -> list[float]:
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
