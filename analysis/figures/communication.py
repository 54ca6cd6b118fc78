"""What one rank's collectives take of a step, as its trace's document tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import numpy as np

from ..facts.context import Context
from ..model import units
from ..model.document import CommunicationDoc, TraceDoc, WarningDoc
from ..model.statistics import summarize
from ..model.units import duration, number
from ..story import Fact
from .figure import Figure, known
from .observer import KERNEL_STRETCH_NS

ALONE: Final = (
    "with one rank's trace waiting for other ranks can't be told from transfer: give theirs of the same steps"
)

NOT_IN_COMMON: Final = "no other rank has the same collectives"
NO_COLLECTIVES: Final = "the step has no collective"
_OF_COLLECTIVES: Final = ("collectives", "exposed_ns", "hidden_ns", "transfer_ns", "waiting_ns")


def communication_doc(context: Context) -> CommunicationDoc | None:
    """Per kept step; null without a collective. Waiting is told of steps that are told whole."""
    if context.headline is None or not len(context.collectives):
        return None
    collectives, waits, busy_ns = context.collectives, context.waits, context.busy_ns
    kinds = Counter(collectives.kinds[kind] for kind in collectives.kind.tolist())
    reason = ALONE if waits is None else context.waits_reason
    split = None if waits is None or not waits.is_known or not waits.split.any() else waits
    rows = slice(0) if split is None else split.split
    work = None if split is None else busy_ns[rows] - split.exposed_waiting_ns[rows]
    otherwise = reason or NOT_IN_COMMON
    return CommunicationDoc(
        scope="whole" if collectives.step_source == "none" else "steps",
        kinds=dict(sorted(kinds.items())),
        groups=sorted(collectives.groups),
        collectives=summarize(np.bincount(collectives.step, minlength=collectives.steps)),
        exposed_ns=summarize(collectives.exposed_ns),
        hidden_ns=summarize(collectives.step_hidden_ns),
        transfer_ns=known(None if split is None else summarize(split.step_transfer_ns[rows]), otherwise),
        waiting_ns=known(None if split is None else summarize(split.step_waiting_ns[rows]), otherwise),
        exposed_waiting_ns=None if split is None else summarize(split.exposed_waiting_ns[rows]),
        work_without_waiting_ns=None if work is None else summarize(work),
        reason=reason,
    )


def waiting_unknown(context: Context) -> Iterator[WarningDoc]:
    """What to know of a trace whose collectives hold waiting that nothing tells; nothing below what is resolved."""
    communication, times = COMMUNICATION.of(context), context.times
    if communication is None or communication.exposed_ns.median is None or times is None:
        return
    exposed, span = communication.exposed_ns.median, "step" if communication.scope == "steps" else "file"
    if communication.transfer_ns is not None or exposed <= times.gpu_ops * KERNEL_STRETCH_NS:
        return
    inside = f"{units.duration(exposed)} of the {units.duration(times.work_ns)} that the GPU is busy in a {span}"
    text = f"{inside} pass inside collectives: {communication.reason}"
    yield WarningDoc(code="waiting_unknown", message=text, count=sum(communication.kinds.values()))


def _facts(trace: TraceDoc, verbose: bool) -> Iterator[Fact]:
    """What collectives take of a step: means, as they add up."""
    del verbose
    doc = trace.communication
    if doc is None:
        return
    mean = {name: None if (s := getattr(doc, name)) is None else s.total / s.count for name in _OF_COLLECTIVES}
    per = "per step" if doc.scope == "steps" else "in the file"
    kinds = ", ".join(kind.replace("_", "-") for kind in doc.kinds)
    line = f"{number(mean['collectives'])} {per} ({kinds}) · exposed {duration(mean['exposed_ns'])}"
    line += f" · hidden {duration(mean['hidden_ns'])}" if mean["hidden_ns"] else ""
    if mean["transfer_ns"] is not None:
        line += f" · transfer {duration(mean['transfer_ns'])} · waiting {duration(mean['waiting_ns'])}"
    yield Fact("collectives", [line])


COMMUNICATION: Final = Figure(
    "communication",
    "what collectives take of a step",
    CommunicationDoc,
    communication_doc,
    facts=_facts,
    across_ranks=True,
    tells_reasons=True,
)
