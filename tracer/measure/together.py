"""What a process that measures asks of those that measure with it, one per rank: to begin together and to agree.

A step of several ranks holds collectives, so every rank must run the same steps in the same order.
"""

from __future__ import annotations

from typing import Final, Protocol


class Together(Protocol):
    """The ranks of a job, seen from one of them."""

    several: bool

    def barrier(self) -> None:
        """Go on when all are here."""

    def of_first(self, value: int) -> int:
        """Rank 0's value."""

    def any(self, here: bool) -> bool:
        """Whether it is so on any rank."""


class _Alone:
    several = False

    def barrier(self) -> None:
        """Nobody else is to come."""

    def of_first(self, value: int) -> int:
        return value

    def any(self, here: bool) -> bool:
        return here


ALONE: Final[Together] = _Alone()
"""One process, as most profiles have it."""
