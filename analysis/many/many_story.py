"""The table of ranks told: how the figures lie, what stands out, and the rows that say it."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from ..figures.registry import values
from ..model.units import MISSING, byte_size, duration, number, plural, seconds, share, written
from ..render.outputs import outputs_of
from ..story.blocks import Block, Fact, Heading, Headline, Listing
from ..story.files import counted_files
from ..story.tables import Column, Row, Table
from ..story.typed import WRITE
from .document import DistributionDoc, OddDoc, RankRow, RanksDocument
from .outliers import FEWEST, missing_words

OF_MEANS: Final = (
    "* step, GPU work and W without waiting: the median step; idle, launch tax, transfer and waiting: of all steps, "
    "as means per step"
)

TOLD: Final = 20
"""Rows told without --verbose."""

_FEW: Final = 10  # ranks from which the tenth and the ninetieth percentile are apart from the extremes
_NAMED: Final = 4  # ranks in the headline
_MISSING_CHARACTERS: Final = 300

OF_RANKS: Final = tuple(value for _, value in values() if value.of_ranks)
"""Numbers of figures that have a column."""

_FIGURES: Final = {
    "period_ns": "step",
    "busy_ns": "GPU work W",
    "gpu_work_without_waiting_ns": "W without waiting",
    "idle_fraction": "idle",
    "launch_tax_ns": "launch tax",
    "launch_tax_share": "of the step",
    "kernels": "kernels",
    "launches": "launches",
    "collectives": "collectives",
    "communication_exposed_ns": "communication, exposed",
    "communication_hidden_ns": "communication, hidden",
    "communication_transfer_ns": "transfer",
    "communication_waiting_ns": "waiting",
    "arrives_last_share": "arrives last",
    "steps": "steps",
    **{value.name: value.words for value in OF_RANKS},
}

_EXTREMES: Final = ("period_ns", "idle_fraction", "launch_tax_ns", "communication_waiting_ns", "busy_ns")
"""Figures whose lowest and highest rank have a row."""


def _tell(doc: RanksDocument, *, verbose: bool) -> Iterator[Block]:
    gpus = sorted({row.gpu for row in doc.rows if row.gpu})
    size = sum(row.bytes or 0 for row in doc.rows)
    right = [plural(len(doc.rows), "file"), byte_size(size), *(gpus[:1] if len(gpus) == 1 else [])]
    yield Heading(_inputs(doc), " · ".join(right))
    yield headline(doc)
    yield from _facts(doc)
    if doc.distributions:
        yield Listing(_distribution_table(doc))
    if doc.odd:
        yield Listing(_odd_table(doc, None if verbose else TOLD))
    notes = [OF_MEANS] if any(row.busy_ns for row in doc.rows) else []
    yield Listing(_rank_table(doc, verbose=verbose), notes)


def _inputs(doc: RanksDocument) -> str:
    return doc.inputs[0] + (f" and {len(doc.inputs) - 1:,} more" if len(doc.inputs) > 1 else "")


def headline(doc: RanksDocument) -> Headline:
    """How many ranks there are, and which stand out."""
    read = sum(row.error is None for row in doc.rows)
    if not read:
        return Headline(f"none of {plural(len(doc.rows), 'file')} can be read", None)
    odd = by_row(doc)
    if not odd and read < FEWEST:
        return Headline(f"{plural(read, 'rank')}: too few to tell which one stands out", None)
    if not odd:
        return Headline(f"no rank of {read:,} stands out", True)
    named = ", ".join(label(doc.rows[row]) for row in [*odd][:_NAMED]) + (", …" if len(odd) > _NAMED else "")
    verb = "stands" if len(odd) == 1 else "stand"
    return Headline(f"{len(odd):,} of {plural(len(doc.rows), 'rank')} {verb} out: {named}", False)


def by_row(doc: RanksDocument) -> dict[int, list[OddDoc]]:
    """Row → all that stands out about it, the farthest out first."""
    found: dict[int, list[OddDoc]] = {}
    for odd in doc.odd:
        found.setdefault(odd.row, []).append(odd)
    return found


def label(row: RankRow) -> str:
    """``rank 3``, or the file's name where no rank is known."""
    return row.name if row.rank is None else f"rank {row.rank}"


def _facts(doc: RanksDocument) -> Iterator[Fact]:
    failed = sum(row.error is not None for row in doc.rows)
    told = [f"{len(doc.rows) - failed:,} of {len(doc.rows):,} read in {seconds(doc.seconds)}"]
    told.append(f"{plural(doc.workers, 'worker')}")
    peak = max((row.worker_peak_bytes or 0 for row in doc.rows), default=0)
    told += [f"a worker held {byte_size(peak)} at most"] if peak else []
    told += [f"{number(doc.resumed)} rows from an earlier run"] if doc.resumed else []
    line = counted_files(len(doc.rows) - failed, failed, doc.skipped)
    yield Fact("files", [" · ".join(told), *([] if line is None else [line])])
    if doc.missing_ranks:
        size = doc.world_size or max(row.rank for row in doc.rows if row.rank is not None) + 1
        text = missing_words(doc.missing_ranks, size)
        yield Fact("missing", [text if len(text) < _MISSING_CHARACTERS else f"{text[:_MISSING_CHARACTERS]}…"], True)
    compared = [doc.alignment.reason]
    compared += [f"left out: {'; '.join(doc.alignment.unmatched)}"] if doc.alignment.unmatched else []
    yield Fact("compared", compared)
    verdicts = [row.verdict_class for row in doc.rows if row.verdict_class is not None]
    counted = sorted(((verdicts.count(name), name) for name in dict.fromkeys(verdicts)), key=lambda each: -each[0])
    if counted:
        yield Fact("verdicts", [" · ".join(f"{name} {count:,}" for count, name in counted)])


def _distribution_table(doc: RanksDocument) -> Table:
    """Without the tails where they would lie between one rank and the next."""
    tails = max(each.count for each in doc.distributions) >= _FEW
    columns = [
        Column("over the ranks", right=False),
        Column("min"),
        Column("rank", rank=1, optional=True),
        *([Column("p10")] if tails else []),
        Column("median"),
        *([Column("p90")] if tails else []),
        Column("max"),
        Column("rank", rank=1),
        Column("ranks", rank=1, optional=True),
    ]
    return Table(columns, [_distribution_row(doc, each, tails=tails) for each in doc.distributions])


def _distribution_row(doc: RanksDocument, its: DistributionDoc, *, tails: bool) -> Row:
    return Row(
        [
            _FIGURES[its.figure],
            _figure(its, its.min),
            _at(doc, its, its.min_at),
            *([_figure(its, its.p10)] if tails else []),
            _figure(its, its.median),
            *([_figure(its, its.p90)] if tails else []),
            _figure(its, its.max),
            _at(doc, its, its.max_at),
            number(its.count),
        ]
    )


def _figure(its: DistributionDoc, value: float) -> str:
    return written(value, its.unit)


def _at(doc: RanksDocument, its: DistributionDoc, row: int) -> str:
    """The rank that has the extreme; none where all ranks are alike."""
    if its.min == its.max:
        return MISSING
    rank = doc.rows[row].rank
    return doc.rows[row].name if rank is None else str(rank)


def _odd_table(doc: RanksDocument, limit: int | None) -> Table:
    """A row per rank that stands out, with all that does."""
    odd = by_row(doc)
    listed = list(odd.items())[:limit]
    columns = [
        Column("stands out", right=False),
        Column("file", right=False, least=20, foreign=True),
        Column("why", right=False, least=36, wraps=True),
    ]
    rows = [
        Row([label(doc.rows[row]), doc.rows[row].name, "; ".join(each.message for each in its)]) for row, its in listed
    ]
    return Table(columns, rows, more=len(odd) - len(listed))


def _rank_table(doc: RanksDocument, *, verbose: bool) -> Table:
    chosen = range(len(doc.rows)) if verbose else _chosen(doc)
    odd = {each.row for each in doc.odd}
    columns = [
        Column("rank"),
        Column("host", right=False, optional=True, foreign=True),
        Column("verdict", right=False),
        Column("step"),
        Column("p90", optional=True),
        Column("GPU\nwork"),
        Column("W without\nwaiting"),
        Column("idle"),
        Column("launch\ntax"),
        Column("waiting"),
        Column("arrives\nlast"),
        Column("launches", optional=True),
        Column("kernels", optional=True),
        Column("steps", optional=True),
        *(Column(value.words.replace(" ", "\n", 1)) for value in OF_RANKS),
        Column("file", right=False, least=18, rank=2, optional=True, foreign=True),
    ]
    rows = [_rank_row(doc.rows[index], strong=index in odd) for index in chosen]
    table = Table(columns, rows, more=len(doc.rows) - len(rows))
    return table.without_empty_columns(MISSING)


def _chosen(doc: RanksDocument) -> Sequence[int]:
    """All of a few; else the odd ones, and the lowest and the highest of the main figures; in order."""
    if len(doc.rows) <= TOLD:
        return range(len(doc.rows))
    wanted = [odd.row for odd in doc.odd]
    by_figure = {each.figure: each for each in doc.distributions}
    for figure in _EXTREMES:
        if (its := by_figure.get(figure)) is not None and its.min < its.max:
            wanted += [its.max_at, its.min_at]
    return sorted(list(dict.fromkeys(wanted))[:TOLD])


def _rank_row(row: RankRow, *, strong: bool) -> Row:
    name = MISSING if row.rank is None else str(row.rank)
    if row.error is not None:
        return Row([name], span=f"{row.name}: {row.error}")
    period, busy = row.period_ns, row.busy_ns
    return Row(
        [
            name,
            row.host or MISSING,
            row.verdict_class or MISSING,
            MISSING if period is None else duration(period.median),
            MISSING if period is None else duration(period.p90),
            MISSING if busy is None else duration(busy.median),
            duration(row.gpu_work_without_waiting_ns),
            share(row.idle_fraction),
            duration(row.launch_tax_ns),
            duration(row.communication_waiting_ns),
            share(row.arrives_last_share),
            number(row.launches),
            number(row.kernels),
            number(row.steps),
            *(WRITE[value.kind](row.figures.get(value.name)) for value in OF_RANKS),
            row.name,
        ],
        strong=strong,
    )


def _render_json(doc: RanksDocument) -> str:
    """As one JSON document of its schema; a line per rank, not one per number."""
    head = msgspec.json.encode(msgspec.structs.replace(doc, rows=[]))
    start, end = msgspec.json.format(head, indent=2).decode().split('"rows": []')
    rows = ",\n    ".join(msgspec.json.encode(row).decode() for row in doc.rows)
    listed = f'"rows": [\n    {rows}\n  ]' if doc.rows else '"rows": []'
    return f"{start}{listed}{end}\n"


render_terminal, render_json, render_markdown = outputs_of(_tell, _render_json)
