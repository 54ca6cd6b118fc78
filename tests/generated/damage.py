"""What goes wrong with a recording: each damage changes one, and names the warnings that may tell of it."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from functools import partial
from itertools import pairwise
from random import Random
from typing import Final, NamedTuple

from .made import REPLAYS, Recording, made

Damaging = Callable[[Recording, Random], None]


class Damage(NamedTuple):
    """A change of a recording, and the codes of warnings that name it."""

    change: Damaging
    codes: frozenset[str]
    loop: Callable[[Random], Recording] = made  # that it can happen to
    happening: Damaging = lambda recording, random: None  # what the GPU did too, before anything is lost
    clock: int = 0  # how far a time may be off, ns


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


def _lost_replays(recording: Recording, random: Random) -> None:
    replays = _inner_replays(recording)
    lost = set(random.sample(replays, random.randint(1, min(3, len(replays)))))
    recording.ops = [op for op in recording.ops if op.correlation not in lost]


def _lost_nodes(recording: Recording, random: Random) -> None:
    inner = set(_inner_replays(recording))
    for _ in range(random.randint(1, 4)):
        nodes = [index for index, op in enumerate(recording.ops) if op.correlation in inner]
        del recording.ops[random.choice(nodes)]


def _inner_replays(recording: Recording) -> list[int]:
    """Ids of the replays of all steps but the first and the last."""
    steps = range(1, recording.ops[-1].step)
    return [call.correlation for call in recording.calls if "Graph" in call.api and call.step in steps]


def _cut_start(recording: Recording, random: Random) -> None:
    since = random.choice([op.start for op in recording.ops if op.step == 0 and op.kind == "kernel"][1:])
    recording.ops = [op for op in recording.ops if op.start >= since]
    recording.calls = [call for call in recording.calls if call.start >= since]
    recording.marks = [mark for mark in recording.marks if mark.start >= since]


def _cut_end(recording: Recording, random: Random) -> None:
    last = recording.ops[-1].step
    until = random.choice([op.start for op in recording.ops if op.step == last and op.kind == "kernel"][1:])
    recording.ops = [op for op in recording.ops if op.start + op.dur <= until]
    recording.calls = [call for call in recording.calls if call.start + call.dur <= until]
    recording.marks = [mark for mark in recording.marks if mark.start + mark.dur <= until]


def _ran_long(recording: Recording, random: Random) -> None:
    """The second node of some replays ran long, or of all that have many: what came after it came later."""
    replays = sorted({op.correlation for op in recording.ops if op.kind != "memcpy"})
    second = {op.correlation: op for op in reversed(recording.ops)}
    for before, op in pairwise(recording.ops):
        if before is second[op.correlation]:
            op.name = UNRECORDED
    nodes = {op.correlation: op for op in recording.ops if op.name == UNRECORDED}
    is_long = len(recording.ops) / len(replays) >= MANY and random.random() < 0.5
    for replay in replays if is_long else random.sample(replays, 2):
        lasts, ended = random.randint(150_000, 400_000), nodes[replay].start + nodes[replay].dur
        for record in recording.everything():
            end = record.start + record.dur
            record.start += lasts * (record.start >= ended)
            record.dur = end + lasts * (end >= ended) - record.start


def _unrecorded(recording: Recording, random: Random) -> None:
    recording.ops = [op for op in recording.ops if op.name != UNRECORDED]


def _whole_us(recording: Recording, random: Random) -> None:
    for record in recording.everything():
        end = (record.start + record.dur) // 1000 * 1000
        record.start = record.start // 1000 * 1000
        record.dur = end - record.start


def _no_node_has_its_id(recording: Recording, random: Random) -> None:
    for op in recording.ops:
        op.correlation *= op.kind != "kernel"


def _merged(recording: Recording, random: Random) -> None:
    recording.other = made(random)
    recording.other.process, recording.other.device = recording.process + 1, random.randint(0, 1)


UNRECORDED: Final = "not recorded"

MANY: Final = 8
"""Nodes of a replay of which one is no large part of the gaps."""

_replaying: Final = partial(made, modes=REPLAYS)
_on_one_stream: Final = partial(made, modes=REPLAYS, streams=(1,))

MISSING: Final = frozenset(
    {"lost_ops", "lost_first", "lost_last", "under_recorded", "cut_replay", "orphans", "graph_nodes_missing"}
)
_CUT: Final = frozenset({"lost_first", "lost_last", "cut_replay", "orphans", "no_launches"})
_NO_ID: Final = frozenset({"zero_correlation", "graph_nodes_missing", "no_launches", "orphans", "under_recorded"})
_WRONG_ID: Final = frozenset({"skew", "orphans", "after_its_wait", "deferred"})
IMPOSSIBLE: Final = frozenset({"impossible_durations", "unreadable_times"})

DAMAGES: Final = {
    "lost first": Damage(_lost_first, MISSING),
    "lost last": Damage(_lost_last, MISSING),
    "lost anywhere": Damage(_lost_anywhere, MISSING),
    "lost step": Damage(_lost_step, MISSING),
    "lost replays": Damage(_lost_replays, frozenset({"lost_ops"}), _replaying),
    "lost nodes": Damage(_lost_nodes, frozenset({"under_recorded"}), _replaying),
    "lost launches": Damage(_lost_launches, MISSING),
    "cut start": Damage(_cut_start, _CUT),
    "cut end": Damage(_cut_end, _CUT),
    "hole": Damage(_unrecorded, frozenset({"replay_hole"}), _on_one_stream, _ran_long),
    "skew": Damage(_skew, frozenset({"skew"})),
    "shifted ids": Damage(_shifted, _WRONG_ID),
    "no correlation": Damage(_no_correlation, _NO_ID),
    "no node has its id": Damage(_no_node_has_its_id, _NO_ID, _replaying),
    "whole us": Damage(_whole_us, frozenset({"whole_us"}), clock=1000),
    "negative": Damage(_negative, IMPOSSIBLE),
    "overflowed": Damage(_overflowed, IMPOSSIBLE),
    "twice": Damage(_twice, frozenset({"duplicates"})),
    "at zero": Damage(_at_zero, frozenset({"outside_session"})),
    "merged": Damage(_merged, frozenset({"several_ranks", "several_devices"})),
}
"""Kinds of damage by name."""
