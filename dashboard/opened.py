"""What was opened: the report, and its traces as bands of the page. Made once, never changed."""

from __future__ import annotations

import re
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Final, TypeVar

import numpy as np

from ..analysis.analyses import TraceAnalysis
from ..analysis.capture import AS_WRITTEN
from ..analysis.document import ModeDoc, baseline
from ..analysis.recordings import middle_first
from ..analysis.report import Report
from ..analysis.steps import first_op_ns
from ..analysis.trace import NONE

FIRST_BANDS: Final = 6
"""Traces without modes that are shown at first; the others can be chosen."""

_Kept = TypeVar("_Kept")

_NOT_IN_KEYS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, eq=False)
class Band:
    """One trace on the page. ``mode`` is null outside captures."""

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
        trace, steps, ops = self.analysis.trace, self.analysis.steps, self.analysis.trace.gpu_ops
        if self.device is None:
            return []
        on_device = ops.device == self.device
        if not len(steps.kept_rows):
            return [(int(ops.start_ns[on_device].min()), int(ops.end_ns[on_device].max()))]
        first = first_op_ns(trace, steps, self.device)
        following = np.append(first[1:], -1)
        own = np.flatnonzero(on_device & (steps.op_step != NONE))
        last = np.full(len(first), -1, np.int64)
        np.maximum.at(last, steps.op_step[own], ops.end_ns[own])
        end = np.where(following > first, following, last)
        kept = steps.kept_rows[first[steps.kept_rows] >= 0]
        return list(zip(first[kept].tolist(), end[kept].tolist(), strict=True))


@dataclass(frozen=True, eq=False)
class Opened:
    """The report and its bands, those shown first in front."""

    report: Report
    bands: tuple[Band, ...]
    first: tuple[str, ...]  # keys of the bands that are shown first

    def band(self, key: str) -> Band | None:
        """The band of this key, or None."""
        return self._by_key.get(key)

    @cached_property
    def _by_key(self) -> dict[str, Band]:
        return {band.key: band for band in self.bands}

    @property
    def title(self) -> str:
        """What the page is about."""
        target = self.report.document.target
        return target.name if target is not None else ", ".join(band.label for band in self.bands[:3])

    @property
    def baseline(self) -> Band | None:
        """The band that the verdict is about: the baseline mode's, else the first with GPU ops."""
        profile = self.report.document.profile
        mode = None if profile is None else baseline(profile.modes)
        named = [band for band in self.bands if mode is not None and band.key == mode]
        return next(iter([*named, *(band for band in self.bands if band.device is not None)]), None)


def open_bands(report: Report) -> Opened:
    """A capture's modes, each with the recording whose process stands in the middle; else every trace."""
    profile = report.document.profile
    modes = {} if profile is None else profile.modes
    keys = _Keys()
    bands: list[Band] = []
    shown = []
    for name, mode in modes.items():
        recorded = [a for a in report.analyses if (a.mode or AS_WRITTEN) == name and a.trace_pass is not None]
        for place, analysis in enumerate(middle_first(recorded, mode)):
            key = keys.add(name if place == 0 else f"{name}-{analysis.trace_pass}-{analysis.repeat}")
            label = name.replace("_", " ") if name == AS_WRITTEN else name
            if place:
                label += f", {analysis.trace_pass} pass, repeat {analysis.repeat}"
            else:
                shown.append(key)
            bands.append(Band(key, label, analysis, mode))
    others = [a for a in report.analyses if a.trace_pass is None]
    for analysis in others:
        rank = analysis.trace.rank
        key = keys.add(analysis.name if rank is None or len(others) == 1 else f"rank{rank}")
        label = analysis.name if rank is None or len(others) == 1 else f"rank {rank}"
        bands.append(Band(key, label, analysis, None))
        if len(shown) < FIRST_BANDS:
            shown.append(key)
    return Opened(report, tuple(bands), tuple(shown))


class _Keys:
    """Keys that are unique."""

    def __init__(self) -> None:
        self._known: set[str] = set()

    def add(self, name: str) -> str:
        plain = _NOT_IN_KEYS.sub("-", name).strip("-") or "trace"
        key, number = plain, 1
        while key in self._known:
            number += 1
            key = f"{plain}-{number}"
        self._known.add(key)
        return key
