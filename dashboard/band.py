"""One trace as a band of the page."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, TypeVar

import numpy as np

from ..analysis.figures.analyses import TraceAnalysis
from ..analysis.model.document import ModeDoc
from ..analysis.model.trace import NONE

_Kept = TypeVar("_Kept")


@dataclass(frozen=True, eq=False)
class Band:
    """One trace on the page. ``mode`` is null outside captures, and of ranks that the mode's figures are not of."""

    key: str  # unique, fit for a URL
    label: str
    analysis: TraceAnalysis
    mode: ModeDoc | None
    _kept: dict[Any, Any] = field(default_factory=dict, repr=False)
    _keeping: threading.RLock = field(default_factory=threading.RLock, repr=False)

    def kept(self, key: Any, make: Callable[[], _Kept]) -> _Kept:
        """What ``make`` gives, made once and kept for as long as the band lives. Any thread may ask."""
        with self._keeping:
            if key not in self._kept:
                self._kept[key] = make()
            found: _Kept = self._kept[key]
            return found

    @property
    def device(self) -> int | None:
        """The headline device; null without a GPU op."""
        return self.analysis.document.headline_device

    @cached_property
    def step_windows(self) -> list[tuple[int, int]]:
        """Each kept step on the device: its first GPU op to the next step's, in ns; else to its own last op's end.

        Without steps the whole trace is one.
        """
        steps, ops = self.analysis.context.steps, self.analysis.context.trace.gpu_ops
        if self.device is None:
            return []
        on_device = ops.device == self.device
        if not len(steps.kept_rows):
            return [(int(ops.start_ns[on_device].min()), int(ops.end_ns[on_device].max()))]
        first = self.analysis.context.first_op_ns[self.device]
        following = np.append(first[1:], -1)
        own = np.flatnonzero(on_device & (steps.op_step != NONE))
        last = np.full(len(first), -1, np.int64)
        np.maximum.at(last, steps.op_step[own], ops.end_ns[own])
        end = np.where(following > first, following, last)
        kept = steps.kept_rows[first[steps.kept_rows] >= 0]
        return list(zip(first[kept].tolist(), end[kept].tolist(), strict=True))
