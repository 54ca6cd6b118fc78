"""What torch.compile made of the eager step: which kernels became which, what was promised and what came.

Kernels are matched by name and order (alignment.py), so all of this is inferred. What stands in place of eager kernels
belongs to the candidate that its own name tells of: torch.compile writes the operators that a kernel holds into it.
"""

from __future__ import annotations

import re
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from ...facts.alignment import Alignment, align
from ...facts.context import Context
from ...model.advisor_documents import FusedPartDoc, FusedRunDoc, PromiseDoc
from ...model.names import is_compiled, unnumbered
from ...model.statistics import known_sum
from .advisor import Prices, Rates
from .scan import Occurrence
from .step import FusionStep, OpTimes

_COMMON: Final = frozenset({"add", "mul", "copy_", "sub", "div", "mm", "addmm", "bmm", "fill_", "where"})
"""Operators that too many patterns have for a name to tell of one."""

_ATTENTION: Final = "scaled_dot_product"
_Names = tuple[str, ...]
_Rows = tuple[list[int], list[int]]
"""Of one place: rows of the eager trace's GPU ops, and of the fused one's in their place."""
_KIND_OF_TRITON: Final = re.compile(r"^triton_[a-z]+_fused_?")


@dataclass(frozen=True)
class Recorded:
    """A trace, and what its ops take per step."""

    context: Context
    times: OpTimes


def fused_run(
    eager: Recorded, step: FusionStep, found: Sequence[Occurrence], rates: Rates, fused: Recorded
) -> FusedRunDoc | None:
    """The comparison; None where either has no kept step."""
    matched = align(eager.context, fused.context)
    if not len(matched.reference_ops) or not len(matched.other_ops):
        return None
    run, prices = _Run(eager, fused, matched, found), Prices(rates, step)
    promises = []
    for kind in dict.fromkeys(o.kind for o in found if o.launches_saved > 0):
        worth = prices.worth(o for o in found if o.kind == kind)
        promises.append(
            PromiseDoc(
                kind=kind,
                launches_promised=worth.launches_saved,
                launches_came=run.gone[kind],
                gpu_work_promised_ns=worth.gpu_work_ns,
                gpu_work_came_ns=run.gone_ns[kind],
            )
        )
    return FusedRunDoc(
        eager_trace=eager.context.name,
        fused_trace=fused.context.name,
        launches_before=len(matched.reference_ops),
        launches_after=len(matched.other_ops),
        gpu_work_before_ns=sum(eager.times.ns),
        gpu_work_after_ns=sum(fused.times.ns),
        promises=promises,
        launches_promised=sum(promise.launches_promised for promise in promises),
        gpu_work_promised_ns=known_sum(promise.gpu_work_promised_ns for promise in promises),
        parts=run.parts(),
    )


class _Run:
    """Replaced kernels of both sides, by what they belong to."""

    def __init__(self, eager: Recorded, fused: Recorded, matched: Alignment, found: Sequence[Occurrence]) -> None:
        self._eager, self._fused = eager, fused
        self._before_ns = dict(zip(matched.reference_ops.tolist(), eager.times.ns, strict=True))
        self._after_ns = dict(zip(matched.other_ops.tolist(), fused.times.ns, strict=True))
        self._kind_of = {row: o.kind for o in found for op in o.ops for row in op.gpu_ops}
        self._telling = _telling(found)
        self._replaced = self._without_moved([(b.tolist(), a.tolist()) for b, a in matched.replacements()])
        self.gone: Counter[str] = Counter()
        self.gone_ns: defaultdict[str, float] = defaultdict(float)
        for before, after in self._replaced:
            kinds = [(self._kind_of.get(row), 1, self._before_ns[row]) for row in before]
            kinds += [(self._owner(row, before), -1, -self._after_ns[row]) for row in after]
            for kind, count, ns in kinds:
                if kind is not None:
                    self.gone[kind] += count
                    self.gone_ns[kind] += ns

    def _without_moved(self, runs: Sequence[_Rows]) -> list[_Rows]:
        """The runs without ops that went in one place and came, by name, in another: those only changed their turn."""
        recorded = (self._eager, self._fused)
        went, came = (Counter(self._name(recorded[side], row) for run in runs for row in run[side]) for side in (0, 1))
        moved = (went & came, went & came)

        def stays(side: int, row: int) -> bool:
            name = self._name(recorded[side], row)
            moved[side][name] -= 1
            return moved[side][name] < 0

        kept = [([row for row in b if stays(0, row)], [row for row in a if stays(1, row)]) for b, a in runs]
        return [(before, after) for before, after in kept if before or after]

    def _owner(self, row: int, before: Sequence[int]) -> str | None:
        """The candidate that a fused kernel's name tells of, else the one that most kernels went from there."""
        name = self._name(self._fused, row)
        scores = {kind: sum(word in name for word in words) for kind, words in self._telling.items()}
        best = max(scores, key=lambda kind: scores[kind], default=None) if is_compiled(name) else None
        if best is not None and scores[best]:
            return best
        went = Counter(self._kind_of[one] for one in before if one in self._kind_of)
        return went.most_common(1)[0][0] if went else None

    def parts(self) -> list[FusedPartDoc]:
        """Replacements that are alike, together."""
        groups: dict[tuple[_Names, _Names, _Names], list[_Rows]] = {}
        for before, after in self._replaced:
            names_before = tuple(self._name(self._eager, row) for row in before)
            names_after = tuple(unnumbered(self._name(self._fused, row)) for row in after)
            kinds = dict.fromkeys([*map(self._kind_of.get, before), *(self._owner(row, before) for row in after)])
            own = tuple(kind for kind in kinds if kind is not None)
            groups.setdefault((own, names_before, names_after), []).append((before, after))
        parts = [
            FusedPartDoc(
                kinds=list(kinds),
                before=list(before),
                after=list(after),
                operators=[text for text in dict.fromkeys(map(_operators_in, after)) if text],
                places=len(places),
                kernels_before=len(before) * len(places),
                kernels_after=len(after) * len(places),
                before_ns=sum(self._before_ns[row] for rows, _ in places for row in rows),
                after_ns=sum(self._after_ns[row] for _, rows in places for row in rows),
            )
            for (kinds, before, after), places in groups.items()
        ]
        return sorted(parts, key=lambda part: -part.kernels_before)

    @staticmethod
    def _name(recorded: Recorded, row: int) -> str:
        trace = recorded.context.trace
        return trace.name(int(trace.gpu_ops.name[row]))


def _operators_in(name: str) -> str:
    """The operators that a fused kernel's name lists, joined by ``_`` as there; empty for another kernel's."""
    return _KIND_OF_TRITON.sub("", name) if is_compiled(name) else ""


def _telling(found: Sequence[Occurrence]) -> dict[str, list[str]]:
    """Words of a fused kernel's name that tell of each kind: operators that are not in every pattern."""
    words: dict[str, dict[str, None]] = {}
    for o in found:
        telling = words.setdefault(o.kind, {})
        for op in o.ops:
            name = op.name or ""
            if name not in _COMMON:
                telling[name.rstrip("_")] = None
            if any(_ATTENTION in around for around in op.around):
                telling[_ATTENTION] = None
    return {kind: list(telling) for kind, telling in words.items()}
