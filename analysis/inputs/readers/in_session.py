"""GPU ops and calls whose times lie outside the recording: a writer that lost a time writes 0, or what 0 becomes.

CUPTI has 0 for a kernel whose times it could not collect (CUpti_ActivityKernel9, "start"); less the base of the file
that is 0, or decades before all else.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Final

import numpy as np

from ...model.trace import NONE, Bools, Event, Ints, Notice
from .assemble import Calls, FileFacts, link

FAR_NS: Final = 3_600_000_000_000
"""An hour without any other record between: long sessions are idle for minutes."""

MOST_OUTSIDE: Final = 0.1
"""Were more of the records apart, nobody could tell which part is the session."""


def in_session(
    facts: FileFacts, names: tuple[str, ...], ops: dict[str, Ints], calls: Calls, zero_ns: int
) -> tuple[FileFacts, dict[str, Ints], Calls]:
    """The ops and calls within the session, and the facts with what to say of the others.

    ``zero_ns`` is the time 0 of the file.
    """
    start_ns = np.concatenate([ops["start_ns"], calls.start_ns])
    outside = _far(start_ns)
    outside[: len(ops["start_ns"])] |= _at_zero(ops, calls, zero_ns)
    if not outside.any():
        return facts, ops, calls
    name = np.concatenate([ops["name"], calls.api])
    first = int(np.argmax(outside))
    of_ops, of_calls = np.split(outside, [len(ops["start_ns"])])
    text = (
        f"times outside of the session, of {int(of_ops.sum()):,} GPU ops and {int(of_calls.sum()):,} API calls: left "
        "out, as the profiler could not collect them; record again in a fresh process"
    )
    event = Event(names[int(name[first])], int(start_ns[first]), "no other record is near this time")
    within = {column: values[~of_ops] for column, values in ops.items()}
    notice = Notice("outside_session", text, int(outside.sum()), event)
    used = set(np.unique(within["device"]).tolist())
    facts = replace(
        facts,
        notices=(*facts.notices, notice),
        complete=False,
        device_names={device: named for device, named in facts.device_names.items() if device in used},
    )
    return facts, within, calls.take(~of_calls)


def _far(start_ns: Ints) -> Bools:
    """Records with over an hour between them and those around the median."""
    if not len(start_ns) or start_ns.max() - start_ns.min() <= FAR_NS:
        return np.zeros(len(start_ns), np.bool_)
    order = np.argsort(start_ns, kind="stable")
    part = np.empty(len(start_ns), np.int64)
    part[order] = np.append(0, np.cumsum(np.diff(start_ns[order]) > FAR_NS))
    outside: Bools = part != part[order[len(order) // 2]]
    return outside if outside.sum() <= MOST_OUTSIDE * len(outside) else np.zeros_like(outside)


def _at_zero(ops: dict[str, Ints], calls: Calls, zero_ns: int) -> Bools:
    """[ops] those at 0, where the first call of all comes later, and one that launched such an op is among them."""
    at_zero: Bools = ops["start_ns"] == zero_ns
    if not at_zero.any() or not len(calls) or calls.start_ns.min() <= zero_ns:
        return np.zeros_like(at_zero)
    launch_row = link(ops["process"][at_zero], ops["correlation"][at_zero], calls)[1]
    is_launched = bool((launch_row != NONE).any())
    return at_zero if is_launched else np.zeros_like(at_zero)
