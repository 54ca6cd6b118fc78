"""Gaps: when a device was idle, and why. The rules and the words are those of docs/metrics.md."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

import numpy as np
from numpy.typing import NDArray

from ..model.columns import Intervals, follow
from ..model.document import CAUSES, TAXES, CauseDoc, GapsDoc
from ..model.trace import NONE, Bools, GpuOps, Ints, Launches, Trace, narrow, one_value_shared
from .gap_causes import Cuts, Threads, cut_parts
from .steps import Steps

if TYPE_CHECKING:
    import pandas as pd

_LAST: Final = np.iinfo(np.int64).max
_AT_ONCE: Final = 65_536
"""Gaps whose causes are worked out together: for all 480,000 of a file of 250 MB it would take 50 MB more."""


@dataclass(frozen=True, eq=False)
class Gaps:
    """The g gaps of one device inside its windows, by start; parts of every cause add up to each gap."""

    device: int
    window_ns: int
    busy_ns: int  # union of the device's GPU ops, inside the windows
    op_sum_ns: int  # plain sum of their durations, inside the windows
    has_steps: bool
    start_ns: Ints  # [g]
    end_ns: Ints  # [g]
    prev_op: Ints  # [g] row of Trace.gpu_ops: the op that ended last before the gap
    next_op: Ints  # [g] row of Trace.gpu_ops: the op that starts first after it
    parts_ns: Mapping[str, Ints]  # by cause, [g] each
    boundary: Bools  # [g] the ops around it belong to different steps; False without steps
    after_sync_ns: Ints  # [g] part of `host` in which the thread refills the queue after a blocking call
    stall_host_ns: Ints  # [g] part of `host` that is a stall
    stall_launch_ns: Ints  # [g] part of `launch` that is a stall
    observer: Bools  # [g] its launch part lies before a graph replay: in our own captures mostly the profiler's cost
    waiting_call: (
        Ints  # [g] row of Trace.blocking_calls in which another thread sat while this one did nothing, or NONE
    )

    def __post_init__(self) -> None:
        assert self.busy_ns + self.idle_ns == self.window_ns, "busy and idle add up to the window"
        assert all((part >= 0).all() for part in self.parts_ns.values()), "no part is negative"
        assert np.array_equal(_sum(self.parts_ns.values()), self.dur_ns), "causes add up to the gap"

    def __len__(self) -> int:
        return len(self.start_ns)

    @property
    def dur_ns(self) -> Ints:
        """Length of each gap."""
        return self.end_ns - self.start_ns

    @property
    def idle_ns(self) -> int:
        """Length of all gaps."""
        return int(self.dur_ns.sum())

    @property
    def idle_fraction(self) -> float:
        """Idle ÷ window; 0 for a window of no length."""
        return self.idle_ns / self.window_ns if self.window_ns else 0.0

    @property
    def stall_ns(self) -> Ints:
        """[g] the stall parts of `host` and `launch` together."""
        return self.stall_host_ns + self.stall_launch_ns

    def by_cause(self) -> dict[str, CauseDoc]:
        """Every cause that has a part in a gap; a cut gap counts under each of its causes."""
        return {cause: self._cause(cause) for cause in CAUSES if self.parts_ns[cause].any()}

    def _cause(self, cause: str) -> CauseDoc:
        part = self.parts_ns[cause]
        stall = {"host": self.stall_host_ns, "launch": self.stall_launch_ns}.get(cause)
        return CauseDoc(
            count=int((part > 0).sum()),
            ns=int(part.sum()),
            boundary_ns=int(part[self.boundary].sum()) if self.has_steps else None,
            after_sync_ns=int(self.after_sync_ns.sum()) if cause == "host" else 0,
            stall_ns=0 if stall is None else int(stall.sum()),
            before_replay_ns=int(part[self.observer].sum()) if cause == "launch" else 0,
        )

    def tax_parts_ns(self) -> dict[str, Ints]:
        """[g] each gap's share in every tax; they are disjoint and add up to the gap."""
        part, boundary = self.parts_ns, self.boundary
        between = np.where(boundary, part["host"] + part["sync"] + part["device"], 0)
        host_inside = np.where(boundary, 0, part["host"]) - self.after_sync_ns
        taxes = {
            "launch": part["launch"] + part["dispatch"] + host_inside - self.stall_ns,
            "stall": self.stall_ns,
            "node": part["graph"],
            "sync": np.where(boundary, 0, part["sync"]) + self.after_sync_ns,
            "between_steps": between,
            "other": np.where(boundary, 0, part["device"]) + part["unlinked"] + part["skewed"],
        }
        assert tuple(taxes) == TAXES
        assert all((tax >= 0).all() for tax in taxes.values()), "no tax is negative"
        assert np.array_equal(_sum(taxes.values()), self.dur_ns), "taxes add up to the gap"
        return taxes

    def taxes_ns(self) -> dict[str, int]:
        """Idle in six disjoint taxes that add up to it."""
        return {tax: int(ns.sum()) for tax, ns in self.tax_parts_ns().items()}

    def to_doc(self) -> GapsDoc:
        """The ``gaps`` object of the report."""
        return GapsDoc(count=len(self), total_ns=self.idle_ns, by_cause=self.by_cause(), taxes_ns=self.taxes_ns())

    def to_frame(self, trace: Trace) -> pd.DataFrame:
        """One row per gap: its times, the ops around it, ns by cause (columns ``<cause>_ns``) and the axes."""
        import pandas as pd

        names = np.array((*trace.names, ""), dtype=object)
        causes = np.stack([self.parts_ns[cause] for cause in CAUSES])
        return pd.DataFrame(
            {
                "device": self.device,
                "start_ns": self.start_ns,
                "end_ns": self.end_ns,
                "dur_ns": self.dur_ns,
                "cause": np.array(CAUSES, dtype=object)[causes.argmax(axis=0)],
                "previous_op": names[trace.gpu_ops.name[self.prev_op]],
                "next_op": names[trace.gpu_ops.name[self.next_op]],
                **{f"{cause}_ns": self.parts_ns[cause].astype(np.int64) for cause in CAUSES},
                "boundary": self.boundary,
                "after_sync_ns": self.after_sync_ns.astype(np.int64),
                "stall_ns": self.stall_ns.astype(np.int64),
                "detail": [self.waiting_words(trace, gap) for gap in range(len(self))],
            }
        )

    def waiting_words(self, trace: Trace, gap: int) -> str:
        """That another thread sat in a blocking call during this gap, in words; empty where none did."""
        call = int(self.waiting_call[gap])
        if call == NONE:
            return ""
        calls = trace.blocking_calls
        api = trace.name(int(calls.api[call]))
        return f"the launching thread did nothing while thread {calls.thread[call]} sat in {api}"


def find_gaps(trace: Trace, steps: Steps, device: int, threads: Threads, busy: Intervals) -> Gaps:
    """The gaps of one device in the whole trace, and their causes; ``busy`` is the union of the device's GPU ops."""
    rows = np.flatnonzero(trace.gpu_ops.device == device)
    ops = trace.gpu_ops if len(rows) == len(trace.gpu_ops) else trace.gpu_ops.take(rows)
    start, end = busy.end_ns[:-1], busy.start_ns[1:]
    prev_op = narrow(rows[_ended_last(ops, start)])
    next_op = narrow(rows[_starts_first(trace.launches, ops, end)])
    has_steps = len(steps) > 0
    boundary = steps.op_step[prev_op] != steps.op_step[next_op] if has_steps else np.zeros(len(start), np.bool_)

    def causes(some: slice) -> dict[str, Ints]:
        cuts = Cuts.of(trace, start[some], end[some], prev_op[some], next_op[some])
        return _causes(trace, cuts, threads, start[some], end[some], boundary[some])

    pieces = [causes(slice(at, at + _AT_ONCE)) for at in range(0, max(len(start), 1), _AT_ONCE)]
    columns = {  # most causes have no part in a trace
        name: one_value_shared(np.concatenate([piece.pop(name) for piece in pieces])) for name in tuple(pieces[0])
    }
    return Gaps(
        device=device,
        window_ns=int(busy.end_ns[-1] - busy.start_ns[0]) if len(busy) else 0,
        busy_ns=int((busy.end_ns - busy.start_ns).sum()),
        op_sum_ns=int(ops.dur_ns.sum()),
        has_steps=has_steps,
        start_ns=start,
        end_ns=end,
        prev_op=prev_op,
        next_op=next_op,
        parts_ns={cause: columns.pop(cause) for cause in CAUSES},
        boundary=boundary,
        **columns,
    )


def gaps_inside(
    whole: Gaps, windows: Sequence[tuple[int, int]], trace: Trace, threads: Threads, busy: Intervals
) -> Gaps:
    """The parts of a device's gaps inside disjoint ascending windows (ns)."""
    span = (busy.start_ns[0], busy.end_ns[-1]) if len(busy) else (0, 0)
    within = np.clip(np.array(windows, np.int64).reshape(-1, 2), *span)
    gap, start, end = _clip(whole.start_ns, whole.end_ns, within)
    cut = np.flatnonzero((start != whole.start_ns[gap]) | (end != whole.end_ns[gap]))
    prev_op, next_op, boundary = whole.prev_op[gap], whole.next_op[gap], whole.boundary[gap]
    cuts = Cuts.of(trace, whole.start_ns[gap[cut]], whole.end_ns[gap[cut]], prev_op[cut], next_op[cut])
    of_cut = _causes(trace, cuts, threads, start[cut], end[cut], boundary[cut])

    def column(name: str, of_whole: NDArray[Any]) -> NDArray[Any]:
        """Most gaps lie in one window as a whole."""
        values = of_whole[gap]
        values[cut] = of_cut[name]
        return one_value_shared(values)

    on_device = trace.gpu_ops.device == whole.device
    columns: dict[str, Any] = {name: column(name, getattr(whole, name)) for name in of_cut if name not in CAUSES}
    return replace(
        whole,
        window_ns=int((within[:, 1] - within[:, 0]).sum()),
        busy_ns=int(busy.covered_ns(within[:, 0], within[:, 1]).sum()),
        op_sum_ns=_op_sum(trace.gpu_ops.start_ns[on_device], trace.gpu_ops.end_ns[on_device], within),
        start_ns=start,
        end_ns=end,
        prev_op=prev_op,
        next_op=next_op,
        parts_ns={cause: column(cause, whole.parts_ns[cause]) for cause in CAUSES},
        boundary=boundary,
        **columns,
    )


def _causes(trace: Trace, cuts: Cuts, threads: Threads, start: Ints, end: Ints, boundary: Bools) -> dict[str, Ints]:
    """Of some gaps the parts by cause, and the other columns of Gaps that follow from them."""
    parts, after_sync = cut_parts(trace, cuts, threads, start, end)
    after_sync &= ~boundary
    limit = threads.stall_limit_ns(cuts.launch_row)
    return parts | {
        "after_sync_ns": np.where(after_sync, parts["host"], 0),
        "stall_host_ns": np.where(~boundary & ~after_sync & (parts["host"] > limit), parts["host"], 0),
        "stall_launch_ns": np.where(~boundary & (parts["launch"] > limit), parts["launch"], 0),
        "observer": follow(trace.launches.is_graph, cuts.launch_row, absent=False) & (parts["launch"] > 0),
        "waiting_call": narrow(threads.waiting_calls(cuts, parts["host"] > 0)),
    }


def _sum(columns: Iterable[Ints]) -> Ints:
    """Row by row, in 64 bits."""
    return functools.reduce(lambda total, column: np.add(total, column, dtype=np.int64), columns)


def _clip(start: Ints, end: Ints, windows: Ints) -> tuple[Ints, Ints, Ints]:
    """Gaps that have a part inside a window: their rows, and where that part starts and ends."""
    rows = [np.flatnonzero((end > since) & (start < until)) for since, until in windows]
    window = np.repeat(np.arange(len(windows)), [len(inside) for inside in rows])
    gap = np.concatenate([np.zeros(0, np.int64), *rows])
    return gap, np.maximum(start[gap], windows[window, 0]), np.minimum(end[gap], windows[window, 1])


def _op_sum(start_ns: Ints, end_ns: Ints, windows: Ints) -> int:
    """Sum of the ops' durations inside the windows."""
    inside = [np.minimum(end_ns, until) - np.maximum(start_ns, since) for since, until in windows]
    return int(sum(np.maximum(length, 0).sum() for length in inside))


def _ended_last(ops: GpuOps, at: Ints) -> Ints:
    """For each gap that starts at ``at`` its p: largest end, start, row."""
    end = np.maximum(ops.end_ns, ops.start_ns)
    order = np.lexsort((ops.start_ns, end))
    return order[np.searchsorted(end[order], at, side="right") - 1]


def _starts_first(launches: Launches, ops: GpuOps, at: Ints) -> Ints:
    """For each gap that ends at ``at`` its k: smallest start, launch start, row; without a launch last."""
    launch_start = follow(launches.start_ns, ops.launch_row, absent=_LAST)
    order = np.lexsort((launch_start, ops.start_ns))
    return order[np.searchsorted(ops.start_ns[order], at, side="left")]
