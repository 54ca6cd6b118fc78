"""All checks of a recording, and what their findings leave unknown."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from ..facts.context import Context
from ..model.trace import Notice, Void
from .impossible import IMPOSSIBLE
from .lost_records import LOST
from .merged import MERGED
from .waits import WAITS

CHECKS: Final = (*MERGED, *LOST, *IMPOSSIBLE, *WAITS)

_CUT_CODES: Final = ("cut_file", "damaged_file")


def faults(context: Context) -> Sequence[Notice]:
    """What the checks find; computed once."""
    if "faults" not in context.figures:
        context.figures["faults"] = tuple(notice for check in CHECKS for notice in check.find(context))
    found: Sequence[Notice] = context.figures["faults"]
    return found


def voided(context: Context, what: Void) -> str | None:
    """Why this can't be told of the trace, by the first fault that leaves it unknown; None where it can."""
    return next((notice.voids[what] for notice in faults(context) if what in notice.voids), None)


def unreliable(context: Context) -> list[str]:
    """Why no verdict rests on the trace; empty where it is reliable."""
    trace = context.trace
    reasons = [notice.voids[Void.TRACE] for notice in faults(context) if Void.TRACE in notice.voids]
    if any(notice.code == "perfetto_json" for notice in trace.notices):
        reasons.append("Perfetto's JSON export cut every time to whole µs")
    if not trace.complete and len(trace.gpu_ops):
        cut = any(notice.code in _CUT_CODES for notice in trace.notices)
        reasons.append(
            "the file is cut or damaged: what it lacks is not known" if cut else "records are known to be lost"
        )
    return list(dict.fromkeys(reasons))
