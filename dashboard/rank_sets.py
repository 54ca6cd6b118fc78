"""The ranks of one mode, or of bare traces: their steps put beside one another, their figures, their clocks."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Final, Literal

import numpy as np
from numpy.typing import NDArray

from ..analysis.facts.ranks.matching import Matching, match
from ..analysis.facts.ranks.waiting import Offset, clock_offsets, waits_of
from ..analysis.facts.trace_times import Waits
from ..analysis.model.document import RanksOfStepDoc, ReportDocument
from ..analysis.model.trace import NONE
from ..analysis.profile.rank_documents import SAME_HOST, sets_of_ranks
from .band import Band
from .rank_heat import Heat

RankFigure = Literal["period", "busy", "waiting"]
FIGURE_WORDS: Final[dict[RankFigure, str]] = {
    "period": "step period",
    "busy": "GPU busy per step",
    "waiting": "waiting in collectives per step",
}

_RANK_IN_NAME: Final = re.compile(r"(rank|TP|DP|PP|EP)[-_.=]?\d+", re.IGNORECASE)


@dataclass(frozen=True, eq=False)
class RankSet:
    """One recording of each of two ranks or more, by rank. Any thread may ask; what is found once is kept."""

    key: str  # the mode; 'traces', 'traces-2', … outside captures
    label: str
    bands: tuple[Band, ...]
    document: RanksOfStepDoc | None  # what the report tells of them together

    @property
    def on_one_host(self) -> bool:
        """Known to be: then all clocks are the same."""
        return self.document is not None and self.document.alignment == SAME_HOST

    @property
    def ranks(self) -> tuple[int, ...]:
        """The rank of each band."""
        return tuple(rank for band in self.bands if (rank := band.analysis.document.rank) is not None)

    @property
    def labels(self) -> list[str]:
        """What each is called among the ranks."""
        return [f"rank {rank}" for rank in self.ranks]

    def place(self, key: str) -> int | None:
        """Where the band of this key stands; None for one of others."""
        return next((place for place, band in enumerate(self.bands) if band.key == key), None)

    @cached_property
    def matching(self) -> Matching:
        """Which steps and which collectives of the ranks are the same."""
        return match([band.analysis.context.collectives for band in self.bands])

    @cached_property
    def waits(self) -> list[Waits]:
        return waits_of(self.matching)

    @cached_property
    def offsets(self) -> list[Offset | None]:
        """How far each rank's clock is ahead of the first one's; None where no collective tells."""
        return clock_offsets(self.matching)

    @property
    def figures(self) -> list[RankFigure]:
        """What is known of the steps."""
        known: list[RankFigure] = ["period", "busy"]
        return [*known, "waiting"] if any(each.is_known for each in self.waits) else known

    def figure(self, wanted: RankFigure) -> RankFigure:
        """The figure that is wanted for where it is known; else the first that is."""
        return wanted if wanted in self.figures else self.figures[0]

    @property
    def in_step(self) -> bool:
        """The n-th step of one rank's timeline is the n-th of every other's."""
        places = self.matching.steps.places
        return len(places) > 0 and bool((places == np.arange(len(places))[:, None]).all())

    def heat(self, figure: RankFigure) -> Heat:
        """A figure of each rank and step, by the steps that the first rank's timeline counts."""
        places = self.matching.steps.places
        values = np.full((len(self.bands), len(places)), np.nan)
        for rank, (band, at) in enumerate(zip(self.bands, places.T, strict=True)):
            known = _per_step(band, figure, self.waits[rank] if figure == "waiting" else None)
            there = at != NONE
            values[rank, there] = known[at[there]]
        steps = np.arange(len(places)) + 1 if self.in_step else np.array(self._numbers)
        return Heat(FIGURE_WORDS[figure], self.labels, steps.tolist(), values)

    @property
    def _numbers(self) -> list[int]:
        """What ranks that began apart call their steps in common: the profiler's number, else the first one's place."""
        numbers = []
        for row in self.matching.steps.places:
            rank = int(np.flatnonzero(row != NONE)[0])
            numbers.append(int(self.matching.ranks[rank].step_number[row[rank]]))
        return numbers

    def waited_ns(self, rank: int) -> float | None:
        """Of a median step of a rank, inside collectives; None where it can't be told."""
        waits = self.waits[rank]
        return float(np.median(waits.step_waiting_ns[waits.split])) if waits.is_known and waits.split.any() else None

    def step_of(self, rank: int, column: int) -> int | None:
        """The step of a rank's timeline that a column of the heat map is; None where it has none."""
        place = int(self.matching.steps.places[column, rank])
        if place == NONE:
            return None
        return int(_has_ops(self.bands[rank])[:place].sum())

    def column_of(self, rank: int, step: int) -> int | None:
        """The column of the heat map that a step of a rank's timeline is; None outside of it."""
        windows = np.flatnonzero(_has_ops(self.bands[rank]))
        if not len(windows):
            return None
        place = windows[min(step, len(windows) - 1)]
        found = np.flatnonzero(self.matching.steps.places[:, rank] == place)
        return int(found[0]) if len(found) else None


def _has_ops(band: Band) -> NDArray[np.bool_]:
    """[kept steps] Those with a GPU op: only they have a place in the timeline. Without steps the file is one."""
    steps = band.analysis.context.steps
    if not len(steps.kept_rows) or band.device is None:
        return np.ones(1, np.bool_)
    has: NDArray[np.bool_] = band.analysis.context.first_op_ns[band.device][steps.kept_rows] != NONE
    return has


def _per_step(band: Band, figure: RankFigure, waits: Waits | None) -> NDArray[np.float64]:
    """[kept steps] ns, NaN where a step has none."""
    if waits is not None:
        return np.where(waits.split, waits.step_waiting_ns, np.nan)
    context, device = band.analysis.context, band.device
    if device is None or not context.has_steps:
        return np.array([np.nan])
    if figure == "busy":
        return context.step_busy_ns[device]
    period = context.period_ns[device][context.steps.kept_rows]
    return np.where(period == NONE, np.nan, period)


def rank_sets(
    document: ReportDocument, modes: Sequence[tuple[str, Sequence[Band]]], bare: Sequence[Band]
) -> tuple[RankSet, ...]:
    """Of each mode's bands, one of each rank, and of bare traces as the report puts them together."""
    profile = document.profile
    ranks_of = {} if profile is None or profile.ranks is None else profile.ranks.modes
    found = [RankSet(name, name.replace("_", " "), _by_rank(bands), ranks_of.get(name)) for name, bands in modes]
    of_analysis = {id(band.analysis): band for band in bare}
    for number, analyses in enumerate(sets_of_ranks([band.analysis for band in bare])):
        bands = [of_analysis[id(analysis)] for analysis in analyses]
        key = f"traces-{number + 1}" if number else "traces"
        found.append(RankSet(key, _shared_name(bands), _by_rank(bands), _document_of(document, bands)))
    return tuple(each for each in found if len(each.bands) > 1)


def _document_of(document: ReportDocument, bands: Sequence[Band]) -> RanksOfStepDoc | None:
    """The part of the report about these traces."""
    names = {band.analysis.context.name for band in bands}
    return next((each for each in document.ranks if {n for rank in each.ranks for n in rank.traces} == names), None)


def _by_rank(bands: Sequence[Band]) -> tuple[Band, ...]:
    first: dict[int, Band] = {}
    for band in bands:
        rank = band.analysis.document.rank
        if rank is not None and band.device is not None:
            first.setdefault(rank, band)
    return tuple(first[rank] for rank in sorted(first))


def _shared_name(bands: Sequence[Band]) -> str:
    """What the names of traces begin with, for people."""
    names = {
        _RANK_IN_NAME.sub("", band.analysis.context.name).removesuffix(".gz").removesuffix(".zst").removesuffix(".json")
        for band in bands
    }
    return (names.pop().strip("-_. ") or "traces") if len(names) == 1 else "traces"


@dataclass(frozen=True)
class Clock:
    """Whose clock a band's times are on, once its offset is taken off."""

    of: str  # key of the set
    ahead_ns: int


def clocks(sets: Sequence[RankSet]) -> dict[str, Clock]:
    """Key of a band → its clock, where one host or collectives tell how far it is ahead."""
    return {
        band.key: Clock(each.key, 0 if offset is None or each.on_one_host else round(offset.offset_ns))
        for each in sets
        for band, offset in zip(each.bands, each.offsets, strict=True)
        if offset is not None or each.on_one_host
    }
