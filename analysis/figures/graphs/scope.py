"""What of a trace the graph doctor looks at: its kept steps, the kernels in them, and which steps replay."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from ...facts.gaps import Gaps
from ...facts.replays import GraphReplays
from ...facts.stacks import CallStacks
from ...facts.steps import Steps, first_op_ns
from ...model.capture import Calibration
from ...model.columns import follow
from ...model.trace import NONE, Bools, Ints, Trace
from ...model.user_lines import users_lines


@dataclass(frozen=True, eq=False)
class Examined:
    """A trace and what the other analyses found in it; ``gaps`` are the headline device's, whole and steady."""

    trace: Trace
    steps: Steps
    replays: GraphReplays
    stacks: CallStacks
    whole: Gaps
    steady: Gaps | None
    own_capture: bool
    calibration: Calibration | None

    @cached_property
    def has_steps(self) -> bool:
        return len(self.steps.kept_rows) > 0

    def in_scope(self, step_of_rows: Ints) -> Bools:
        """Rows of a kept step; all where there is none."""
        if not self.has_steps:
            return np.ones(len(step_of_rows), np.bool_)
        return follow(self.steps.kept, step_of_rows, absent=False)

    def counted(self, step_of_rows: Ints) -> Ints:
        """[steps] how many of these rows lie in each step."""
        return np.bincount(step_of_rows[step_of_rows != NONE], minlength=len(self.steps))

    @cached_property
    def replaying(self) -> Bools:
        """[steps] kept steps that launch a graph."""
        return self.steps.kept & (self.counted(self.steps.launch_step[self.trace.launches.is_graph]) > 0)

    def beside_replays(self, step_of_rows: Ints) -> Bools:
        """Rows of a step that replays; without kept steps all."""
        if not self.has_steps:
            return np.ones(len(step_of_rows), np.bool_)
        return follow(self.replaying, step_of_rows, absent=False)

    @cached_property
    def line_of_stack(self) -> Ints:
        """[stacks] the user's line of each: its name, NONE without a Python frame."""
        return users_lines(self.stacks.stacks, self.trace.names)

    @cached_property
    def linked(self) -> Bools:
        """Kernels in scope whose launch is in the file."""
        ops = self.trace.gpu_ops
        linked: Bools = ops.is_kernel & (ops.launch_row != NONE) & self.in_scope(self.steps.op_step)
        return linked

    @cached_property
    def in_graph(self) -> Bools:
        """Those of them that ran in a replay."""
        return self.linked & follow(self.trace.launches.is_graph, self.trace.gpu_ops.launch_row, absent=False)

    @cached_property
    def graph_launches(self) -> Ints:
        """Rows of the graph launches in scope."""
        return np.flatnonzero(self.trace.launches.is_graph & self.in_scope(self.steps.launch_step))

    def per_step(self, count: float, steps: Bools) -> float | None:
        """A total of these steps as a mean; None without any."""
        return count / int(steps.sum()) if self.has_steps and steps.any() else None

    @cached_property
    def periods_ns(self) -> Ints:
        """[steps] from a step's first op on the headline device to that of the step after it, NONE without one."""
        first = first_op_ns(self.trace, self.steps, self.whole.device)
        periods = np.full(len(first), NONE, np.int64)
        both = np.flatnonzero((first[:-1] != NONE) & (first[1:] != NONE))
        periods[both] = first[both + 1] - first[both]
        return periods
