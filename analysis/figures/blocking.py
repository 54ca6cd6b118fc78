"""Blocking calls: where the host waits for the GPU, and how often in a step."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Final

import msgspec
import numpy as np

from ..facts.context import Context
from ..facts.launches import Stack
from ..model.columns import follow, named
from ..model.document import BlockingCallDoc, TraceDoc
from ..story import Listing, TypedColumn, TypedTable
from .figure import Figure
from .launches import ROWS, stack_line


def blocking_calls(context: Context) -> list[BlockingCallDoc]:
    """Blocking calls by API, innermost operator and stack, the longest in total first.

    ``count_per_step`` is over kept steps, null without any, and leaves out the calls outside of them; ``ns`` is the
    host time inside all calls of the row.
    """
    trace, steps, stacks = context.trace, context.steps, context.stacks
    calls = trace.blocking_calls
    operator = named(trace.names, follow(trace.host_ops.name, calls.operator_row))
    number = stacks.of_blocking_call.tolist()
    inside = np.isin(steps.blocking_step, steps.kept_rows)
    took_ns: Counter[tuple[int, str | None, Stack]] = Counter()
    in_steps: Counter[tuple[int, str | None, Stack]] = Counter()
    keys = zip(calls.api.tolist(), operator, [stacks.stacks[its] for its in number], strict=True)
    for key, ns, is_inside in zip(keys, calls.dur_ns.tolist(), inside.tolist(), strict=True):
        took_ns[key] += ns
        in_steps[key] += is_inside
    kept = len(steps.kept_rows)
    return [
        BlockingCallDoc(
            api=trace.name(api),
            operator=name,
            stack=[trace.name(frame) for frame in stack],
            count_per_step=in_steps[api, name, stack] / kept if kept else None,
            ns=ns,
        )
        for (api, name, stack), ns in took_ns.most_common()
    ]


class _Row(msgspec.Struct, frozen=True):
    api: str
    per_step: float | None
    ns: int
    operator: str | None
    inside: str | None


def _table(calls: Sequence[BlockingCallDoc]) -> TypedTable:
    """The longest first."""
    rows = [
        _Row(call.api, call.count_per_step, call.ns, call.operator or None, stack_line(call.stack, call.operator))
        for call in sorted(calls, key=lambda call: -call.ns)
    ]
    columns = [
        TypedColumn("api", "blocking calls", "name", least=22, foreign=True),
        TypedColumn("per_step", "per step"),
        TypedColumn("ns", "blocked", "ns"),
        TypedColumn("operator", "operator", "name", least=14, foreign=True),
        TypedColumn("inside", "inside", "name", rank=1, least=16, foreign=True),
    ]
    return TypedTable(columns, rows)


def _tables(trace: TraceDoc, verbose: bool) -> list[Listing]:
    return _table(trace.blocking_calls).listing(None if verbose else ROWS)


BLOCKING_CALLS: Final = Figure(
    "blocking_calls",
    "calls that wait for the GPU",
    list[BlockingCallDoc],
    blocking_calls,
    tables=_tables,
    table=_table,
)
