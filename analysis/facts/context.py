"""What is computed from one trace: each fact once, when it is first asked for.

Figures take a Context and ask it; what none of them asks for takes no time. Facts of every device come as a mapping
that computes a device's when it is looked up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any, Generic, TypeVar

import numpy as np

from ..model.capture import Calibration
from ..model.columns import Intervals, follow
from ..model.document import LaunchesDoc, QueueDepthDoc, StepsDoc
from ..model.names import users_lines
from ..model.trace import NONE, Bools, Ints, Reals, Trace, narrow
from .collectives import Collectives, collectives_of
from .gap_causes import Threads
from .gaps import Gaps, find_gaps, gaps_inside
from .launches import CallStacks, LaunchTimes, launch_times, launches_doc, launching_operators, queue_depth
from .lost_calls import LostCalls, find_lost_calls
from .replays import GraphReplays, graph_replays
from .step_kinds import StepKinds, find_step_kinds
from .steps import Steps, find_steps, first_op_ns, step_busy_ns
from .trace_facts import TraceFacts
from .trace_times import TraceTimes, Waits, blocking_words, steps_doc, trace_times, within_its_time

Fact = TypeVar("Fact")


class _ByDevice(Mapping[int, Fact]):
    """A fact of each device of a trace; those that are known are kept in ``known``."""

    def __init__(self, context: Context, find: Callable[[Context, int], Fact], known: dict[int, Fact]) -> None:
        self._context, self._find, self._known = context, find, known

    def __getitem__(self, device: int) -> Fact:
        if device not in self._known:
            if device not in self._context.trace.devices:
                raise KeyError(device)
            self._known[device] = self._find(self._context, device)
        return self._known[device]

    def __iter__(self) -> Iterator[int]:
        return iter(self._context.trace.devices)

    def __len__(self) -> int:
        return len(self._context.trace.devices)


class by_device(Generic[Fact]):
    """Makes a method of a Context and a device a mapping from devices to facts.

    What is found is kept by the context, not the mapping: the two would keep each other, and the trace, alive.
    """

    def __init__(self, find: Callable[[Context, int], Fact]) -> None:
        self.find, self.__doc__ = find, find.__doc__

    def __get__(self, context: Context, owner: type[Context]) -> Mapping[int, Fact]:
        return _ByDevice(context, self.find, context.__dict__.setdefault(_kept_as(self.find.__name__), {}))


def _kept_as(name: str) -> str:
    return f"{name} by device"


@dataclass(frozen=True, eq=False)
class Context:
    """One trace, what its capture knows of it, and every fact about it. Mode, pass and repeat are null elsewhere.

    ``marks_ns`` are the steps by the clock of the process that recorded them; the first one is the sacrificed step.
    ``host_submit_ns`` is the unprofiled one of the same mode: it gives τ_step. ``calibration`` is of the machine that
    recorded the trace. The headline device is the one with the most busy time, None without a GPU op.
    """

    trace: Trace
    name: str = ""
    mode: str | None = None
    trace_pass: str | None = None
    repeat: int | None = None
    marks_ns: Sequence[tuple[int, int]] = ()
    step_regex: str | None = None
    host_submit_ns: float | None = None
    calibration: Calibration | None = None
    waits: Waits | None = None  # what the other ranks' traces tell; None where none was given
    waits_for: int | None = None  # the rank for which most of its waiting is; None where there is none
    waits_reason: str | None = None  # why not all of its collectives have a counterpart; None where all have one

    @cached_property
    def figures(self) -> dict[str, Any]:
        """Documents of figures that were computed, by name."""
        return {}

    def release(self, *facts: str) -> None:
        """Forget what takes memory and is not asked for any more."""
        for fact in facts:
            self.__dict__.pop(fact, None)
            self.__dict__.pop(_kept_as(fact), None)

    def with_other_ranks(self, waits: Waits, waits_for: int | None, reason: str | None) -> Context:
        """The same facts, and what the other ranks' traces tell."""
        other = replace(self, waits=waits, waits_for=waits_for, waits_reason=reason)
        found_anew = {*other.__dict__, "times", "figures"}
        other.__dict__.update({name: fact for name, fact in self.__dict__.items() if name not in found_anew})
        return other

    @property
    def own_capture(self) -> bool:
        """Whether we recorded it: launch calls of graph replays are then mostly the profiler's cost."""
        return self.trace_pass is not None

    @property
    def node_gap_ns(self) -> float | None:
        """ν of the machine that recorded the trace, where that is known."""
        return None if self.calibration is None else self.calibration.node_gap_ns

    # Steps and replays

    @cached_property
    def replays(self) -> GraphReplays:
        return graph_replays(self.trace)

    @cached_property
    def steps(self) -> Steps:
        """LaunchscopeError: a step expression that is bad, or takes too long."""
        return find_steps(self.trace, self.replays, self.lost_calls, self.marks_ns, self.step_regex)

    @cached_property
    def lost_calls(self) -> LostCalls:
        return find_lost_calls(self.trace)

    @cached_property
    def step_kinds(self) -> StepKinds:
        return find_step_kinds(self.trace, self.steps)

    @property
    def has_steps(self) -> bool:
        """Whether any step is kept."""
        return bool(self.steps.kept.any())

    @by_device
    def first_op_ns(self, device: int) -> Ints:
        """[steps] NONE where a step has no op."""
        return first_op_ns(self.trace, self.steps, device)

    @by_device
    def period_ns(self, device: int) -> Ints:
        """[steps] from a kept step's first op to the first op of the step right after it, kept or not; else NONE.

        Steps without any work belong to the time of the one before them.
        """
        first = self.first_op_ns[device]
        following = np.full(len(first), NONE, np.int64)
        working = np.flatnonzero(~self.steps.empty)
        following[working[:-1]] = first[working[1:]]
        there = self.steps.kept & (first != NONE) & (following != NONE) & (following > first)
        return np.where(there, following - first, NONE)

    @by_device
    def windows(self, device: int) -> list[tuple[int, int]]:
        """The steady ones: from the first op of an unbroken run of kept steps to that of the step after it.

        A step without a period has none.
        """
        found: list[tuple[int, int]] = []
        periods, first = self.period_ns[device], self.first_op_ns[device]
        for step in np.flatnonzero(periods != NONE).tolist():
            since = found.pop()[0] if found and found[-1][1] == first[step] else int(first[step])
            found.append((since, int(first[step] + periods[step])))
        return found

    @by_device
    def step_busy_ns(self, device: int) -> Reals:
        """[kept steps] union of their own GPU ops."""
        return step_busy_ns(self.trace, self.steps, device)

    # Busy and idle

    @by_device
    def busy(self, device: int) -> Intervals:
        """Union of the device's GPU ops."""
        ops, on_device = self.trace.gpu_ops, self.trace.gpu_ops.device == device
        return Intervals.union(ops.start_ns[on_device], ops.end_ns[on_device])

    @cached_property
    def threads(self) -> Threads:
        return Threads(self.trace)

    @by_device
    def gaps(self, device: int) -> Gaps:
        """Of the whole file."""
        return find_gaps(self.trace, self.steps, device, self.threads, self.busy[device])

    @by_device
    def steady(self, device: int) -> Gaps | None:
        """Inside the steady windows; None without one."""
        windows = self.windows[device]
        if not windows:
            return None
        return gaps_inside(self.gaps[device], windows, self.trace, self.threads, self.busy[device])

    # The headline device

    @cached_property
    def headline(self) -> int | None:
        busy_ns = {device: int((busy.end_ns - busy.start_ns).sum()) for device, busy in self.busy.items()}
        return max(busy_ns, key=lambda device: busy_ns[device], default=None)

    @property
    def device(self) -> int:
        """The headline device, for what is asked of traces with GPU ops only."""
        assert self.headline is not None, "the trace has a GPU op"
        return self.headline

    @property
    def headline_steady(self) -> Gaps | None:
        """Its steady gaps, or None."""
        return None if self.headline is None else self.steady[self.headline]

    @property
    def headline_gaps(self) -> Gaps:
        """Its gaps that headlines speak of: the steady ones, else those of the whole file."""
        return self.gaps[self.device] if self.headline_steady is None else self.headline_steady

    @cached_property
    def busy_ns(self) -> Reals:
        """GPU work of each kept step; of the whole file where there is none."""
        if not self.has_steps:
            return np.array([self.gaps[self.device].busy_ns], np.float64)
        return self.step_busy_ns[self.device]

    @cached_property
    def collectives(self) -> Collectives:
        return collectives_of(self.trace, self.steps, self.headline)

    @cached_property
    def times(self) -> TraceTimes | None:
        """Of a step; None without a GPU op."""
        if self.headline is None:
            return None
        gaps, periods_ns = (self.gaps[self.headline], self.headline_steady), self.period_ns[self.headline]
        work_ns = within_its_time(self.busy_ns, self.periods_ns, self.headline_steady)
        several = self.step_kinds.are_several
        times = trace_times(self.trace, self.steps, *gaps, work_ns, periods_ns, self.collectives, of_means=several)
        if not several and not len(self.collectives) and times.contradicts(self.headline_steady):
            times = trace_times(self.trace, self.steps, *gaps, work_ns, periods_ns, self.collectives, of_means=True)
        alone = self.waits is None or not len(self.collectives)
        return times if alone or self.waits is None else self.waits.with_waiting(times, work_ns)

    @cached_property
    def periods_ns(self) -> Reals:
        """Of the kept steps that have one, on the headline device."""
        found = self.period_ns[self.device]
        periods: Reals = found[found != NONE].astype(np.float64)
        return periods

    @cached_property
    def step_figures(self) -> StepsDoc | None:
        """None without a kept step or without a GPU op."""
        if self.headline is None or not self.has_steps:
            return None
        return steps_doc(self.trace, self.steps, self.headline, self.busy_ns, self.periods_ns)

    @cached_property
    def queue_depth(self) -> QueueDepthDoc:
        if self.headline is None:
            return QueueDepthDoc(median=None, max=None)
        return queue_depth(self.trace, self.headline, self.windows[self.headline] or None)

    # Launches, and who made them

    @cached_property
    def launch_times(self) -> LaunchTimes:
        return launch_times(self.trace)

    @cached_property
    def stacks(self) -> CallStacks:
        return CallStacks.of(self.trace)

    @cached_property
    def line_of_stack(self) -> Ints:
        """[stacks] the user's line of each: its name, NONE without a Python frame."""
        return users_lines(self.stacks.stacks, self.trace.names)

    @cached_property
    def operators(self) -> Ints:
        """[gpu_ops] name of the innermost operator that launched each, NONE where none is recorded."""
        return narrow(launching_operators(self.trace, self.trace.gpu_ops.launch_row))

    @cached_property
    def launches(self) -> LaunchesDoc:
        return launches_doc(self.trace, self.launch_times, self.stacks, self.steps)

    @cached_property
    def blocking_words(self) -> tuple[str, ...]:
        """Blocking calls inside kept steps, those with the most time first."""
        return blocking_words(self.trace, self.steps)

    @cached_property
    def trace_facts(self) -> TraceFacts:
        """What counts, warnings and reliability rest on."""
        return TraceFacts.of(self.trace, self.steps)

    # In scope: of a kept step, or of the whole file where there is none

    def in_scope(self, step_of_rows: Ints) -> Bools:
        """Rows with these steps that are."""
        if not self.has_steps:
            return np.ones(len(step_of_rows), np.bool_)
        return follow(self.steps.kept, step_of_rows, absent=False)

    @cached_property
    def linked_kernels(self) -> Bools:
        """[gpu_ops] kernels in scope whose launch is in the file."""
        ops = self.trace.gpu_ops
        linked: Bools = ops.is_kernel & (ops.launch_row != NONE) & self.in_scope(self.steps.op_step)
        return linked

    @cached_property
    def graph_kernels(self) -> Bools:
        """[gpu_ops] those of them that ran in a replay."""
        return self.linked_kernels & self.trace.in_graph()

    @cached_property
    def graph_launches(self) -> Ints:
        """Rows of the graph launches in scope."""
        return np.flatnonzero(self.trace.launches.is_graph & self.in_scope(self.steps.launch_step))

    @cached_property
    def replaying(self) -> Bools:
        """[steps] kept steps that launch a graph."""
        return self.steps.kept & (self.steps.counted(self.steps.launch_step[self.trace.launches.is_graph]) > 0)

    def in_replaying(self, step_of_rows: Ints) -> Bools:
        """Rows of a step that replays; without kept steps all."""
        if not self.has_steps:
            return np.ones(len(step_of_rows), np.bool_)
        return follow(self.replaying, step_of_rows, absent=False)

    def per_step(self, total: float, steps: Bools) -> float | None:
        """Of these steps together as a mean; None without any."""
        return total / int(steps.sum()) if self.has_steps and steps.any() else None
