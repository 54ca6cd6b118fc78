"""What a row can tell only beside other ranks': waiting, who arrives last, and how far its clock is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec
import numpy as np

from ..ranks.clocks import Offset, clock_offsets
from ..ranks.documents import is_straggler
from ..ranks.matching import Matching, match
from ..ranks.waiting import Arrivals, Waits, arrivals, mostly_awaited, waits_of
from ..trace_times import StepWaits, TraceTimes, with_waiting
from ..trace_verdict import trace_verdict
from ..units import number, plural
from .carried import CarriedCollectives
from .document import AlignmentDoc, RankRow
from .figures import launch_tax

ENOUGH: Final = 0.9
"""Share of the steps of a median rank, below which a rank is not compared."""

_REASONS: Final = 8
_NOTHING: Final = "no collective is in the files: only durations are compared, and no clocks"


def compared(rows: Sequence[RankRow], carried: Mapping[int, CarriedCollectives]) -> tuple[list[RankRow], AlignmentDoc]:
    """The rows with what their collectives tell together; ``carried`` are those of the rows at these places."""
    if not carried:
        return list(rows), AlignmentDoc(kind="none", reason=_NOTHING)
    left_out = _left_out(rows, carried)
    places = sorted(set(carried) - set(left_out))
    matching = match([carried[place].restored() for place in places])
    found = list(rows)
    is_short = False  # not all steps of every rank were carried
    awaited = [None if other is None else rows[places[other]].rank for other in mostly_awaited(matching)]
    waits, last, offsets = waits_of(matching), arrivals(matching), clock_offsets(matching)
    for own, place in enumerate(places):
        its = carried[place]
        is_short |= len(its.busy_ns.values()) != found[place].steps
        figures = (
            _waiting(waits[own], awaited[own], its, found[place])
            | _arrival(last[own], its.times)
            | _clock(offsets[own])
        )
        found[place] = msgspec.structs.replace(found[place], **figures)
    return found, _alignment(rows, matching, waits, list(left_out.values()), is_short=is_short)


def _left_out(rows: Sequence[RankRow], carried: Mapping[int, CarriedCollectives]) -> dict[int, str]:
    """Ranks that are not compared, with the reason: a step is compared where all ranks of a group have it, so a file
    with few of them would take the others' away.
    """
    steps = {place: len(each.busy_ns.values()) for place, each in carried.items()}
    usual = float(np.median(list(steps.values())))
    reasons: dict[int, str] = {}
    for place, count in steps.items():
        name = rows[place].name if rows[place].rank is None else f"rank {rows[place].rank}"
        if rows[place].unreliable:
            reasons[place] = f"{name}: its file is not reliable"
        elif count < ENOUGH * usual:
            reasons[place] = f"{name}: {plural(count, 'step')} of {number(usual)}"
    return reasons if len(reasons) < len(steps) else {}


def _waiting(waits: Waits, waits_for: int | None, its: CarriedCollectives, row: RankRow) -> dict[str, Any]:
    """Of the steps of which every collective was told; the verdict and the launch tax rest on it."""
    told = waits.told
    if not waits.is_known or not told.any():
        return {}
    times = with_waiting(its.times, StepWaits(its.busy_ns.values(), waits.exposed_waiting_ns, waits.unsplit_ns, told))
    verdict = trace_verdict(times, row.unreliable, its.blocking, alone=False, waits_for=waits_for)
    return {
        "communication_transfer_ns": float(np.median(waits.step_transfer_ns[told])),
        "communication_waiting_ns": float(np.median(waits.step_waiting_ns[told])),
        "gpu_work_without_waiting_ns": times.without_waiting_ns,
        "waits_for": waits_for,
        "verdict_class": verdict.verdict_class,
        "verdict_reason": verdict.reason,
        **(launch_tax(times) if row.launch_tax_ns is not None else {}),
    }


def _arrival(own: Arrivals, times: TraceTimes) -> dict[str, Any]:
    """A straggler is one by the rule of a report's ranks."""
    of = int(own.of.sum())
    if not of:
        return {}
    apart = own.of > 0
    awaited = float(own.awaited_ns.mean())
    part = awaited / times.step_ns if times.step_ns > 0 else 0.0
    return {
        "arrives_last_share": int(own.last.sum()) / of,
        "arrives_last_chance": own.chance,
        "arrivals": of,
        "awaited_ns": awaited,
        "straggler": is_straggler(own.last[apart] / own.of[apart], own.chance, part),
    }


def _clock(offset: Offset | None) -> dict[str, Any]:
    if offset is None:
        return {}
    return {"clock_offset_ns": offset.offset_ns, "clock_spread_ns": offset.p90_ns - offset.p10_ns}


def _alignment(
    rows: Sequence[RankRow], matching: Matching, waits: Sequence[Waits], left_out: list[str], *, is_short: bool
) -> AlignmentDoc:
    unmatched = [*left_out, *matching.refused][:_REASONS]
    known = sum(each.is_known for each in waits)
    if not matching.groups:
        reason = "no collective of one rank is another's: only durations are compared, and no clocks"
        return AlignmentDoc(kind="none", reason=reason, unmatched=unmatched)
    pairing = {"order": "n-th to n-th", "collectives": "shifted until the collectives agree"}
    paired = pairing.get(matching.steps.source, "by their numbers")
    steps = max(len(np.unique(group.step)) for group in matching.groups)
    reason = (
        f"collectives of {plural(len(matching.groups), 'group')} of ranks match ({known:,} of {len(rows):,} ranks, "
        f"{'the first ' if is_short else ''}{plural(steps, 'step')}, paired {paired}): waiting by their durations, "
        "clocks by their ends"
    )
    partial = sum(not group.whole for group in matching.groups)
    if partial:
        reason += f"; {plural(partial, 'group')} without all of its ranks, where waiting is at least so much"
    return AlignmentDoc(
        kind="collectives",
        reason=reason,
        groups=len(matching.groups),
        ranks=known,
        unmatched=unmatched,
    )
