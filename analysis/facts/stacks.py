"""Stacks: the operators and Python frames around a host call, outermost first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Self

import numpy as np

from ..model.intervals import last_reaching, outermost_first, threads
from ..model.trace import NONE, HostKind, Ints, Trace, narrow

Stack = tuple[int, ...]
"""Indices into Trace.names, outermost first."""


@dataclass(frozen=True, eq=False)
class CallStacks:
    """The stack of every launch and blocking call: its number, a row each; () where nothing is around the call."""

    of_launch: Ints
    of_blocking_call: Ints
    stacks: Sequence[Stack]  # by number

    @classmethod
    def of(cls, trace: Trace) -> Self:
        """A stack are the operators and Python frames open on the call's thread when it starts.

        Annotations are left out: their numbers would make every step a place of its own.
        """
        tables = (trace.launches, trace.blocking_calls)
        columns = (np.concatenate([getattr(t, name) for t in tables]) for name in ("start_ns", "process", "thread"))
        number, stacks = _enclosing(trace, *columns)
        return cls(number[: len(trace.launches)], number[len(trace.launches) :], stacks)


def _enclosing(trace: Trace, start_ns: Ints, process: Ints, thread: Ints) -> tuple[Ints, list[Stack]]:
    host = trace.host_ops
    frames = narrow(np.flatnonzero((host.kind == HostKind.OPERATOR) | (host.kind == HostKind.PYTHON)))
    frames_of = threads(host.process[frames], host.thread[frames])
    number = np.zeros(len(start_ns), np.int64)
    stacks: list[Stack] = [()]
    for key, calls in threads(process, thread).items():
        if key in frames_of:
            number[calls], its_stacks = _stacks(trace, frames[frames_of[key]], start_ns[calls])
            if len(stacks) == 1:
                stacks = its_stacks
            else:
                known = {stack: place for place, stack in enumerate(stacks)}
                number[calls] = np.array([known.setdefault(each, len(known)) for each in its_stacks])[number[calls]]
                stacks = list(known)
    return number, stacks


def _stacks(trace: Trace, frames: Ints, times_ns: Ints) -> tuple[Ints, list[Stack]]:
    """One thread: the number of the stack at each time, and the stacks by number."""
    host = trace.host_ops
    frames = frames[outermost_first(host.start_ns[frames], host.end_ns[frames])]
    start_ns, end_ns, name = host.start_ns[frames], host.end_ns[frames], host.name[frames]
    del frames
    top = last_reaching(end_ns, np.searchsorted(start_ns, times_ns, side="right"), times_ns)
    around, waiting = _ancestors(start_ns, end_ns, top)
    del start_ns, end_ns
    number = np.full(len(around) + 1, NONE, np.int64)  # of the stack up to each frame
    number[NONE] = 0  # () is around the outermost
    stacks: list[Stack] = [()]
    while len(waiting):
        is_ready = number[around[waiting]] != NONE
        ready, waiting = waiting[is_ready], waiting[~is_ready]
        longer, place = np.unique(number[around[ready]] * len(trace.names) + name[ready], return_inverse=True)
        number[ready] = len(stacks) + place
        outer, inner = (part.tolist() for part in np.divmod(longer, len(trace.names)))
        stacks += [(*stacks[its], frame) for its, frame in zip(outer, inner, strict=True)]
    return number[top], stacks


def _ancestors(start_ns: Ints, end_ns: Ints, frames: Ints) -> tuple[Ints, Ints]:
    """The frame around each frame where it is known, else NONE; and these frames with all around them, by start."""
    around: Ints = np.full(len(start_ns), NONE, np.int32 if len(start_ns) < 2**31 else np.int64)
    is_known = np.zeros(len(start_ns) + 1, np.bool_)
    is_known[NONE] = True
    while len(frames):
        is_fresh = np.zeros(len(start_ns) + 1, np.bool_)
        is_fresh[frames] = True
        frames = np.flatnonzero(is_fresh & ~is_known)
        is_known[frames] = True
        around[frames] = last_reaching(end_ns, frames, start_ns[frames])
        frames = around[frames]
    return around, np.flatnonzero(is_known[:-1])


def stack_of_launch(trace: Trace, launch: int) -> list[str]:
    """The stack around this launch, in names."""
    calls = trace.launches.take(np.array([launch]))
    (stack,) = stacks_at(trace, calls.start_ns, calls.process, calls.thread)
    return [trace.name(frame) for frame in stack]


def stacks_at(trace: Trace, start_ns: Ints, process: Ints, thread: Ints) -> list[Stack]:
    """The stacks of a few host calls that are near each other, by the rules of ``CallStacks``."""
    if not len(start_ns):
        return []
    host = trace.host_ops
    near = (host.start_ns <= start_ns.max()) & (host.end_ns >= start_ns.min())
    number, stacks = _enclosing(replace(trace, host_ops=host.take(near)), start_ns, process, thread)
    return [stacks[each] for each in number.tolist()]
