"""What one rank's collectives take of a step, as its trace's document tells it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import Final

import numpy as np
from numpy.typing import NDArray

from ..facts.collectives import Collectives
from ..facts.ranks.waiting import Waits
from ..model import units
from ..model.document import CommunicationDoc, WarningDoc
from ..model.statistics import summarize

ALONE: Final = (
    "with one rank's trace waiting for other ranks can't be told from transfer: give theirs of the same steps"
)

NOT_IN_COMMON: Final = "no other rank has the same collectives"
NO_COLLECTIVES: Final = "the step has no collective"


def communication_doc(
    collectives: Collectives, busy_ns: NDArray[np.float64], waits: Waits | None = None, reason: str | None = ALONE
) -> CommunicationDoc | None:
    """Per kept step, ``busy_ns`` being [s]; null without a collective. Waiting is told of steps that are told whole."""
    if not len(collectives):
        return None
    kinds = Counter(collectives.kinds[kind] for kind in collectives.kind.tolist())
    told = None if waits is None or not waits.is_known or not waits.split.any() else waits
    rows = slice(0) if told is None else told.split
    work = None if told is None else busy_ns[rows] - told.exposed_waiting_ns[rows]
    return CommunicationDoc(
        scope="whole" if collectives.step_source == "none" else "steps",
        kinds=dict(sorted(kinds.items())),
        groups=sorted(collectives.groups),
        collectives=summarize(np.bincount(collectives.step, minlength=collectives.steps)),
        exposed_ns=summarize(collectives.exposed_ns),
        hidden_ns=summarize(collectives.step_hidden_ns),
        transfer_ns=None if told is None else summarize(told.step_transfer_ns[rows]),
        waiting_ns=None if told is None else summarize(told.step_waiting_ns[rows]),
        exposed_waiting_ns=None if told is None else summarize(told.exposed_waiting_ns[rows]),
        work_without_waiting_ns=None if work is None else summarize(work),
        reason=reason,
    )


def without_warning(warnings: Iterable[WarningDoc]) -> list[WarningDoc]:
    """Those that are not ours."""
    return [warning for warning in warnings if warning.code != "waiting_unknown"]


def not_split(communication: CommunicationDoc | None, work_ns: float, resolved_ns: float) -> list[WarningDoc]:
    """What to know of a trace whose collectives hold waiting that nothing tells; nothing below what is resolved."""
    if communication is None or communication.exposed_ns.median is None:
        return []
    exposed, span = communication.exposed_ns.median, "step" if communication.scope == "steps" else "file"
    if communication.transfer_ns is not None or exposed <= resolved_ns:
        return []
    inside = f"{units.duration(exposed)} of the {units.duration(work_ns)} that the GPU is busy in a {span}"
    text = f"{inside} pass inside collectives: {communication.reason}"
    return [WarningDoc(code="waiting_unknown", message=text, count=sum(communication.kinds.values()))]
