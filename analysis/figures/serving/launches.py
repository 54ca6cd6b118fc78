"""What the launches of the thread that runs a model are: copies in and out, the model's, sampling."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final, Self

import numpy as np

from ...facts.context import Context
from ...model.columns import follow
from ...model.intervals import Intervals
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


def is_product(operator: str | None, kernel: str) -> bool:
    """Whether a launch by this operator, of this kernel first, is a matrix product."""
    return bool(_PRODUCT_KERNEL.search(kernel)) or (operator is not None and bool(_PRODUCT_OPERATOR.search(operator)))


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
    waits_ns: Ints  # [w, 2] the thread's blocking calls, as a union

    @classmethod
    def of(cls, trace: Trace, sampling: Bools, process: int, thread: int) -> Self:
        """``sampling`` are the GPU ops that sample inside a replay."""
        launches, ops = trace.launches, trace.gpu_ops
        row = np.flatnonzero((launches.process == process) & (launches.thread == thread))
        first = trace.first_ops()[row] if len(row) else row
        operator = follow(trace.host_ops.name, launches.operator_row[row])
        kernel = ops.name[first]
        is_kernel = ops.kind[first] == OpKind.KERNEL
        is_graph = launches.is_graph[row]
        alone = is_kernel & ~is_graph
        product = alone & _pairs(trace, operator, kernel, alone)
        drawing = _named(trace, _DRAW, (*np.unique(operator[alone]), *np.unique(kernel[alone])))
        is_copy = (ops.kind[first] == OpKind.MEMCPY) & ~is_graph
        copy_in = is_copy & np.isin(kernel, _named(trace, COPY_IN, np.unique(kernel[is_copy])))
        copy_out = is_copy & np.isin(kernel, _named(trace, COPY_OUT, np.unique(kernel[is_copy])))
        at_ns = launches.start_ns[row]
        start_ns, end_ns = _with_operators(trace, process, thread, at_ns, launches.end_ns[row])
        sampled = np.zeros(len(launches) + 1, np.bool_)
        sampled[ops.launch_row[sampling & (ops.launch_row != NONE)]] = True
        calls = trace.blocking_calls
        own = (calls.process == process) & (calls.thread == thread)
        waits = Intervals.union(calls.start_ns[own], calls.end_ns[own])
        return cls(
            process=process,
            thread=thread,
            row=row,
            at_ns=at_ns,
            start_ns=start_ns,
            end_ns=end_ns,
            is_graph=is_graph,
            is_model=is_graph | product,
            is_copy_in=copy_in,
            is_copy_out=copy_out,
            draws=alone & (np.isin(operator, drawing) | np.isin(kernel, drawing)),
            draws_in_replay=is_graph & sampled[row],
            waits_ns=np.stack([waits.start_ns, waits.end_ns], axis=1),
        )

    def between(self, start_ns: int, end_ns: int) -> Self:
        """The launches whose call starts in [start, end)."""
        first, last = np.searchsorted(self.at_ns, (start_ns, end_ns))
        columns = (
            "row",
            "at_ns",
            "start_ns",
            "end_ns",
            "is_graph",
            "is_model",
            "is_copy_in",
            "is_copy_out",
            "draws",
            "draws_in_replay",
        )
        own = {name: getattr(self, name)[first:last] for name in columns}
        return type(self)(process=self.process, thread=self.thread, waits_ns=self.waits_ns, **own)

    def waits_between(self, start_ns: int, end_ns: int) -> Ints:
        """[w, 2] the waits that start in [start, end)."""
        first, last = np.searchsorted(self.waits_ns[:, 0], (start_ns, end_ns))
        return self.waits_ns[first:last]


def sampling_in_replays(context: Context) -> Bools:
    """GPU ops inside a replay that come after its last matrix product, where one of them chooses tokens."""
    trace, replays, ops = context.trace, context.replays, context.trace.gpu_ops
    found = np.zeros(len(ops), np.bool_)
    in_replay = replays.op_replay != NONE
    names = np.unique(ops.name[in_replay])
    draws = _named(trace, _DRAW, names)
    if not len(draws):
        return found
    products = np.array([n for n in names.tolist() if is_product(None, trace.name(n))], dtype=np.int64)
    rows = np.flatnonzero(in_replay)
    last_product = np.full(len(replays), NONE, np.int64)
    is_product_row = np.isin(ops.name[rows], products) & ops.is_kernel[rows]
    np.maximum.at(last_product, replays.op_replay[rows[is_product_row]], replays.ordinal[rows[is_product_row]])
    after = rows[replays.ordinal[rows] > last_product[replays.op_replay[rows]]]
    drawing = np.zeros(len(replays), np.bool_)
    drawing[replays.op_replay[after[np.isin(ops.name[after], draws)]]] = True
    drawing &= last_product != NONE
    found[after[drawing[replays.op_replay[after]]]] = True
    return found


def may_sample(trace: Trace) -> bool:
    """Whether any GPU op, or operator that launches, has a name that tells of choosing tokens."""
    rows = trace.launches.operator_row
    operators = np.unique(trace.host_ops.name[rows[rows != NONE]])
    return bool(len(_named(trace, _DRAW, (*np.unique(trace.gpu_ops.name), *operators))))


def _named(trace: Trace, pattern: re.Pattern[str], names: Iterable[int]) -> Ints:
    """Those of the name indices whose name the pattern is found in."""
    return np.array([int(n) for n in names if n != NONE and pattern.search(trace.name(int(n)))], dtype=np.int64)


def _pairs(trace: Trace, operator: Ints, kernel: Ints, chosen: Bools) -> Bools:
    """Whether each chosen launch is a matrix product, by its operator and its first op."""
    found = np.zeros(len(operator), np.bool_)
    pairs, place = np.unique(np.stack([operator[chosen], kernel[chosen]]), axis=1, return_inverse=True)
    told = [is_product(None if o == NONE else trace.name(o), trace.name(k)) for o, k in pairs.T.tolist()]
    found[chosen] = np.array(told, np.bool_)[place.reshape(-1)]
    return found


def _with_operators(trace: Trace, process: int, thread: int, start_ns: Ints, end_ns: Ints) -> tuple[Ints, Ints]:
    """Each call with the outermost operator around it, as far as no other call lies in it."""
    host = trace.host_ops
    own = (host.kind == HostKind.OPERATOR) & (host.process == process) & (host.thread == thread)
    around = Intervals.union(host.start_ns[own], host.end_ns[own])
    if not len(around) or not len(start_ns):
        return start_ns.copy(), end_ns.copy()
    row = np.searchsorted(around.start_ns, start_ns, side="right") - 1
    inside = (row >= 0) & (around.end_ns[row] >= end_ns)
    first = np.where(inside, around.start_ns[row], start_ns)
    last = np.where(inside, around.end_ns[row], end_ns)
    first[1:] = np.maximum(first[1:], np.minimum(end_ns[:-1], start_ns[1:]))
    last[:-1] = np.minimum(last[:-1], np.maximum(start_ns[1:], end_ns[:-1]))
    return first, last
