"""The phases of a serving engine's steps."""

from __future__ import annotations

from typing import Final

import msgspec

from ..facts.context import Context
from ..model.document import ServingDoc, ServingKindDoc, ServingPhaseDoc
from ..model.withheld import Withheld, known
from .figure import Figure
from .serving.anatomy import serving
from .serving.serving_story import serving_story


def _compute(context: Context) -> ServingDoc | Withheld | None:
    found = serving(context)
    if isinstance(found, str):
        return Withheld(found)
    if found is None:
        return None
    kinds = [_kind(kind, found.kinds_reason or "no annotation tells it") for kind in found.kinds]
    return msgspec.structs.replace(found, kinds=kinds)


def _kind(kind: ServingKindDoc, otherwise: str) -> ServingKindDoc:
    return msgspec.structs.replace(
        kind,
        kind=known(kind.kind, otherwise),
        period_ns=known(kind.period_ns, "no step follows these on this device"),
        phases=[_phase(phase) for phase in kind.phases],
    )


def _phase(phase: ServingPhaseDoc) -> ServingPhaseDoc:
    reason = phase.reason or "no launch of the host's is of this phase"
    return msgspec.structs.replace(
        phase, host_ns=known(phase.host_ns, reason), blocked_ns=known(phase.blocked_ns, reason)
    )


SERVING: Final = Figure(
    "serving",
    "phases of a serving engine's steps",
    ServingDoc,
    _compute,
    tables=lambda trace, verbose: serving_story(trace),
    tells_reasons=True,
)
