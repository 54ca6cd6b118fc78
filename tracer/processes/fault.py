"""Of the ranks that ended a job in one way or another, those that failed by themselves, and not for want of others."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from .worker import Result

_FOR_WANT_OF_OTHERS: Final = re.compile(
    r"\b(nccl|gloo|ucc|tcpstore|socket)|Dist\w*Error|connection (was )?(closed|reset|refused)|broken pipe",
    re.IGNORECASE,
)
"""How communication libraries put it that another rank is gone."""
_ABORTED: Final = "signal 6 "
"""How NCCL's watchdog ends a process that waits for one that is gone."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True):
    """How a rank's process ended, and what it left."""

    rank: int
    host: str
    result: Result | None = None  # or what it had kept until then
    died: str | None = None  # in words; null for one that ended as it should, a target that failed included
    phase: str = "start"  # its last
    timed_out: bool = False
    waits: bool = False  # of one that took too long: in a call that comes back when others have done their part
    line: str | None = None  # of the user's, where it was
    stopped: bool = False  # since another one had failed
    place: int = 0  # among those that failed: 1 is the first
    sends: bool = False  # the trace that its result names follows

    @property
    def error(self) -> str | None:
        """What went wrong, in words; null when nothing did."""
        if self.died is not None:
            return f"the process {self.died} ({self.phase})" + ("" if self.line is None else f", at {self.line}")
        if self.result is None or self.result.refusal is not None:
            return self.result.refusal if self.result else None
        return self.result.process.error if self.result.process else None

    @property
    def refused(self) -> bool:
        """The target can't be built there."""
        return (self.died is not None and self.phase == "build") or (
            self.result is not None and self.result.refusal is not None
        )

    def told(self, doing: str) -> str:
        """What failed where."""
        return f"rank {self.rank} on {self.host}: {doing}: {self.error}"


def at_fault(outcomes: Sequence[Outcome], arrived: Mapping[int, int]) -> list[Outcome]:
    """Those that failed by themselves, the first first; empty when all went well.

    ``arrived``: how many barriers each rank has come to. Of ranks that took too long, those kept the others waiting
    that wait for none themselves, and that came to the fewest barriers.
    """
    failed = sorted((each for each in outcomes if each.error and not each.stopped), key=lambda each: each.place)
    by_themselves = [each for each in failed if not each.timed_out and not _waited(each, failed[0])]
    if by_themselves:
        return by_themselves
    late = [each for each in failed if each.timed_out]
    if late:
        late = [each for each in late if not each.waits] or late
        fewest = min(arrived.get(each.rank, 0) for each in late)
        return [each for each in late if arrived.get(each.rank, 0) == fewest]
    return failed if len(failed) == len(outcomes) else failed[:1]


def _waited(outcome: Outcome, first: Outcome) -> bool:
    """Whether it failed because another one was gone."""
    if outcome.died is not None:
        return _ABORTED in outcome.died and outcome is not first and first.died != outcome.died
    return _FOR_WANT_OF_OTHERS.search(outcome.error or "") is not None
