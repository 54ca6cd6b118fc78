"""What fewer launches and fewer bytes are worth, in eager mode and in a graph.

    eager   launches saved × τ, as long as the host sets the pace: max(W, N·τ) before less after
    graph   bytes saved ÷ bandwidth + launches saved × ν + Σ beside − what stays

``beside`` is what a kernel takes beside its bytes: its time − bytes ÷ bandwidth. Of kernels of a few µs that is most,
and one kernel in place of several has it once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...model.fusion_document import WorthDoc
from ...model.statistics import known_sum
from ...step_model.bound import bound_ns
from ...step_model.step_bytes import least_ns
from .ops import Occurrence
from .step import FusionStep, StepOp

TAU_STEP: Final = "tau_step"

_BY_INDEX = ("index", "gather", "scatter", "embedding", "slice", "arange", "fill_")
"""Operators whose inputs are read or written in part: what they move is not told by shapes."""


@dataclass(frozen=True)
class Rates:
    """What the machine needs for a launch, a byte and a graph's node; None where it is not known."""

    tau_ns: float | None = None
    tau_source: str | None = None  # TAU_STEP or 'median launch overhead'
    tau_floor_ns: float | None = None
    bandwidth_bytes_per_s: float | None = None
    node_gap_ns: float | None = None
    is_gpu_bound: bool = False  # as profiled: kept to where τ is no whole step's, so that N·τ tells nothing


@dataclass(frozen=True)
class Prices:
    """The rates, with the step that they are applied to."""

    rates: Rates
    step: FusionStep

    def worth(self, found: Iterable[Occurrence]) -> WorthDoc:
        """Of all these together; each operator belongs to one."""
        occurrences = list(found)
        saved = sum(o.launches - o.launches_after for o in occurrences)
        moved = self._moved_ns(sum(o.bytes_saved or 0 for o in occurrences))
        nodes = _times(saved, self.rates.node_gap_ns)
        middle, most = (self._beside_ns(occurrences, stays) for stays in (_of_largest, _of_quickest))
        low = _plus(moved, nodes)
        least = _times(saved, self.rates.tau_floor_ns)
        eager, host = self._eager_ns(saved, _plus(moved, middle)), self._host_ns(occurrences)
        return WorthDoc(
            launches_saved=saved,
            bytes_saved=known_sum(o.bytes_saved for o in occurrences),
            eager_saves_ns=eager,
            eager_low_ns=None if least is None or eager is None else min(least, eager),
            eager_high_ns=None if host is None or eager is None else max(host, eager),
            graph_saves_ns=_plus(low, middle or 0.0),
            graph_low_ns=low,
            graph_high_ns=None if most is None else _plus(low, most),
            gpu_work_ns=_plus(moved, middle or 0.0),
        )

    def _moved_ns(self, moved: float) -> float | None:
        bandwidth = self.rates.bandwidth_bytes_per_s
        return least_ns(moved, bandwidth) if bandwidth else None

    def _eager_ns(self, saved: int, work_saved_ns: float | None) -> float | None:
        """launches × τ; where τ is a whole step's and the kernels' times are known, no more than the bound falls."""
        tau = self.rates.tau_ns
        if tau is None or self.rates.tau_source != TAU_STEP or work_saved_ns is None:
            return _times(saved, tau) if self.host_sets_pace else work_saved_ns
        work, launches = self._step()
        return bound_ns(work, launches, tau) - bound_ns(work - work_saved_ns, launches - saved, tau)

    @property
    def host_sets_pace(self) -> bool:
        """In eager mode: N·τ > W where τ is a whole step's, else whatever the trace's own verdict says."""
        if self.rates.tau_ns is None or self.rates.tau_source != TAU_STEP:
            return not self.rates.is_gpu_bound
        work, launches = self._step()
        return launches * self.rates.tau_ns > work

    def _step(self) -> tuple[float, int]:
        """W and N of the whole step."""
        return sum(op.ns for op in self.step.ops), sum(op.launches for op in self.step.ops)

    def _host_ns(self, found: Sequence[Occurrence]) -> float | None:
        """The host's time before the launches of each place, by the share of them that is saved."""
        total = 0.0
        for o in found:
            before = [op.host_ns for op in o.ops if op.host_ns is not None]
            if len(before) < len(o.ops):
                return None
            total += sum(before) * (o.launches - o.launches_after) / o.launches
        return total

    def _beside_ns(
        self, found: Sequence[Occurrence], stays: Callable[[Sequence[float], Occurrence], float]
    ) -> float | None:
        """What the kernels take beside their bytes, less what those that stay will; None where that isn't known."""
        total = 0.0
        for o in found:
            if o.launches_after >= o.launches:
                continue
            beside = [self._beside(op) for op in o.ops]
            known = [ns for ns in beside if ns is not None]
            if len(known) < len(beside):
                return None
            kept = min(1 if o.is_product else o.launches_after, len(known))
            total += max(sum(known) - kept * stays(known, o), 0.0)
        return total

    def _beside(self, op: StepOp) -> float | None:
        moved = self._moved_ns(bytes_of(op))
        return None if moved is None else max(op.ns - moved, 0.0)


def bytes_of(op: StepOp) -> int:
    """What an operator reads and writes, by its shapes; 0 where these don't tell."""
    if any(word in (op.name or "") for word in _BY_INDEX):
        return 0
    tensors = [*op.reads, *([] if op.output is None else [op.output])]
    return sum(tensor.bytes or 0 for tensor in tensors)


def _of_largest(beside: Sequence[float], found: Occurrence) -> float:
    """One kernel in place of products works as the largest of them does; any other as the slowest, beside bytes."""
    if not found.is_product:
        return max(beside)
    largest = max(range(len(beside)), key=lambda place: bytes_of(found.ops[place]))
    return beside[largest]


def _of_quickest(beside: Sequence[float], found: Occurrence) -> float:
    del found
    return min(beside)


def _times(count: int, each_ns: float | None) -> float | None:
    return None if each_ns is None else count * each_ns


def _plus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right
