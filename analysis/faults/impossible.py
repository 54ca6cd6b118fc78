"""Times that can't be: each rule of docs/metrics.md, coverage, as a check."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model import units
from ..model.columns import follow
from ..model.trace import WHOLE_US_NS, Bools, Event, Notice, Trace, Void
from .check import Check, gpu_op

SKEWED_SHARE: Final = 0.01
"""Over this share of ops that start before their launch call, the clocks or the correlation ids are wrong."""

IMPOSSIBLE_SHARE: Final = 0.01
"""Over this share of GPU ops, launches or blocking calls that can't have lasted so long, no time of the file is one."""

TWICE_SHARE: Final = 0.01
"""Over this share of GPU ops that are in the file more than once, its counts are of no use."""

ROCM_GAP_NS: Final = 1

CANT_BE: Final = "have durations that can't be"
"""The end of a reason, of more than that share."""


def _skew(context: Context) -> Iterator[Notice]:
    facts, trace, ops = context.trace_facts, context.trace, context.trace.gpu_ops
    early = int(facts.is_early.sum())
    if not early:
        return
    before = np.where(facts.is_early, follow(trace.launches.start_ns, ops.launch_row) - ops.start_ns, 0)
    by = f"{before.max() / 1000:,.1f} µs"
    text = (
        f"{units.part(early, facts.gpu_ops)} GPU ops start before their launch call does, by up to "
        f"{by}: clock skew or wrong correlation ids; record in a fresh process, one profiler session only"
    )
    voids = {}
    if early > SKEWED_SHARE * facts.gpu_ops:
        voids[Void.TRACE] = f"{units.part(early, facts.gpu_ops)} GPU ops start before their launch call does"
    event = gpu_op(trace, int(np.argmax(before)), f"it starts {by} before its launch call does")
    yield Notice("skew", text, early, event, voids)


def _whole_us(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    if trace.whole_us and facts.gpu_ops and not any(notice.code == "perfetto_json" for notice in trace.notices):
        text = (
            f"times are whole µs: ±1 µs at each edge, so {_off(context)}; a newer torch (2.3 or later) writes "
            "nanoseconds"
        )
        yield Notice("whole_us", text, facts.gpu_ops)


def _coarse_times(context: Context) -> Iterator[Notice]:
    facts, grid_ns = context.trace_facts, context.trace.grid_ns
    if 1 < grid_ns < WHOLE_US_NS:
        text = (
            f"times are told to {grid_ns / 1000} µs, as floating-point numbers hold µs since 1970: ±{grid_ns / 1000} "
            f"µs at each edge, so {_off(context)}; give the profiler's own file, or write ts relative to a base"
        )
        yield Notice("coarse_times", text, facts.gpu_ops)


def _off(context: Context) -> str:
    """By how much the times of gaps may be off."""
    gaps = sum(len(busy) - 1 for busy in context.busy.values())
    return f"{gaps:,} gaps may be off by ±{2 * gaps * context.trace.grid_ns / 1e6:,.3f} ms together"


def _touching_ops(context: Context) -> Iterator[Notice]:
    """ROCm's Kineto adds 1 ns to every op's begin: libkineto/src/RocprofActivity.h."""
    trace = context.trace
    if not any(trace.name(int(api)).startswith("hip") for api in np.unique(trace.launches.api)):
        return
    for gaps in context.gaps.values():
        touching = gaps.dur_ns == ROCM_GAP_NS
        count = int(touching.sum())
        if 2 * count > len(gaps):
            text = (
                f"{units.part(count, len(gaps))} gaps are of 1 ns, which ROCm's profiler adds to the begin of each op: "
                "ops touch there, and what passes from one graph node to the next can't be told"
            )
            event = gpu_op(trace, int(gaps.next_op[np.argmax(touching)]), "it begins 1 ns after the op before it")
            reason = "ROCm's profiler puts 1 ns between ops that touch"
            yield Notice("touching_ops", text, count, event, {Void.NODE_TAX: reason})


def _impossible_durations(context: Context) -> Iterator[Notice]:
    by_fault, *of_tables = context.trace_facts.impossible
    trace = context.trace
    counts = [int(rows.sum()) for rows in of_tables]
    if not any(counts):
        return
    words = (("GPU op", "GPU ops"), ("launch", "launches"), ("blocking call", "blocking calls"))
    counted = [units.plural(n, *own) for n, own in zip(counts, words, strict=True) if n]
    faults = [f"{count:,} {what}" for what, count in by_fault.items() if count]
    where = f" (the first on {_place(trace, of_tables[0])})" if of_tables[0].any() else ""
    text = (
        f"durations that can't be, of {' and '.join(counted)}{where}: {', '.join(faults)}; the writer's clocks are "
        "at fault, and busy time holds them: record again"
    )
    many = [
        f"{units.part(count, len(rows))} {several} {CANT_BE}"
        for count, rows, (_, several) in zip(counts, of_tables, words, strict=True)
        if count > IMPOSSIBLE_SHARE * len(rows)
    ]
    voids = {Void.TRACE: "; ".join(many)} if many else {}
    if _length_ns(trace, of_tables[0]) > IMPOSSIBLE_SHARE * _length_ns(trace, ~of_tables[0]):
        voids[Void.WORK] = (
            f"{units.plural(counts[0], 'GPU op')} with impossible durations are over 1 % of the GPU's time"
        )
    yield Notice("impossible_durations", text, sum(counts), _first_impossible(trace, of_tables), voids)


def _length_ns(trace: Trace, rows: Bools) -> int:
    """Time of these GPU ops, whichever way their times run."""
    return int(np.abs(trace.gpu_ops.dur_ns[rows]).sum())


def _first_impossible(trace: Trace, of_tables: list[Bools]) -> Event:
    tables = (
        (trace.gpu_ops, trace.gpu_ops.name),
        (trace.launches, trace.launches.api),
        (trace.blocking_calls, trace.blocking_calls.api),
    )
    for (table, names), rows in zip(tables, of_tables, strict=True):
        if rows.any():
            row = int(np.argmax(rows))
            lasts = units.duration(float(table.dur_ns[row]))
            return Event(trace.name(int(names[row])), int(table.start_ns[row]), f"it can't have lasted {lasts}")
    raise AssertionError("one of the tables has such a row")


def _duplicates(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    twice = int(facts.twice.sum())
    if twice:
        text = (
            f"{units.part(twice, facts.gpu_ops)} GPU ops are in the file more than once (the first on "
            f"{_place(trace, facts.twice)}): counts and sums of durations hold them each time, busy time does "
            "not; files were merged, or one was written twice: give the profiler's own file"
        )
        event = gpu_op(trace, int(np.argmax(facts.twice)), "another record says the same")
        many = f"{units.part(twice, facts.gpu_ops)} GPU ops are in the file more than once: counts hold records twice"
        voids = {Void.TRACE: many} if twice > TWICE_SHARE * facts.gpu_ops else {}
        yield Notice("duplicates", text, twice, event, voids)


def _overlap(context: Context) -> Iterator[Notice]:
    facts, trace = context.trace_facts, context.trace
    rows = facts.overlaps.early & ~facts.twice
    overlaps = int(rows.sum())
    if overlaps:
        why = ", or the impossible durations" if facts.overlaps.far.any() else ""
        text = (
            f"{units.part(overlaps, facts.gpu_ops)} GPU ops start before an earlier one of their stream has ended "
            f"(programmatic dependent launch{why}): busy counts such time once, the sum of durations twice"
        )
        event = gpu_op(trace, int(np.argmax(rows)), "an earlier op of its stream has not ended")
        yield Notice("overlap", text, overlaps, event)


def _place(trace: Trace, rows: Bools) -> str:
    """Where the first of these GPU ops is."""
    ops, row = trace.gpu_ops, int(np.argmax(rows))
    since = float(ops.start_ns[row] - ops.start_ns.min())
    when = f"{units.duration(since)} after the first GPU op" if since else "the first GPU op of all"
    return f"device {ops.device[row]}, stream {ops.stream[row]}, {when}"


IMPOSSIBLE: Final = (
    Check("skew", "no GPU op starts before its launch call does", _skew),
    Check("whole_us", "times are told to less than a µs", _whole_us),
    Check("coarse_times", "times are told to the ns", _coarse_times),
    Check("impossible_durations", "what ran has lasted from 0 ns up to what the file spans", _impossible_durations),
    Check("touching_ops", "a gap is longer than what the profiler adds", _touching_ops),
    Check("duplicates", "a record stands once in its file", _duplicates),
    Check("overlap", "ops of one stream run one after the other", _overlap),
)
