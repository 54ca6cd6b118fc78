"""What fewer launches and fewer bytes are worth, in eager mode and in a graph.

    eager   launches saved × τ, as long as the host sets the pace: max(W, N·τ) before less after
    graph   bytes saved ÷ bandwidth + launches saved × ν + Σ start − what stays

``start`` is what a kernel takes beyond its bytes: its time − bytes ÷ bandwidth. Of kernels of a few µs that is most,
and one kernel in place of several has it once.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from ...model.fusion_document import WorthDoc
from ...model.statistics import known_sum
from ...step_model.bound import bound_ns, least_ns
from .scan import Occurrence
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
        saved = sum(o.launches_saved for o in occurrences)
        moved = self._moved_ns(sum(o.bytes_saved or 0 for o in occurrences))
        starts, most_starts = self._starts_ns(occurrences)
        nodes, floor = _times(saved, self.rates.node_gap_ns), _times(saved, self.rates.tau_floor_ns)
        eager = self._eager_ns(saved, _plus(moved, starts))
        host = self._host_ns(occurrences)
        low = _plus(moved, nodes)
        return WorthDoc(
            launches_saved=saved,
            bytes_saved=known_sum(o.bytes_saved for o in occurrences),
            eager_saves_ns=eager,
            eager_low_ns=None if floor is None or eager is None else min(floor, eager),
            eager_high_ns=None if host is None or eager is None else max(host, eager),
            graph_saves_ns=_plus(low, starts or 0.0),
            graph_low_ns=low,
            graph_high_ns=_plus(low, most_starts),
            gpu_work_ns=_plus(moved, starts or 0.0),
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
        before = [(o, known_sum(op.host_ns for op in o.ops)) for o in found]
        return known_sum([0.0, *(None if ns is None else ns * o.launches_saved / o.launches for o, ns in before)])

    def _starts_ns(self, found: Sequence[Occurrence]) -> tuple[float | None, float | None]:
        """What the kernels take beyond their bytes, less what those that stay will; None where that isn't known.

        What stays is as the slowest of them usually, of products as the largest; for the most as the quickest.
        """
        usual = most = 0.0
        for o in found:
            if o.launches_saved <= 0:
                continue
            sizes = [bytes_of(op) for op in o.ops]
            moved = [self._moved_ns(size) for size in sizes]
            starts = [max(op.ns - ns, 0.0) for op, ns in zip(o.ops, moved, strict=True) if ns is not None]
            if len(starts) < len(o.ops):
                return None, None
            kept = min(1 if o.is_product else o.launches_after, len(starts))
            stays = starts[sizes.index(max(sizes))] if o.is_product else max(starts)
            usual += max(sum(starts) - kept * stays, 0.0)
            most += max(sum(starts) - kept * min(starts), 0.0)
        return usual, most


def bytes_of(op: StepOp) -> int:
    """What an operator reads and writes, by its shapes; 0 where these don't tell."""
    if any(word in (op.name or "") for word in _BY_INDEX):
        return 0
    tensors = [*op.reads, *([] if op.output is None else [op.output])]
    return sum(tensor.bytes or 0 for tensor in tensors)


def _times(count: int, each_ns: float | None) -> float | None:
    return None if each_ns is None else count * each_ns


def _plus(left: float | None, right: float | None) -> float | None:
    return None if left is None or right is None else left + right
