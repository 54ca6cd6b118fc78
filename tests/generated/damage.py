"""What goes wrong with a recording: each damage changes one, and names the warnings that may tell of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from random import Random
from typing import Final, NamedTuple

from .made import Recording

Damaging = Callable[[Recording, Random], None]


class Damage(NamedTuple):
    """A change of a recording, and the codes of warnings that name it."""

    change: Damaging
    codes: frozenset[str]


def _lost_first(recording: Recording, random: Random) -> None:
    del recording.ops[: random.randint(1, 4)]


def _lost_last(recording: Recording, random: Random) -> None:
    del recording.ops[-random.randint(1, 4) :]


def _lost_anywhere(recording: Recording, random: Random) -> None:
    for _ in range(random.randint(1, 4)):
        del recording.ops[random.randrange(len(recording.ops))]


def _lost_step(recording: Recording, random: Random) -> None:
    lost = random.randint(1, recording.ops[-1].step - 1)
    recording.ops = [op for op in recording.ops if op.step != lost]


def _lost_launches(recording: Recording, random: Random) -> None:
    for _ in range(random.randint(1, 4)):
        del recording.calls[random.randrange(len(recording.calls))]


def _skew(recording: Recording, random: Random) -> None:
    for op in recording.ops:
        op.start -= 500_000


def _shifted(recording: Recording, random: Random) -> None:
    ids = [op.correlation for op in recording.ops]
    for op, correlation in zip(recording.ops, [*ids[1:], ids[0]], strict=True):
        op.correlation = correlation


def _no_correlation(recording: Recording, random: Random) -> None:
    for op in random.sample(recording.ops, 3):
        op.correlation = 0


def _negative(recording: Recording, random: Random) -> None:
    op = random.choice(recording.ops)
    op.dur = -op.dur


def _overflowed(recording: Recording, random: Random) -> None:
    random.choice(recording.ops).dur = 2**62


def _twice(recording: Recording, random: Random) -> None:
    recording.ops += deepcopy(recording.ops)


def _at_zero(recording: Recording, random: Random) -> None:
    random.choice(recording.ops[1:]).start = 0


_LOST: Final = frozenset({"lost_ops", "under_recorded", "orphans"})
_IMPOSSIBLE: Final = frozenset({"impossible_durations", "overlap"})

DAMAGES: Final = {
    "lost first": Damage(_lost_first, _LOST),
    "lost last": Damage(_lost_last, _LOST),
    "lost anywhere": Damage(_lost_anywhere, _LOST),
    "lost step": Damage(_lost_step, _LOST),
    "lost launches": Damage(_lost_launches, _LOST),
    "skew": Damage(_skew, frozenset({"skew"})),
    "shifted ids": Damage(_shifted, frozenset({"skew", "orphans"})),
    "no correlation": Damage(_no_correlation, _LOST),
    "negative": Damage(_negative, _IMPOSSIBLE),
    "overflowed": Damage(_overflowed, _IMPOSSIBLE),
    "twice": Damage(_twice, frozenset({"duplicates"})),
    "at zero": Damage(_at_zero, frozenset({"skew", "impossible_times"})),
}
"""Kinds of damage by name."""
