"""The steps of a serving loop, and what the launches of the thread that runs its model are.

Copies in and out, the model's, sampling.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Any, Final, Self

import numpy as np

from ...facts.context import Context
from ...model.columns import Intervals, follow
from ...model.trace import NONE, Bools, HostKind, Ints, OpKind, Trace

COPY_IN: Final = re.compile(r"HtoD|HostToDevice|Host -> Device|Host-to-Device", re.IGNORECASE)
COPY_OUT: Final = re.compile(r"DtoH|DeviceToHost|Device -> Host|Device-to-Host", re.IGNORECASE)

_PRODUCT_OPERATOR: Final = re.compile(
    r"(?:^|::|_)(?:add|badd?|b|scaled_|scaled_grouped_|grouped_|int4pack_|int8pack_)?(?:mm|mv|bmm)"
    r"(?:_out|_for_\w+|_v\d)?(?:\.\w+)?$"
    r"|matmul|linear|gemm|gemv|marlin|einsum",
    re.IGNORECASE,
)
_PRODUCT_KERNEL: Final = re.compile(
    r"gemm|gemv|cutlass|nvjet|cublas|splitk|Cijk_|xmma|wgmma|marlin|matmul|tinygemm|dot_kernel"
    r"|(?:^|_)(?:add|b)?mm(?:_|$)",
    re.IGNORECASE,
)
"""Matrix products; the last of a step is the output projection. Kernels' names are those of NVIDIA's and AMD's
libraries, of Triton's and of what torch.compile writes."""

_DRAW: Final = re.compile(
    r"argmax|multinomial|exponential_|exponential_kernel|categorical|gumbel"
    r"|(?<!up)(?<!down)(?<!grid_)(?<!re)sampl(?:e|ing)",
    re.IGNORECASE,
)
"""A token is chosen. Softmax, topk and sort say nothing: attention and the routing of experts have them, too."""


@dataclass(frozen=True, eq=False)
class ServingSteps:
    """The n steps' host ranges, each up to the next one, and the rows of those that count."""

    start_ns: Ints
    end_ns: Ints
    used: Ints
    first_op_ns: Ints
    has_period: Bools

    @classmethod
    def of(cls, context: Context) -> Self | None:
        """None where no step counts."""
        steps, first = context.steps, context.first_op_ns[context.device]
        periods = context.period_ns[context.device] != NONE
        used = np.flatnonzero(periods) if periods.any() else steps.kept_rows
        if not len(used):
            return None
        return cls(steps.start_ns, np.append(steps.start_ns[1:], steps.end_ns[-1:]), used, first, periods)

    def __len__(self) -> int:
        return len(self.start_ns)

    def at(self, times_ns: Ints) -> Ints:
        """The step at each time; NONE outside of every step."""
        step = np.searchsorted(self.start_ns, times_ns, side="right") - 1
        return np.where((step >= 0) & (times_ns < self.end_ns[step]), step, NONE)

    def from_operators(self, launches: ServingLaunches) -> Self:
        """Steps by repetition begin with their first launch: its operator began before."""
        row = np.searchsorted(launches.at_ns, self.start_ns)
        found = row < len(launches.at_ns)
        start_ns = self.start_ns.copy()
        start_ns[found] = np.minimum(start_ns[found], launches.start_ns[row[found]])
        start_ns = np.maximum.accumulate(start_ns)
        return replace(self, start_ns=start_ns, end_ns=np.append(start_ns[1:], self.end_ns[-1]))


@dataclass(frozen=True, eq=False)
class ServingLaunches:
    """Launches of one thread, by start, and its waits. Start and end are the outermost operator's around each copy."""

    process: int
    thread: int
    row: Ints  # of Trace.launches
    at_ns: Ints  # start of the call
    start_ns: Ints
    end_ns: Ints
    is_graph: Bools
    is_model: Bools  # a graph replay or a matrix product
    is_copy_in: Bools
    is_copy_out: Bools
    draws: Bools  # a launch of its own that chooses tokens
    draws_in_replay: Bools  # a replay whose ops after the last matrix product choose tokens
    waits: Intervals  # the thread's blocking calls

    @classmethod
    def of(cls, trace: Trace, sampling: Bools, process: int, thread: int) -> Self:
        """``sampling`` are the GPU ops that sample inside a replay."""
        launches, ops, calls = trace.launches, trace.gpu_ops, trace.blocking_calls
        row = np.flatnonzero((launches.process == process) & (launches.thread == thread))
        first = trace.first_ops()[row] if len(row) else row
        operator = follow(trace.host_ops.name, launches.operator_row[row])
        name, kind, is_graph = ops.name[first], ops.kind[first], launches.is_graph[row]
        alone, is_copy = (kind == OpKind.KERNEL) & ~is_graph, (kind == OpKind.MEMCPY) & ~is_graph
        is_product = matching(trace, _PRODUCT_OPERATOR, operator) | matching(trace, _PRODUCT_KERNEL, name)
        start_ns, end_ns = _with_operators(trace, process, thread, launches.start_ns[row], launches.end_ns[row])
        waits = (calls.process == process) & (calls.thread == thread)
        return cls(
            process=process,
            thread=thread,
            row=row,
            at_ns=launches.start_ns[row],
            start_ns=start_ns,
            end_ns=end_ns,
            is_graph=is_graph,
            is_model=is_graph | (alone & is_product),
            is_copy_in=is_copy & matching(trace, COPY_IN, name),
            is_copy_out=is_copy & matching(trace, COPY_OUT, name),
            draws=alone & (matching(trace, _DRAW, operator) | matching(trace, _DRAW, name)),
            draws_in_replay=is_graph & np.isin(row, ops.launch_row[sampling]),
            waits=Intervals.union(calls.start_ns[waits], calls.end_ns[waits]),
        )

    def between(self, start_ns: int, end_ns: int) -> Self:
        """The launches whose call starts in [start, end)."""
        first, last = np.searchsorted(self.at_ns, (start_ns, end_ns))
        columns: dict[str, Any] = {
            name: column[first:last] for name, column in vars(self).items() if isinstance(column, np.ndarray)
        }
        return replace(self, **columns)

    def waits_between(self, start_ns: int, end_ns: int) -> Intervals:
        """The waits that start in [start, end)."""
        first, last = np.searchsorted(self.waits.start_ns, (start_ns, end_ns))
        return Intervals(self.waits.start_ns[first:last], self.waits.end_ns[first:last])


def sampling_in_replays(context: Context) -> Bools:
    """GPU ops inside a replay that come after its last matrix product, where one of them chooses tokens."""
    trace, replays, ops = context.trace, context.replays, context.trace.gpu_ops
    found = np.zeros(len(ops), np.bool_)
    rows = np.flatnonzero(replays.op_replay != NONE)
    draws = matching(trace, _DRAW, ops.name[rows])
    if not draws.any():
        return found
    replay, ordinal = replays.op_replay[rows], replays.ordinal[rows]
    is_product = ops.is_kernel[rows] & matching(trace, _PRODUCT_KERNEL, ops.name[rows])
    last_product = np.full(len(replays), NONE, np.int64)
    np.maximum.at(last_product, replay[is_product], ordinal[is_product])
    is_after = (ordinal > last_product[replay]) & (last_product[replay] != NONE)
    drawing = np.zeros(len(replays), np.bool_)
    drawing[replay[is_after & draws]] = True
    found[rows[is_after & drawing[replay]]] = True
    return found


def may_sample(trace: Trace) -> bool:
    """Whether any GPU op, or operator that launches, has a name that tells of choosing tokens."""
    operators = follow(trace.host_ops.name, trace.launches.operator_row)
    return any(matching(trace, _DRAW, names).any() for names in (trace.gpu_ops.name, operators))


def matching(trace: Trace, pattern: re.Pattern[str], names: Ints) -> Bools:
    """Which of these names the pattern is found in."""
    found = [name for name in np.unique(names).tolist() if name != NONE and pattern.search(trace.name(name))]
    return np.isin(names, found)


def _with_operators(trace: Trace, process: int, thread: int, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """Each call with the outermost operator around it, as far as no other call lies in it."""
    host = trace.host_ops
    operators = (host.kind == HostKind.OPERATOR) & (host.process == process) & (host.thread == thread)
    around = Intervals.union(host.start_ns[operators], host.end_ns[operators])
    if not len(around) or not len(start_ns):
        return start_ns.copy(), end_ns.copy()
    row = np.searchsorted(around.start_ns, start_ns, side="right") - 1
    inside = (row >= 0) & (around.end_ns[row] >= end_ns)
    first = np.where(inside, around.start_ns[row], start_ns)
    last = np.where(inside, around.end_ns[row], end_ns)
    first[1:] = np.maximum(first[1:], np.minimum(end_ns[:-1], start_ns[1:]))
    last[:-1] = np.minimum(last[:-1], np.maximum(start_ns[1:], end_ns[:-1]))
    return first, last
