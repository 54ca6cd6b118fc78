"""The collectives of one rank on their way from a worker to where ranks are compared: as bytes, and not too many.

Of hundreds of ranks all of them are held at once: 46 bytes per collective, of the first steps that have 4,096 together.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..ranks.collectives import Collectives, collectives_of
from ..steps import step_busy_ns
from .figures import RankTrace

MOST: Final = 4_096
"""Collectives of one rank that are compared with other ranks': 64 steps of a model of 32 layers."""

_OF_COLLECTIVES: Final = ("kind", "group", "step", "ordinal", "start_ns", "end_ns", "launch_start_ns", "hidden_ns")
_OF_STEPS: Final = ("step_number", "exposed_ns", "step_hidden_ns")
_FACTS: Final = ("rank", "world_size", "kinds", "groups", "group_sizes", "step_source")


class CarriedColumn(msgspec.Struct, frozen=True):
    """A column of numbers, and its type as numpy writes it."""

    dtype: str
    data: bytes

    def values(self) -> NDArray[Any]:
        """The numbers."""
        return np.frombuffer(self.data, np.dtype(self.dtype))


class CarriedCollectives(msgspec.Struct, frozen=True, kw_only=True):
    """A rank's ``Collectives`` up to a step, and what the GPU worked in each of those steps."""

    rank: int | None
    world_size: int | None
    kinds: tuple[str, ...]
    groups: tuple[str, ...]
    group_sizes: tuple[int | None, ...]
    step_source: str
    columns: dict[str, CarriedColumn]
    busy_ns: CarriedColumn  # by step; empty for a file without a kept one

    def restored(self) -> Collectives:
        """As they were found."""
        own: dict[str, Any] = {name: getattr(self, name) for name in _FACTS}
        own |= {name: column.values() for name, column in self.columns.items()}
        return Collectives(**own)


def communication(found: RankTrace) -> tuple[dict[str, Any], CarriedCollectives | None]:
    """The figures of a row that need no other rank, and what is carried to compare it with others: null without any."""
    own = collectives_of(found.trace, found.steps, found.device)
    if not len(found.steps.kept_rows) or found.device is None:
        return {}, None
    figures: dict[str, Any] = {"collectives": float(np.median(np.bincount(own.step, minlength=own.steps)))}
    if not len(own):
        return figures, None
    figures["communication_exposed_ns"] = float(np.median(own.exposed_ns))
    figures["communication_hidden_ns"] = float(np.median(own.step_hidden_ns))
    return figures, _carried(own, step_busy_ns(found.trace, found.steps, found.device))


def _carried(own: Collectives, busy_ns: NDArray[np.float64]) -> CarriedCollectives:
    ends = np.cumsum(np.bincount(own.step, minlength=own.steps))
    steps = max(int(np.searchsorted(ends, MOST, side="right")), 1)
    count = min(int(ends[steps - 1]), MOST)
    columns = {name: _column(getattr(own, name)[:count]) for name in _OF_COLLECTIVES}
    columns |= {name: _column(getattr(own, name)[:steps]) for name in _OF_STEPS}
    facts = {name: getattr(own, name) for name in _FACTS}
    return CarriedCollectives(**facts, columns=columns, busy_ns=_column(busy_ns[:steps]))


def _column(values: NDArray[Any]) -> CarriedColumn:
    return CarriedColumn(values.dtype.str, np.ascontiguousarray(values).tobytes())
