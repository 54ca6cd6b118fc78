"""Turns: one at a time, in the order in which they were asked for. So many may wait, and each of them so long."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from dataclasses import dataclass

from ...analysis.model.units import plural, seconds


@dataclass(frozen=True, eq=False)
class _Turn:
    ticket: str


class Turns:
    """A line, the first of which has its turn."""

    def __init__(self, most_waiting: int, longest_wait_s: float) -> None:
        self._most_waiting = most_waiting
        self._longest_wait_s = longest_wait_s
        self._line: list[_Turn] = []
        self._moved = threading.Condition()

    @contextlib.contextmanager
    def waited_for(self, ticket: str) -> Iterator[str | None]:
        """One's turn until the block ends; yields null, or why it did not come. The ticket is what one is known by."""
        turn = _Turn(ticket)
        with self._moved:
            problem = self._wait(turn)
        try:
            yield problem
        finally:
            with self._moved:
                if turn in self._line:
                    self._line.remove(turn)
                    self._moved.notify_all()

    def _wait(self, turn: _Turn) -> str | None:
        if len(self._line) > self._most_waiting:
            waiting = plural(self._most_waiting, "file is", "files are")
            return f"{waiting} waiting to be read already; try again later"
        self._line.append(turn)
        if self._moved.wait_for(lambda: self._line[0] is turn, self._longest_wait_s):
            return None
        self._line.remove(turn)
        self._moved.notify_all()
        return f"waited {seconds(self._longest_wait_s)} for the files before it; try again later"

    def before(self, ticket: str) -> int:
        """How many turns come before that of the ticket; 0 as well where it has none."""
        with self._moved:
            return next((place for place, turn in enumerate(self._line) if turn.ticket == ticket), 0)
