"""Kinds of steps: prefill and decode, those that replay graphs and those that launch kernel by kernel.

They are kept apart before any median: the median of two kinds in turn is a step that never ran.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

import numpy as np

from ..model.trace import Ints, Trace
from .phase_names import kind_of
from .steps import Steps

OTHER_LAUNCHES: Final = 1.5
MORE_LAUNCHES: Final = 8
"""Steps are of another kind where one launches so many times as much, and so many launches more, than the next."""

LEAST_STEPS: Final = 2
"""Of a kind that nothing but its launches tells: one step that differs is no kind."""


@dataclass(frozen=True, eq=False)
class StepKinds:
    """The k kinds of the kept steps, in order of their first step."""

    names: tuple[str, ...]  # [k]
    kind: Ints  # [kept steps] index into names

    @property
    def are_several(self) -> bool:
        """Whether a mean over all steps says more than their median."""
        return len(self.names) > 1


def find_step_kinds(trace: Trace, steps: Steps) -> StepKinds:
    """By what an engine's annotation calls each step, by whether it replays graphs, and by how much it launches."""
    launches = steps.count_kept(steps.launch_step)
    replays = steps.count_kept(steps.launch_step[trace.launches.is_graph]) > 0
    called = [kind_of(steps.names[step]) for step in steps.kept_rows.tolist()]
    keys = list(zip(called, replays.tolist(), strict=True))
    kind = np.zeros(len(keys), np.int64)
    labels: list[str] = []
    for key in dict.fromkeys(keys):
        rows = np.flatnonzero([each == key for each in keys])
        groups = _by_launches(launches[rows])
        alone = sum(each[0] == key[0] for each in keys) < LEAST_STEPS and key[0] is not None
        if len(rows) < LEAST_STEPS and not alone:
            groups = np.full(len(rows), -1)  # one step that differs
        for group in np.unique(groups).tolist():
            its = rows[groups == group]
            kind[its] = len(labels) if group >= 0 else -1
            if group >= 0:
                labels.append(_label(key[0], replays=key[1], launches=float(np.median(launches[its]))))
    if not labels:
        return StepKinds(("",), np.zeros(len(keys), np.int64))
    usual = int(np.argmax(np.bincount(kind[kind >= 0])))
    return _in_order(labels, np.where(kind < 0, usual, kind))


def _by_launches(launches: Ints) -> Ints:
    """Groups of steps between which the number of launches jumps; -1 for a step alone beside others."""
    order = np.argsort(launches, kind="stable")
    ranked = launches[order].astype(np.float64)
    jump = (ranked[1:] > OTHER_LAUNCHES * ranked[:-1]) & (ranked[1:] - ranked[:-1] >= MORE_LAUNCHES)
    groups = np.empty(len(launches), np.int64)
    groups[order] = np.append(0, np.cumsum(jump))
    size = np.bincount(groups)
    return np.where((size[groups] < LEAST_STEPS) & (len(size) > 1), -1, groups)


def _label(called: str | None, *, replays: bool, launches: float) -> str:
    how = "graph" if replays else "eager"
    return ", ".join(filter(None, (called, how, f"{launches:,.0f} launches")))


def _in_order(labels: list[str], kind: Ints) -> StepKinds:
    """Kinds by their first step; where the way alone tells them apart without the number of launches."""
    first = list(dict.fromkeys(kind.tolist()))
    short = [labels[each].rpartition(", ")[0] for each in first]
    names = short if len(set(short)) == len(short) else [labels[each] for each in first]
    place = np.zeros(max(first) + 1, np.int64)
    place[first] = np.arange(len(first))
    return StepKinds(tuple(names), place[kind])
