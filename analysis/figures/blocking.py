"""Blocking calls: where the host waits for the GPU, and how often in a step."""

from __future__ import annotations

from collections import Counter

import numpy as np

from ..facts.stacks import CallStacks, Stack
from ..facts.steps import Steps
from ..model.columns import follow, named
from ..model.document import BlockingCallDoc
from ..model.trace import Trace
from ..model.units import brief


def blocking_calls(trace: Trace, steps: Steps, stacks: CallStacks) -> list[BlockingCallDoc]:
    """Blocking calls by API, innermost operator and stack, the longest in total first.

    ``count_per_step`` is over kept steps, null without any, and leaves out the calls outside of them; ``ns`` is the
    host time inside all calls of the row.
    """
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


def blocking_words(trace: Trace, steps: Steps) -> tuple[str, ...]:
    """Blocking calls inside kept steps as 'api in operator', those with the most time first."""
    calls = trace.blocking_calls
    operators = named(trace.names, follow(trace.host_ops.name, calls.operator_row))
    spent_ns: Counter[str] = Counter()
    for row in np.flatnonzero(np.isin(steps.blocking_step, steps.kept_rows)).tolist():
        api, operator = brief(trace.name(int(calls.api[row]))), operators[row]
        spent_ns[api if operator is None else f"{api} in {brief(operator)}"] += int(calls.dur_ns[row])
    return tuple(words for words, _ in spent_ns.most_common())
