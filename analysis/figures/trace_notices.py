"""What to know about a trace before reading a figure of it: each notice says what, where, and what to do.

docs/warnings.md has them all, with when each is raised and what it means.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ..facts.context import Context
from ..faults.checks import faults
from ..model import units
from ..model.document import EventDoc, WarningDoc
from ..model.trace import Event, Notice
from .communication import waiting_unknown
from .figure import Figure

STRAY_SHARE: Final = 0.5
"""A gap over this share of the window means that work strayed into the recording."""


def trace_notices(context: Context) -> Iterator[Notice]:
    """Everything that the data itself tells, apart from what its reader and its steps have to say."""
    yield from faults(context)
    yield from _gap_notices(context)
    yield from _empty_steps(context)
    devices = context.trace.devices
    if len(devices) > 1:
        listed = ", ".join(str(device) for device in devices)
        text = (
            f"{len(devices)} devices ({listed}) ran GPU ops: busy and idle are told for each by itself, and headlines "
            "speak of the busiest"
        )
        yield Notice("several_devices", text, len(devices))


def _empty_steps(context: Context) -> Iterator[Notice]:
    steps = context.steps
    rows = np.flatnonzero(steps.empty)
    if len(rows):
        text = (
            f"{units.part(len(rows), len(steps))} steps hold neither launches nor GPU work: the GPU idles, and their "
            "time counts to the step before each; where they are no steps, name those that are with --step-regex"
        )
        event = Event(steps.names[rows[0]], int(steps.start_ns[rows[0]]), "nothing is launched in it")
        yield Notice("empty_steps", text, len(rows), event)


def _gap_notices(context: Context) -> Iterator[Notice]:
    for device, busy in context.busy.items():
        window = int(busy.end_ns[-1] - busy.start_ns[0])
        gaps = busy.start_ns[1:] - busy.end_ns[:-1]
        longest = int(np.argmax(gaps)) if len(gaps) else 0
        if len(gaps) and gaps[longest] > STRAY_SHARE * window:
            has_steady = bool(context.windows[device])
            remedy = "the steady idle beside it leaves it out" if has_steady else "record a loop of steps alone"
            begins = units.duration(float(busy.end_ns[longest] - busy.start_ns[0]))
            text = (
                f"device {device}: one gap of {gaps[longest] / 1e6:,.3f} ms, {begins} into the window, is "
                f"{units.share(gaps[longest] / window)} of it: the recording holds stray work; {remedy}"
            )
            yield Notice("stray_work", text)


def notices(context: Context) -> Sequence[Notice]:
    """What the reader, the steps and the data have to say; found once."""
    if "notices" not in context.figures:
        context.figures["notices"] = (*context.trace.notices, *context.steps.notices, *trace_notices(context))
    found: Sequence[Notice] = context.figures["notices"]
    return found


def warning_docs(context: Context) -> list[WarningDoc]:
    """The notices as a report has them."""
    starts = context.trace.gpu_ops.start_ns
    first_ns = int(starts[0]) if len(starts) else 0
    return [
        WarningDoc(
            code=each.code,
            message=each.message,
            count=each.count,
            event=None
            if each.event is None
            else EventDoc(name=each.event.name, after_ns=each.event.start_ns - first_ns, why=each.event.why),
        )
        for each in notices(context)
    ]


def _warnings(context: Context) -> list[WarningDoc]:
    return [*warning_docs(context), *waiting_unknown(context)]


WARNINGS: Final = Figure(
    "warnings", "what to know before reading a figure", list[WarningDoc], _warnings, across_ranks=True
)
