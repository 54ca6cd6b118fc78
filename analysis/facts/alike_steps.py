"""The kept steps that run the same GPU ops as the typical one, op by op: where a figure of one op has a spread."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Self

import numpy as np

from ..model.columns import follow
from ..model.trace import NONE, Ints, Trace
from .alignment import step_ops
from .steps import Steps


@dataclass(frozen=True, eq=False)
class AlikeSteps:
    """s kept steps with the same n GPU ops; the typical step is one of them. Without a kept step both are 0."""

    ops: Ints  # [n] rows of gpu_ops of the typical step, in launch order
    rows: Ints  # [s, n] the same ops in every alike step: the k-th of its name there
    step: Ints  # [s] indices of the alike steps, ascending

    @classmethod
    def of(cls, trace: Trace, steps: Steps) -> Self:
        """Branches of a graph may start in another order from replay to replay: ops are told by name and occurrence."""
        typical = step_ops(trace, steps)
        if not len(typical):
            return cls(typical, typical.reshape(0, 0), typical)
        ops = trace.gpu_ops
        rows = np.flatnonzero(
            (ops.device == ops.device[typical[0]]) & np.isin(steps.op_step, steps.kept_rows) & (steps.op_step != NONE)
        )
        rows = rows[np.lexsort((*_launch_order(trace, rows), ops.name[rows], steps.op_step[rows]))]
        step, first, count = np.unique(steps.op_step[rows], return_index=True, return_counts=True)
        same_size = count == len(typical)
        table = rows[first[same_size, None] + np.arange(len(typical))]
        by_name = np.argsort(ops.name[typical], kind="stable")
        alike = (ops.name[table] == ops.name[typical[by_name]]).all(axis=1)
        in_order = np.empty_like(table[alike])
        in_order[:, by_name] = table[alike]
        return cls(typical, in_order, step[same_size][alike])

    def places(self, rows: Ints) -> Ints:
        """Places [0, n) of these rows of the typical step."""
        order, ascending = self._by_row
        return order[np.searchsorted(ascending, rows)]

    @cached_property
    def _by_row(self) -> tuple[Ints, Ints]:
        order = np.argsort(self.ops)
        return order, self.ops[order]

    def place_of(self, row: int) -> tuple[int, int] | None:
        """Which alike step holds this GPU op, and at which place; None when none does."""
        found = np.argwhere(self.rows == row)
        return (int(found[0, 0]), int(found[0, 1])) if len(found) else None


def _launch_order(trace: Trace, rows: Ints) -> tuple[Ints, Ints]:
    """Keys by which a step's ops are in launch order, the last one first, as ``numpy.lexsort`` takes them."""
    ops = trace.gpu_ops
    launch_row, start_ns = ops.launch_row[rows], ops.start_ns[rows]
    return start_ns, np.where(launch_row == NONE, start_ns, follow(trace.launches.start_ns, launch_row))
