"""What is a part of a step, and what holds steps: layers, blocks and micro-batches repeat inside a step, too."""

from __future__ import annotations

import re
from collections import Counter
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import Final

import numpy as np

from ..model.columns import grouped, numbered
from ..model.trace import NONE, Bools, HostKind, Ints, Trace
from .phase_names import ENGINE_STEPS

MODULE: Final = "nn.Module: "
"""What torch.profiler writes before the class of a module whose call it recorded (with_stack)."""

_LOOP: Final = re.compile(
    r"ProfilerStep|generat|epoch|(?:^|[\W_])loop|bench|iterations|steps$|^train(?:ing)?$", re.IGNORECASE
)
"""Names of what holds whole steps: anything that repeats inside may be a step. Not where they name one step."""

_STEP: Final = re.compile(r"(?:^|[^a-z])(?:step|iter(?:ation)?|token)(?:[^a-z]|$)", re.IGNORECASE)
_PART: Final = re.compile(r"micro|layer|block|inner|sub", re.IGNORECASE)
"""Who calls it a step means one, wherever it stands; not a step of a layer or of a micro-batch."""

_LAYER: Final = re.compile(
    r"(?:^|[^A-Za-z])(?i:layers?|blocks?|micro[ _-]?batch(?:es)?)(?![a-z])|(?:Layer|Block|MicroBatch)(?![a-z])"
    r"|(?:^|\.)h\.\d"  # as GPT-2 calls its layers
)
_OF_TOKENS: Final = re.compile(r"decod(?!er)|generat|denois|diffus", re.IGNORECASE)
"""Blocks of tokens are steps of block diffusion."""

_PIECE: Final = re.compile(r"Torch-Compiled Region|CompiledFxGraph|^FSDP::")
"""What torch writes around each compiled or sharded piece: the whole model, or each of its layers."""

_PASS: Final = re.compile(r": (?:forward|__call__|_call_impl|_wrapped_call_impl|execute_model|_model_forward)$")
"""Python functions that are one pass of a model. Others, such as main, hold loops as well."""

LEAST_RUNS: Final = 2
"""Runs 0, 1, 2, …, 0, 1, 2, … of numbered names from which the numbers are those of layers."""


@dataclass(frozen=True, eq=False)
class Holders:
    """Annotations, module calls and passes of a trace: each may hold what repeats inside one step."""

    trace: Trace

    @cached_property
    def rows(self) -> Ints:
        """Rows of host_ops that may hold parts, but for loops by name."""
        host, names = self.trace.host_ops, self.trace.names
        is_pass = np.array([MODULE in name or _PASS.search(name) is not None for name in names], np.bool_)
        loops = np.array([is_loop(name) for name in names], np.bool_)
        kept = (host.kind == HostKind.ANNOTATION) | ((host.kind == HostKind.PYTHON) & is_pass[host.name])
        return np.flatnonzero(kept & ~loops[host.name])

    @cached_property
    def module_calls(self) -> list[Ints]:
        """Rows of the calls of modules that no other module called, by thread and name; by start."""
        host, names = self.trace.host_ops, self.trace.names
        is_module = np.array([MODULE in name for name in names], np.bool_)
        rows = np.flatnonzero((host.kind == HostKind.PYTHON) & is_module[host.name])
        calls: list[Ints] = []
        thread = numbered(host.process[rows], host.thread[rows])
        for of_thread in grouped(thread, int(thread.max(initial=NONE)) + 1):
            its = rows[of_thread]
            its = its[np.lexsort((-host.end_ns[its], host.start_ns[its]))]
            reach = np.maximum.accumulate(host.end_ns[its])
            outer = its[np.append(True, host.start_ns[its[1:]] >= reach[:-1])[: len(its)]]
            name = numbered(host.name[outer])
            calls += [outer[one] for one in grouped(name, int(name.max(initial=NONE)) + 1)]
        return calls

    def holder_of(self, rows: Ints) -> int | None:
        """The row that holds all of these rows of host_ops, of their thread, and is no loop; None without one."""
        host = self.trace.host_ops
        first, end = host.start_ns[rows].min(), host.end_ns[rows].max()
        found = self.holding(int(host.process[rows[0]]), int(host.thread[rows[0]]), int(first), int(end))
        found = found[~np.isin(found, rows)]
        return int(found[0]) if len(found) else None

    def holding(self, process: int, thread: int, start_ns: int, end_ns: int) -> Ints:
        """Rows of the thread that hold all of this time, but for those that hold several calls of a module."""
        host, rows = self.trace.host_ops, self.rows
        on_thread = (host.process[rows] == process) & (host.thread[rows] == thread)
        return self._without_calls(rows[on_thread & (host.start_ns[rows] <= start_ns) & (host.end_ns[rows] >= end_ns)])

    def _without_calls(self, rows: Ints) -> Ints:
        """Those of the rows that hold at most one call of each module."""
        for calls in self.module_calls:
            rows = rows[self._calls_in(calls, rows) <= 1]
        return rows

    def holds_several(self, rows: Ints, calls: Ints) -> bool:
        """Whether any of these rows holds more than one of these calls."""
        return bool((self._calls_in(calls, rows) > 1).any())

    def _calls_in(self, calls: Ints, rows: Ints) -> Ints:
        """How many of the calls, by start, begin in each of the rows; none of a row that is one of them."""
        host = self.trace.host_ops
        start = host.start_ns[calls]
        inside = np.searchsorted(start, host.end_ns[rows]) - np.searchsorted(start, host.start_ns[rows])
        return np.where(np.isin(rows, calls), 0, inside)

    def are_parts(self, rows: Ints) -> bool:
        """Whether alike annotations or module calls are parts of steps: layers by name, all inside one other thing or
        inside several that are alike, as an engine's steps are, or numbered as layers are."""
        names = [self.trace.name(name) for name in self.trace.host_ops.name[rows].tolist()]
        if is_named_step(names[0]) or is_engine_step(names[0]):
            return False
        if is_layer(names[0]) or _PIECE.search(names[0]) or numbers_restart(names):
            return True
        return self.holder_of(rows) is not None or self._in_alike(rows)

    def _in_alike(self, rows: Ints) -> bool:
        """Whether annotations of one other name, fewer than these, hold all of them, of their thread."""
        host = self.trace.host_ops
        process, thread = host.process[rows[0]], host.thread[rows[0]]
        if (host.thread[rows] != thread).any():
            return False
        others = self.rows[(host.process[self.rows] == process) & (host.thread[self.rows] == thread)]
        others = others[(host.kind[others] == HostKind.ANNOTATION) & ~np.isin(others, rows)]
        return any(
            2 <= len(alike) < len(rows)
            and self._all_inside(rows, alike).all()
            and not any(self.holds_several(alike, calls) for calls in self.module_calls)
            for alike in by_normalised_name(self.trace, others)
        )

    def _all_inside(self, rows: Ints, holders: Ints) -> Bools:
        """[rows] whether one of the holders, which may nest, holds each."""
        host = self.trace.host_ops
        holders = holders[np.argsort(host.start_ns[holders], kind="stable")]
        reach = np.append(np.maximum.accumulate(host.end_ns[holders]), np.iinfo(np.int64).min)
        last = np.searchsorted(host.start_ns[holders], host.start_ns[rows], side="right") - 1
        return np.asarray(reach[last] >= host.end_ns[rows])


def is_named_step(name: str) -> bool:
    """Whether its author called it a step, an iteration or a token."""
    return _STEP.search(name) is not None and _PART.search(name) is None


def is_layer(name: str) -> bool:
    """Whether its author called it a layer, a block or a micro-batch."""
    return _LAYER.search(name) is not None and _OF_TOKENS.search(name) is None


def is_engine_step(name: str) -> bool:
    """Whether a known engine calls each of its steps so."""
    return any(pattern.search(name) for pattern in ENGINE_STEPS)


def is_loop(name: str) -> bool:
    """Whether its author called it what holds whole steps."""
    return _LOOP.search(name) is not None and not is_named_step(name) and not is_engine_step(name)


def numbers_restart(names: list[str]) -> bool:
    """Whether alike names count the same numbers in the same order again and again: layers of each step."""
    numbers = Counter(names)
    if len(numbers) < LEAST_RUNS or min(numbers.values()) < LEAST_RUNS:
        return False
    first = list(dict.fromkeys(names))
    counts = [int(found[-1]) for name in first if (found := re.findall(r"\d+", name))]
    counting_up = len(counts) == len(first) and all(later == one + 1 for one, later in pairwise(counts))
    return counting_up and names[: 2 * len(first)] == first * 2


def normalised_name(name: str) -> str:
    """The name without numbers and parenthesised arguments: what the steps of one loop have in common."""
    previous = None
    while previous != name:
        previous, name = name, re.sub(r"\([^()]*\)", "", name)
    name = re.sub(r"\(.*", "", name)  # an argument list that the writer cut short
    return " ".join(re.sub(r"0[xX][0-9a-fA-F]+|\d+", "", name).split())


def by_normalised_name(trace: Trace, rows: Ints) -> list[Ints]:
    """These rows of host_ops of each normalised name and process."""
    host = trace.host_ops
    used, place = np.unique(host.name[rows], return_inverse=True)
    normalised = [normalised_name(trace.name(name)) for name in used.tolist()]
    number = {name: n for n, name in enumerate(dict.fromkeys(normalised))}
    group = numbered(host.process[rows], np.array([number[name] for name in normalised], np.int64)[place])
    return [rows[its] for its in grouped(group, int(group.max(initial=NONE)) + 1)]
