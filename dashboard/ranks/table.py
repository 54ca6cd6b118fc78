"""The table of ranks of a report: what each spends, in itself and inside collectives, mode by mode."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from ...analysis.model.document import RankDoc, RanksOfStepDoc
from ...analysis.model.units import one_line, printable
from ..band import Band
from ..grid_table import SEVERAL_LINES, Row, TableData, figure, in_us, text, with_ids
from ..opened_report import OpenedReport


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
