"""What a row can tell only beside other ranks': waiting, who arrives last, and how far its clock is off."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import msgspec
import numpy as np

from ..facts.ranks.matching import Matching, match
from ..facts.ranks.pairing import sets_of_files
from ..facts.ranks.waiting import Arrivals, Offset, arrivals, clock_offsets, mostly_awaited, waits_of
from ..facts.trace_times import TraceTimes, Waits
from ..figures.trace_verdict import trace_verdict
from ..model.units import number, plural
from .document import AlignmentDoc, RankRow
from .one_file import RankCollectives, launch_tax

ENOUGH: Final = 0.9
"""Share of the steps of a median rank, below which a rank is not compared."""

_REASONS: Final = 8
_NOTHING: Final = "no collective is in the files: only durations are compared, and no clocks"
_UNMATCHED: Final = "no collective of one rank is another's: only durations are compared, and no clocks"
_NO_SET: Final = "files of the same rank, which no name tells apart: only durations are compared, and no clocks"


@dataclass(frozen=True, eq=False)
class _Together:
    """Files of ranks that ran together, compared."""

    matching: Matching
    known: int  # ranks of which transfer and waiting are told apart
    is_short: bool  # of some rank not all steps are compared


def compared(rows: Sequence[RankRow], collectives: Mapping[int, RankCollectives]) -> tuple[list[RankRow], AlignmentDoc]:
    """The rows with what their collectives tell together; ``collectives`` are those of the rows at these places."""
    if not collectives:
        return list(rows), AlignmentDoc(kind="none", reason=_NOTHING)
    left_out = _not_reliable(rows, collectives)
    sets, apart = _sets(rows, [place for place in sorted(collectives) if place not in left_out])
    left_out |= apart
    found, together = list(rows), []
    for places in sets:
        few = _few_steps(rows, {place: collectives[place] for place in places})
        left_out |= few
        together.append(_compare(found, [place for place in places if place not in few], collectives))
    return found, _alignment(rows, together, [left_out[place] for place in sorted(left_out)])


def _compare(found: list[RankRow], places: Sequence[int], collectives: Mapping[int, RankCollectives]) -> _Together:
    """Puts what they tell together into the rows at these places."""
    matching = match([collectives[place].collectives for place in places])
    awaited = [None if other is None else found[places[other]].rank for other in mostly_awaited(matching)]
    waits, last, offsets = waits_of(matching), arrivals(matching), clock_offsets(matching)
    is_short = False
    for nth, place in enumerate(places):
        its = collectives[place]
        is_short |= len(its.busy_ns) != found[place].steps
        figures = (
            _waiting(waits[nth], awaited[nth], its, found[place])
            | _arrival(last[nth], its.times)
            | _clock(offsets[nth])
        )
        found[place] = msgspec.structs.replace(found[place], **figures)
    return _Together(matching, sum(each.is_known for each in waits), is_short)


def _not_reliable(rows: Sequence[RankRow], collectives: Mapping[int, RankCollectives]) -> dict[int, str]:
    """Ranks that are not compared as their files are not reliable; none where all are not."""
    reasons = {at: f"{rows[at].label}: its file is not reliable" for at in collectives if rows[at].unreliable}
    return reasons if len(reasons) < len(collectives) else {}


def _sets(rows: Sequence[RankRow], places: list[int]) -> tuple[list[list[int]], dict[int, str]]:
    """Files of ranks that ran together, and why others are of no set: runs of the same ranks are not one run."""
    ranked = [(place, rank) for place in places if (rank := rows[place].rank) is not None]
    ranks = [rank for _, rank in ranked]
    if len(set(ranks)) == len(ranks):
        return [places], {}
    of_files = sets_of_files([rows[place].name for place, _ in ranked], ranks)
    sets = [[ranked[each][0] for each in places] for places in of_files]
    there = {place for places in sets for place in places}
    twice = next(rank for rank in ranks if ranks.count(rank) > 1)
    why = f"rank {twice} is there {ranks.count(twice)} times, and no name tells which ranks it ran with"
    return sets, {place: f"{rows[place].name}: {why}" for place in places if place not in there}


def _few_steps(rows: Sequence[RankRow], collectives: Mapping[int, RankCollectives]) -> dict[int, str]:
    """Ranks that are not compared, with the reason: a step is compared where all ranks of a group have it, so a file
    with few of them would take the others' away.
    """
    steps = {place: len(each.busy_ns) for place, each in collectives.items()}
    usual = float(np.median(list(steps.values())))
    return {
        place: f"{rows[place].label}: {plural(count, 'step')} of {number(usual)}"
        for place, count in steps.items()
        if count < ENOUGH * usual
    }


def _waiting(waits: Waits, waits_for: int | None, its: RankCollectives, row: RankRow) -> dict[str, Any]:
    """Of the steps of which every collective was told; the verdict and the launch tax rest on it."""
    known = waits.split
    if not waits.is_known or not known.any():
        return {}
    times = waits.with_waiting(its.times, its.busy_ns)
    verdict = trace_verdict(times, row.unreliable, its.blocking, alone=False, waits_for=waits_for)
    return {
        "communication_transfer_ns": float(waits.step_transfer_ns[known].mean()),
        "communication_waiting_ns": float(waits.step_waiting_ns[known].mean()),
        "gpu_work_without_waiting_ns": times.without_waiting_ns,
        "waits_for": waits_for,
        "verdict_class": verdict.verdict_class,
        "verdict_reason": verdict.reason,
        **(launch_tax(times) if row.launch_tax_ns is not None else {}),
    }


def _arrival(its: Arrivals, times: TraceTimes) -> dict[str, Any]:
    """A straggler is one by the rule of a report's ranks."""
    of = int(its.of.sum())
    if not of:
        return {}
    return {
        "arrives_last_share": int(its.last.sum()) / of,
        "arrives_last_chance": its.chance,
        "arrivals": of,
        "awaited_ns": its.mean_awaited_ns,
        "straggler": its.is_straggler(times.step_ns),
    }


def _clock(offset: Offset | None) -> dict[str, Any]:
    if offset is None:
        return {}
    return {"clock_offset_ns": offset.offset_ns, "clock_spread_ns": offset.p90_ns - offset.p10_ns}


def _alignment(rows: Sequence[RankRow], together: Sequence[_Together], left_out: list[str]) -> AlignmentDoc:
    refused = [reason for each in together for reason in each.matching.refused]
    unmatched = [*left_out, *refused][:_REASONS]
    groups = [group for each in together for group in each.matching.groups]
    known = sum(each.known for each in together)
    if not groups:
        return AlignmentDoc(kind="none", reason=_UNMATCHED if together else _NO_SET, unmatched=unmatched)
    pairing = {"order": "n-th to n-th", "collectives": "shifted until the collectives agree"}
    sources = [each.matching.steps.source for each in together if each.matching.groups]
    paired = " or ".join(dict.fromkeys(pairing.get(source, "by their numbers") for source in sources))
    steps = max(len(np.unique(group.step)) for group in groups)
    first = "the first " if any(each.is_short for each in together) else ""
    sets = f" in {len(together):,} sets of files, told apart by their names" if len(together) > 1 else ""
    reason = (
        f"collectives of {plural(len(groups), 'group')} of ranks{sets} match ({known:,} of {len(rows):,} ranks, "
        f"{first}{plural(steps, 'step')}, paired {paired}): waiting by their durations, clocks by their ends"
    )
    partial = sum(not group.whole for group in groups)
    if partial:
        reason += f"; {plural(partial, 'group')} without all of its ranks, where waiting is at least so much"
    return AlignmentDoc(kind="collectives", reason=reason, groups=len(groups), ranks=known, unmatched=unmatched)
