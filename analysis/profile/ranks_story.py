"""Several ranks side by side, told: what each spends inside collectives, who is late, and what their clocks allow."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from ..figures import verdict_blocks
from ..model import units
from ..model.document import RankDoc, RanksDoc, RanksOfStepDoc, StepTimeDoc
from ..model.units import MISSING, duration, duration_interval, number, plural, ratio, share
from ..story import Column, Fact, Listing, Row, Table
from .mode_table import shown_name
from .rank_documents import BY_COLLECTIVES, SAME_HOST

RANKS: Final = 16
"""So many ranks are told one by one without --verbose: the slowest ones."""

PAIRED: Final[Mapping[str, str]] = {
    "capture": "by the marks around each step",
    "profiler_step": "by the profiler's step numbers",
    "order": "n-th to n-th, as all have as many",
    "collectives": "where the ends of their collectives agree best",
}
COLUMNS: Final = (
    Column("step T", rank=0),
    Column("GPU\nwork", rank=1),
    Column("without\nwaiting", rank=1),
    Column("transfer", rank=3),
    Column("waiting\nof T", rank=2),
    Column("waiting,\nrecorded", rank=7),
    Column("hidden", rank=8),
    Column("launches", rank=4),
    Column("kernels", rank=8),
    Column("launch\ntax", rank=5),
    Column("of T", rank=5),
    Column("arrives\nlast", rank=3),
    Column("verdict", right=False, rank=6),
)
OF_MEANS: Final = (
    "* transfer and recorded waiting: means per step inside collectives, of the recording; the rest medians"
)
OF_SHARES: Final = "* waiting of T: what of T is not work, by the shares of waiting and of idle time in the recording"


def profile_ranks(ranks: RanksDoc | None, *, verbose: bool) -> Iterator[Fact | Listing]:
    """The ranks of every mode of a profile; nothing for one process."""
    if ranks is None:
        return
    rows: list[Row] = []
    more = 0
    for name, mode in ranks.modes.items():
        of_mode, hidden = _rows(mode, len(ranks.hosts) > 1, verbose=verbose)
        rows += [Row([f"{shown_name(name)}: all", *_all(mode)], strong=True), *of_mode]
        more += hidden
    on = f" on {plural(len(ranks.hosts), 'host')}"
    yield _listing(f"{ranks.count} ranks{on}", rows, more, OF_SHARES)
    for name, mode in ranks.modes.items():
        yield from _facts(mode, f"ranks, {shown_name(name)}", verbose=verbose)


def trace_ranks(sets: list[RanksOfStepDoc], *, verbose: bool) -> Iterator[Fact | Listing]:
    """Traces of others that belong together, each set for itself."""
    for number_of_set, ranks in enumerate(sets, 1):
        rows, more = _rows(ranks, several_hosts=False, verbose=verbose)
        which = "" if len(sets) == 1 else f", set {number_of_set}"
        rows = [Row(["all", *_all(ranks)], strong=True), *rows]
        yield _listing(f"{len(ranks.ranks)} ranks{which}", rows, more, OF_SHARES)
        if len(sets) > 1:
            yield Fact(f"set {number_of_set}", [", ".join(name for rank in ranks.ranks for name in rank.traces)])
        yield from _facts(ranks, "ranks", verbose=verbose)


def _listing(title: str, rows: list[Row], more: int, *notes: str) -> Listing:
    columns = [Column(title, right=False), *COLUMNS]
    return Listing(Table(columns, rows, more=more).without_empty_columns(MISSING), [OF_MEANS, *notes])


def _all(ranks: RanksOfStepDoc) -> list[str]:
    return [_step(ranks.step_ns), *[MISSING] * (len(COLUMNS) - 1)]


def _step(step: StepTimeDoc | None) -> str:
    return MISSING if step is None else duration_interval(step.median, step.ci_low, step.ci_high)


def _rows(ranks: RanksOfStepDoc, several_hosts: bool, *, verbose: bool) -> tuple[list[Row], int]:
    """A row a rank; of many the slowest ones, in their order, and how many are left out."""
    shown = ranks.ranks
    if not verbose and len(shown) > RANKS:
        slow = sorted(shown, key=lambda rank: -(rank.step_ns.median if rank.step_ns is not None else float("inf")))
        shown = [rank for rank in shown if rank in slow[:RANKS]]
    return [_row(rank, several_hosts) for rank in shown], len(ranks.ranks) - len(shown)


def _row(rank: RankDoc, several_hosts: bool) -> Row:
    name = f"  rank {rank.rank}{f' on {rank.host}' if several_hosts and rank.host else ''}"
    if rank.error is not None:
        return Row([name], span=units.one_line(rank.error))
    last = MISSING if not rank.arrivals else share((rank.arrived_last or 0) / rank.arrivals)
    return Row(
        [
            name,
            _step(rank.step_ns),
            duration(rank.gpu_work_ns),
            duration(rank.gpu_work_without_waiting_ns),
            duration(rank.transfer_ns),
            duration(rank.waiting_of_step_ns),
            duration(rank.waiting_ns),
            duration(rank.hidden_ns) if rank.hidden_ns else MISSING,
            number(rank.launches),
            number(rank.kernels),
            duration(rank.launch_tax_ns),
            share(rank.launch_tax_share),
            last,
            MISSING if rank.verdict is None else rank.verdict.verdict_class,
        ]
    )


def _facts(ranks: RanksOfStepDoc, label: str, *, verbose: bool) -> Iterator[Fact]:
    lines = [*_stragglers(ranks), *_launches(ranks)]
    if ranks.groups:
        matched = f"{plural(ranks.collectives, 'collective')} of {plural(ranks.steps, 'step')} matched"
        lines.append(f"{matched}, steps paired {PAIRED.get(ranks.steps_by or '', '')} · {_clocks(ranks)}")
    else:
        lines.append(_clocks(ranks))
    yield Fact(label, lines)
    yield from verdict_blocks.warnings(ranks.warnings, verbose=verbose)
    concerns = [*ranks.refused, *_missing(ranks)]
    if concerns:
        yield Fact("not matched", concerns if verbose else concerns[:3], concern=True)


def _stragglers(ranks: RanksOfStepDoc) -> Iterator[str]:
    for rank in filter(lambda rank: rank.straggler, ranks.ranks):
        often = ratio(rank.arrived_last or 0, rank.arrivals or 0)
        counts = f"{number(rank.arrived_last)} of {number(rank.arrivals)} ({often}) collectives with a wait"
        waits = f"the others wait {duration(rank.awaited_ns)} a step for it"
        yield f"rank {rank.rank} is late: the last to arrive in {counts}; {waits}"
    if ranks.stragglers or not (ranks.groups or ranks.refused):
        return
    matched = {rank for group in ranks.groups for rank in group.ranks}
    apart = [str(rank.rank) for rank in ranks.ranks if rank.rank not in matched]
    if apart or ranks.refused:
        why = f"no collective of rank {', '.join(apart)} was matched" if apart else ranks.refused[0]
        yield f"whether a rank is late can't be told of all, because {why}"
    else:
        most = max(ranks.ranks, key=lambda rank: rank.awaited_ns or 0.0)
        often = f", last in {ratio(most.arrived_last, most.arrivals)}" if most.arrived_last and most.arrivals else ""
        yield (
            "no straggler: none is surely last in most collectives and waited for 1 % of a step; "
            f"longest for rank {most.rank}: {duration(most.awaited_ns or 0.0)} a step{often}"
        )


def _launches(ranks: RanksOfStepDoc) -> Iterator[str]:
    parts = []
    if ranks.step_spread is not None:
        parts.append(f"step times differ by {share(ranks.step_spread)}")
    skew = ranks.launch_skew_ns
    if skew is not None:
        launches = plural(skew.count, "launch", "launches")
        parts.append(f"launch skew {duration(skew.median)}, p90 {duration(skew.p90)}, over {launches} of collectives")
    if parts:
        yield " · ".join(parts)


def _clocks(ranks: RanksOfStepDoc) -> str:
    """What launches are compared on."""
    apart = max((abs(rank.clock_offset_ns) for rank in ranks.ranks if rank.clock_offset_ns is not None), default=None)
    spread = max((rank.clock_spread_ns for rank in ranks.ranks if rank.clock_spread_ns is not None), default=None)
    by = f"{duration(apart)} apart, ±{duration((spread or 0.0) / 2)}"
    if ranks.alignment == SAME_HOST:
        return "one host, one clock" + ("" if apart is None else f": ends of collectives {by}")
    if ranks.alignment == BY_COLLECTIVES:
        return f"clocks aligned on collectives: up to {by}"
    return "clocks not aligned: durations alone are compared"


def _missing(ranks: RanksOfStepDoc) -> Iterator[str]:
    for group in ranks.groups:
        if group.size is not None and len(group.ranks) < group.size:
            given = f"{len(group.ranks)} of {group.size} ranks of {group.group or 'a group'} were given"
            yield f"{given}: another may be the last to arrive, so waiting is so much at least"
