"""The collectives of one rank on their way from a worker to where ranks are compared: as bytes, and not too many.

Of hundreds of ranks all of them are held at once: 48 bytes per collective, of the first steps that have 4,096 together.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
import numpy as np
from numpy.typing import NDArray

from ..facts.collectives import Collectives
from ..facts.trace_times import TraceTimes
from .figures import RankFound

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
    busy_ns: CarriedColumn  # by step
    times: TraceTimes
    blocking: tuple[str, ...]

    def restored(self) -> Collectives:
        """As they were found."""
        own: dict[str, Any] = {name: getattr(self, name) for name in _FACTS}
        own |= {name: column.values() for name, column in self.columns.items()}
        return Collectives(**own)


def carried(found: RankFound) -> CarriedCollectives | None:
    """What is carried to compare a rank with others; null without a collective in a kept step."""
    own, times = found.collectives, found.times
    if not len(own) or not len(found.busy_ns) or times is None:
        return None
    ends = np.cumsum(np.bincount(own.step, minlength=own.steps))
    steps = max(int(np.searchsorted(ends, MOST, side="right")), 1)
    count = min(int(ends[steps - 1]), MOST)
    columns = {name: _column(getattr(own, name)[:count]) for name in _OF_COLLECTIVES}
    columns |= {name: _column(getattr(own, name)[:steps]) for name in _OF_STEPS}
    facts = {name: getattr(own, name) for name in _FACTS}
    busy_ns = _column(found.busy_ns[:steps])
    return CarriedCollectives(**facts, columns=columns, busy_ns=busy_ns, times=times, blocking=found.blocking)


def _column(values: NDArray[Any]) -> CarriedColumn:
    return CarriedColumn(values.dtype.str, np.ascontiguousarray(values).tobytes())
