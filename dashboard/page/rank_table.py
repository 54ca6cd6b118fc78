"""The table of ranks, their clocks in words, and what of the difference between two of them is waiting."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from ...analysis.model.document import RankDoc, RanksOfStepDoc
from ...analysis.model.units import duration, number, one_line, printable
from ..band import Band
from ..grid_table import SEVERAL_LINES, Row, TableData, figure, in_us, text, with_ids
from ..opened_report import OpenedReport
from ..rank_sets import RankSet

_NO_CLOCK: Final = (
    "No collective of these ranks matches another's, so nothing here tells how their clocks lie: each timeline is on "
    "its own clock, and only durations can be compared between ranks."
)

_ONE_HOST: Final = "Clocks: all ranks ran on one host and have its clock"


def has_one_clock(sets: Sequence[RankSet]) -> bool:
    """Whether two ranks of any of them can be drawn on one clock."""
    return any(each.on_one_host or sum(offset is not None for offset in each.offsets) > 1 for each in sets)


def clock_words(chosen: RankSet) -> str:
    """How the ranks' clocks are aligned, or that they are not."""
    known = [place for place, offset in enumerate(chosen.offsets) if offset is not None]
    if len(known) < 2:
        return _ONE_HOST + "." if chosen.on_one_host else _NO_CLOCK
    reference, others = chosen.ranks[known[0]], known[1:]
    measured = [offset for place in others if (offset := chosen.offsets[place]) is not None]
    spread = max(abs(end - offset.offset_ns) for offset in measured for end in (offset.p10_ns, offset.p90_ns))
    collectives = min(offset.collectives for offset in measured)
    if len(others) == 1:
        ahead = measured[0].offset_ns
        which = f"rank {chosen.ranks[others[0]]}'s clock is {_how_far(ahead)} rank {reference}'s"
    else:
        apart = np.array([offset.offset_ns for offset in measured])
        which = f"the ranks' clocks are {duration(apart.min())} to {duration(apart.max())} ahead of rank {reference}'s"
    rest = len(chosen.bands) - len(known)
    without = f" {number(rest)} without a matching collective stay on their own." if rest else ""
    if chosen.on_one_host:
        return f"{_ONE_HOST}; by the ends of {number(collectives)} collectives {which} (within {duration(spread)})."
    return (
        f"Clocks: by the ends of {number(collectives)} collectives, which no rank can leave before all have come, "
        f"{which} (within {duration(spread)}, p10 to p90). “One clock” takes that off; with the same scale each rank's "
        f"step begins with its own first GPU op.{without}"
    )


def _how_far(ns: float) -> str:
    return "the same as" if not ns else f"{duration(abs(ns))} {'ahead of' if ns > 0 else 'behind'}"


def waiting_words(sets: Sequence[RankSet], key_a: str, key_b: str) -> Iterator[str]:
    """Told of two ranks of one set of which it is known: a collective that waits looks like a slow kernel."""
    for each in sets:
        places = [each.place(key) for key in (key_a, key_b)]
        waited = [None if place is None else each.waited_ns(place) for place in places]
        if places[0] == places[1] or None in waited:
            continue
        a, b = (f"rank {each.ranks[place or 0]} {duration(ns)}" for place, ns in zip(places, waited, strict=True))
        yield (
            f"Of a median step {a} and {b} are waiting inside collectives for ranks that come later: a collective that "
            "runs longer there is no slower kernel."
        )


def has_ranks(opened: OpenedReport, bands: Sequence[Band]) -> bool:
    del bands
    return any(_ranks_by_mode(opened))


def ranks_table(opened: OpenedReport, bands: Sequence[Band]) -> TableData:
    """A row per rank of each mode, whichever traces are shown."""
    del bands
    rows = [_row(name, rank) for name, ranks in _ranks_by_mode(opened) for rank in ranks.ranks]
    columns = [
        text("mode", "mode", minWidth=100, maxWidth=150),
        figure("rank", "rank", maxWidth=100),
        text("host", "host", minWidth=100),
        text("verdict", "verdict", minWidth=124),
        figure("step_us", "step T, µs", 1),
        figure("work_us", "GPU work W, µs", 1),
        figure("without_us", "W without waiting, µs", 1),
        figure("waiting_of_step_us", "waiting in T, µs", 1),
        figure("transfer_us", "transfer, recorded µs", 1),
        figure("waiting_us", "waiting, recorded µs", 1),
        figure("last", "arrives last, %", 1),
        figure("awaited_us", "others wait for it, µs", 1),
        figure("tax_us", "launch tax, µs", 1),
        figure("tax_share", "launch tax ÷ T, %", 2),
        figure("launches", "launches"),
        figure("kernels", "kernels"),
        figure("collectives", "collectives"),
        figure("exposed_us", "exposed in collectives, µs", 1),
        figure("hidden_us", "hidden in collectives, µs", 1),
        figure("clock_us", "its clock − the first one's, µs", 3),
        text("note", "of note", minWidth=280, flex=2, wrapText=True, autoHeight=True, cellStyle=SEVERAL_LINES),
    ]
    there = [each for each in columns if any(row[each["field"]] is not None for row in rows)]
    return TableData(there, with_ids(rows), " · ".join(_notes(opened)) or None)


def _ranks_by_mode(opened: OpenedReport) -> Iterator[tuple[str, RanksOfStepDoc]]:
    """What the report tells of several ranks, by mode; of bare traces by the name that they share."""
    document = opened.report.document
    profile = document.profile
    if profile is not None and profile.ranks is not None:
        yield from ((name.replace("_", " "), ranks) for name, ranks in profile.ranks.modes.items())
    labels = {id(each.document): each.label for each in opened.rank_sets}
    yield from ((labels.get(id(ranks), "traces"), ranks) for ranks in document.ranks)


def _row(mode: str, rank: RankDoc) -> Row:
    reasons = [f"{name}: {why}" for name, why in rank.withheld.items()]
    remarks = ["straggler"] if rank.straggler else []
    remarks += [rank.error] if rank.error is not None else reasons
    last = None if rank.arrived_last is None or not rank.arrivals else rank.arrived_last / rank.arrivals
    return {
        "band": "",
        "op": None,
        "mode": printable(mode),
        "rank": rank.rank,
        "host": None if rank.host is None else printable(rank.host),
        "step_us": None if rank.step_ns is None else in_us(rank.step_ns.median),
        "work_us": in_us(rank.gpu_work_ns),
        "without_us": in_us(rank.gpu_work_without_waiting_ns),
        "waiting_of_step_us": in_us(rank.waiting_of_step_ns),
        "transfer_us": in_us(rank.transfer_ns),
        "waiting_us": in_us(rank.waiting_ns),
        "exposed_us": in_us(rank.exposed_ns),
        "hidden_us": in_us(rank.hidden_ns),
        "tax_us": in_us(rank.launch_tax_ns),
        "tax_share": None if rank.launch_tax_share is None else round(rank.launch_tax_share * 100, 3),
        "launches": rank.launches,
        "kernels": rank.kernels,
        "collectives": rank.collectives,
        "last": None if last is None else round(last * 100, 2),
        "awaited_us": in_us(rank.awaited_ns),
        "clock_us": in_us(rank.clock_offset_ns),
        "verdict": None if rank.verdict is None else rank.verdict.verdict_class,
        "note": one_line("; ".join(remarks)) or None,
    }


def _notes(opened: OpenedReport) -> Iterator[str]:
    if any(ranks.basis == "trace" for _, ranks in _ranks_by_mode(opened)):
        yield "T is as recorded: the profiler slows launches down"
    yield "transfer and recorded waiting are means per step, of the recording; the rest medians"
    yield "W without waiting: GPU work but for the time in which a collective only waits for ranks that come later"
    yield from dict.fromkeys(
        one_line(warning.message) for _, ranks in _ranks_by_mode(opened) for warning in ranks.warnings
    )
    refused = dict.fromkeys(reason for _, ranks in _ranks_by_mode(opened) for reason in ranks.refused)
    if refused:
        yield f"not matched: {'; '.join(map(one_line, refused))}"
