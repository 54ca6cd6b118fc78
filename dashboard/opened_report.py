"""What was opened: the report, and its traces as bands of the page. Made once, never changed."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import islice
from pathlib import Path
from typing import Final

from ..analysis.figures.analyses import TraceAnalysis
from ..analysis.model.capture import MANIFEST, is_being_written
from ..analysis.model.document import ModeDoc, baseline
from ..analysis.model.errors import UnreadableInput, one_line
from ..analysis.model.paths import exists, is_file, is_folder
from ..analysis.model.trace import utf8_text
from ..analysis.profile.mode_table import shown_name
from ..analysis.profile.select import TIMES, of_mode, ranked
from ..analysis.report import Report
from .band import Band
from .rank_sets import RankSet, rank_sets

FIRST_BANDS: Final = 6
"""Traces without modes that are shown at first; the others can be chosen."""

_NOT_IN_KEYS: Final = re.compile(r"[^A-Za-z0-9_.-]+")


@dataclass(frozen=True, eq=False)
class OpenedReport:
    """The report and its bands, those shown first in front."""

    report: Report
    bands: tuple[Band, ...]
    first: tuple[str, ...]  # keys of the bands that are shown first
    rank_sets: tuple[RankSet, ...] = ()  # none where nothing has several ranks
    within: str | None = None  # path of the page of all ranks that it is one of

    def band(self, key: str) -> Band | None:
        """The band of this key, or None."""
        return self._by_key.get(key)

    def chosen(self, keys: Sequence[str]) -> list[Band]:
        """The bands of these keys; those shown first where they name none that there is."""
        return [band for key in keys if (band := self.band(key)) is not None] or self.shown_first

    @property
    def shown_first(self) -> list[Band]:
        """The bands that are shown where nobody has chosen."""
        return [self._by_key[key] for key in self.first]

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

    def rank_set(self, key: str) -> RankSet | None:
        """The ranks of this key; the first ones for any other, None without any."""
        return next((each for each in self.rank_sets if each.key == key), next(iter(self.rank_sets), None))


def open_bands(report: Report) -> OpenedReport:
    """A capture's modes, each with the recording whose process stands in the middle; else every trace.

    Of several ranks each has the recording of the same processes; rank 0's stand for the mode.
    """
    profile = report.document.profile
    modes = {} if profile is None else profile.modes
    keys = _Keys()
    bands: list[Band] = []
    shown = []
    of_modes: list[tuple[str, list[Band]]] = []
    of_rank = None if profile is None or profile.ranks is None else profile.ranks.told
    for name, mode in modes.items():
        ordered = _rank_by_rank(ranked(of_mode(report.analyses, name), TIMES, mode))
        own: list[Band] = []
        for place, analysis in enumerate(ordered):
            is_middle = (analysis.context.trace_pass, analysis.context.repeat) == (
                ordered[0].context.trace_pass,
                ordered[0].context.repeat,
            )
            figures = mode if of_rank is None or analysis.document.rank == of_rank else None
            own.append(_mode_band(keys, name, figures, analysis, is_first=place == 0, is_middle=is_middle))
        shown += [band.key for band in own[:1]]
        bands += own
        of_modes.append((name, own))
    bare = _bare_bands(keys, of_mode(report.analyses, None))
    shown += [band.key for band in bare[: max(0, FIRST_BANDS - len(shown))]]
    return OpenedReport(report, (*bands, *bare), tuple(shown), rank_sets(report.document, of_modes, bare))


def _rank_by_rank(recorded: Sequence[TraceAnalysis]) -> list[TraceAnalysis]:
    """Those of the lowest rank as they come; behind each the other ranks' of the same processes."""
    processes: dict[tuple[str | None, int | None], list[TraceAnalysis]] = {}
    for analysis in sorted(recorded, key=_rank):
        processes.setdefault((analysis.context.trace_pass, analysis.context.repeat), []).append(analysis)
    order = dict.fromkeys((analysis.context.trace_pass, analysis.context.repeat) for analysis in recorded)
    return [analysis for process in order for analysis in processes[process]]


def _rank(analysis: TraceAnalysis) -> int:
    return -1 if analysis.document.rank is None else analysis.document.rank


def _mode_band(
    keys: _Keys, name: str, mode: ModeDoc | None, analysis: TraceAnalysis, *, is_first: bool, is_middle: bool
) -> Band:
    """A recording of a mode; ``is_first``: the one that stands for it, ``is_middle``: of the same processes as that."""
    label, rank = shown_name(name), analysis.document.rank
    parts = [] if is_middle else [str(analysis.context.trace_pass), str(analysis.context.repeat)]
    words = [] if is_middle else [f"{analysis.context.trace_pass} pass", f"repeat {analysis.context.repeat}"]
    if rank is not None:
        parts += [] if is_first else [f"rank{rank}"]
        words = [f"rank {rank}", *words]
    return Band(keys.add("-".join([name, *parts])), ", ".join([label, *words]), analysis, mode)


def _bare_bands(keys: _Keys, analyses: Sequence[TraceAnalysis]) -> list[Band]:
    """Traces of no mode: by their ranks where these tell them apart, else by their names."""
    ranks = [analysis.document.rank for analysis in analyses]
    bands = []
    for analysis, rank in zip(analyses, ranks, strict=True):
        is_named = rank is None or len(analyses) == 1 or ranks.count(rank) > 1
        key = keys.add(analysis.context.name if is_named else f"rank{rank}")
        bands.append(Band(key, analysis.context.name if is_named else f"rank {rank}", analysis, None))
    return bands


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


MOST_FILES: Final = 256
"""Files of one folder that are watched; a look at as many takes about a millisecond."""

State = tuple[int, ...] | None
"""What tells whether a file is the one it was; None where there is none."""


@dataclass(frozen=True)
class Watched:
    """Each file and folder with its state before it was read, and the captures that were still being written then."""

    states: tuple[tuple[Path, State], ...]
    unfinished: tuple[Path, ...] = ()

    @classmethod
    def of(cls, paths: Iterable[Path]) -> Watched:
        """As they are now; of a folder also what lies in it, and its manifest, which may be yet to come."""
        named = [path for path in paths if is_file(path) or is_folder(path)]  # a pipe changes as it is read
        states = tuple((file, _state(file)) for path in named for file in _files(path))
        return cls(states, tuple(path for path in named if is_being_written(path)))

    def problem(self) -> str | None:
        """What is wrong with them, in words; None while all is well."""
        for path, before in self.states:
            now = _state(path)
            if now is None and before is not None:
                return f"{_name(path)} is gone; the page shows what was read from it before"
            if now != before:
                again = "start launchscope dashboard again to see it as it is now"
                return f"{_name(path)} has changed since it was read; {again}"
        if self.unfinished:
            return (
                f"{_name(self.unfinished[0])} was still being written by launchscope profile: the page shows the traces"
                " that were there, without what else was measured"
            )
        return None


def _files(path: Path) -> Iterator[Path]:
    yield path
    if is_folder(path):
        yield path / MANIFEST
        yield from islice(_below(path), MOST_FILES)


def _below(folder: Path) -> Iterator[Path]:
    for place, below, names in os.walk(folder):
        below[:] = sorted(name for name in below if not name.startswith("."))
        yield from (Path(place, name) for name in sorted(names) if not name.startswith("."))


def _state(path: Path) -> State:
    try:
        status = path.stat()
        if stat.S_ISDIR(status.st_mode) and exists(path / MANIFEST):
            return (status.st_ino,)  # a capture: a report may be written beside its own files
    except (OSError, UnreadableInput):
        return None
    return status.st_ino, status.st_mtime_ns, status.st_size


def _name(path: Path) -> str:
    return one_line(utf8_text(str(path)))
