"""Blocking calls: where the host waits for the GPU, and how often in a step."""

from __future__ import annotations

from collections import Counter

import numpy as np

from .columns import follow, named
from .document import BlockingCallDoc
from .stacks import Stack, enclosing_stacks
from .steps import Steps
from .trace import NONE, Trace


def blocking_calls(trace: Trace, steps: Steps) -> list[BlockingCallDoc]:
    """Blocking calls by API, innermost operator and stack, the longest in total first.

    ``count_per_step`` is over kept steps, null without any, and leaves out the calls outside of them; ``ns`` is the
    host time inside all calls of the row.
    """
    calls = trace.blocking_calls
    operator = named(trace.names, follow(trace.host_ops.name, calls.operator_row))
    stacks = enclosing_stacks(trace, calls.start_ns, calls.process, calls.thread)
    inside = np.isin(calls_step := steps.blocking_step, steps.kept_rows) & (calls_step != NONE)
    took_ns: Counter[tuple[int, str | None, Stack]] = Counter()
    in_steps: Counter[tuple[int, str | None, Stack]] = Counter()
    for key, ns, is_inside in zip(
        zip(calls.api.tolist(), operator, stacks, strict=True), calls.dur_ns.tolist(), inside.tolist(), strict=True
    ):
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
